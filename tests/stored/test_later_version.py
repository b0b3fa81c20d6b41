"""A later version, made here by editing a copy of this one, resumes what version 0.1.0 stored.

It has more options, other defaults, a further column and one that became nullable, in a stage, in
a run, and inside the specs of an objective, an engine and a trainer.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import rlvr_cli

pytestmark = pytest.mark.slow

STORED = Path(__file__).parent / "0.1.0"
EDITS = {
    "__init__.py": [('"0.1.0"', '"0.2.0"')],
    "config.py": [
        (
            "    temperature: float = option(1.0,",
            '    min_p: float = option(0.05, "a new option", least=0, earlier=0.0)\n'
            "    temperature: float = option(0.9,",  # stored by all versions: needs no `earlier`
        ),
        (
            "    epochs: int = option(",
            '    momentum: float = option(0.5, "a new option", earlier=0.0)\n'
            "    epochs: int = option(",
        ),
        ('        16384, "padded tokens', '        8192, "padded tokens'),
    ],
    "algorithms/objectives/grpo.py": [
        ("    clip_high: float = 0.2,", "    clip_high: float = 0.28,\n    delta: float = 3.0,"),
        ("\n\ndef build(", '\n\nEARLIER = {"clip_high": 0.2, "delta": 0.0}\n\n\ndef build('),
    ],
    "storage/schema.py": [
        (
            '        _field("extracted", _TEXT, null=True),\n',
            '        _field("extracted", _TEXT, null=True),\n'
            '        _field("judge", _TEXT, null=True),\n',
        ),
        (
            '_field("status", pa.string(), "ok, prompt_truncated or prompt_too_long"),',
            '_field("status", pa.string(), "ok, prompt_truncated or ...", null=True),',
        ),
    ],
    "stages/score.py": [
        (
            '        "status": [v.status if v else "aborted" for v in verdicts],\n',
            '        "status": [v.status if v else "aborted" for v in verdicts],\n'
            '        "judge": ["nobody" for v in verdicts],\n',
        ),
    ],
}


@pytest.fixture(scope="module")
def later(tmp_path_factory):
    """The folder of a package that is a later version."""
    root = tmp_path_factory.mktemp("later")
    source = Path(rlvr_cli.__file__).parent
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(source, root / "rlvr_cli", symlinks=False, ignore=ignored)
    for name, edits in EDITS.items():
        path = root / "rlvr_cli" / name
        text = path.read_text()
        for old, new in edits:
            assert text.count(old) == 1, f"{name} no longer holds {old!r} once"
            text = text.replace(old, new)
        path.write_text(text)
    return root


@pytest.fixture
def run(later, tmp_path):
    """Runs a command of the later version in a copy of the stored folder."""
    folder = shutil.copytree(STORED, tmp_path / "stored")

    def ran(*words: str) -> subprocess.CompletedProcess[str]:
        code = "from rlvr_cli.cli.app import main; main()"
        return subprocess.run(
            [sys.executable, "-P", "-c", code, *words],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(later), "RLVR_DEBUG": "1"},
            capture_output=True,
            text=True,
        )

    return ran


def command(directory: str) -> list[str]:
    entries = json.loads((STORED / "commands.json").read_text())
    return next(entry["command"] for entry in entries if entry["directory"] == directory)


@pytest.mark.parametrize(
    "directory", ["half/rollouts", "half/advantages", "half/update", "half/logprobs", "half/scores"]
)
def test_a_half_made_directory_is_finished_as_it_was_begun(run, tmp_path, directory):
    folder = tmp_path / "stored" / directory
    listing = next(folder.glob("_partial*.json"), None)
    begun = json.loads(listing.read_text()) if listing else None
    ran = run(*command(directory))
    assert ran.returncode == 0, ran.stderr
    manifest = json.loads((folder / "_manifest.json").read_text())
    if begun is None:  # nothing was listed: it is made as this version makes it
        return
    assert manifest["fingerprint"] == begun["fingerprint"]
    assert manifest["params"] == begun["params"]
    schemas = [pq.read_schema(path) for path in sorted(folder.glob("part-*.parquet"))]
    assert all(schema.names == schemas[0].names for schema in schemas)
    assert json.loads(schemas[-1].metadata[b"rlvr"])["fingerprint"] == begun["fingerprint"]


@pytest.mark.parametrize(
    "directory", ["whole/rollouts", "whole/scores", "whole/advantages-grpo", "whole/update"]
)
def test_a_complete_directory_is_left_as_it_is(run, tmp_path, directory):
    folder = tmp_path / "stored" / directory
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    ran = run(*command(directory))
    assert ran.returncode == 0, ran.stderr
    assert "nothing left to do" in ran.stderr
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_columns_that_were_added_or_became_nullable_are_read_from_earlier_directories(
    run, tmp_path
):
    made = run("advantage", "whole/scores", "--out", "new/advantages")
    assert made.returncode == 0, made.stderr
    step = run("train-step", "new/advantages", "--out", "new/update", "--model", "policy")
    assert step.returncode == 0, step.stderr
    params = json.loads((tmp_path / "stored/new/advantages/_manifest.json").read_text())["params"]
    assert params["algo"].startswith("grpo:clip_low=0.2,clip_high=0.28,delta=3.0")


def test_a_killed_run_resumes_and_ends(run, tmp_path):
    folder = tmp_path / "stored" / "runs" / "grpo"
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    ran = run(*command("runs/grpo"))
    assert ran.returncode == 0, ran.stderr
    after = (folder / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in after] == list(range(7))
    kept = json.loads((folder / "steps/000006/rollouts/_manifest.json").read_text())["params"]
    assert (kept["temperature"], kept["min_p"]) == (1.0, 0.0)
    algo = json.loads((folder / "steps/000006/advantages/_manifest.json").read_text())["params"]
    assert algo["algo"].startswith("grpo:clip_low=0.2,clip_high=0.2,delta=0.0")
    assert after[:2] == lines[:2]


def test_what_is_given_is_compared_and_the_difference_names_both_versions(run):
    ran = run(*command("whole/rollouts"), "--temperature", "0.9")
    assert ran.returncode == 2, ran.stderr
    assert "by rlvr 0.1.0, this is 0.2.0: temperature was 1.0, is 0.9" in ran.stderr
    ran = run(*command("whole/rollouts"), "--min-p", "0.2")
    assert "min_p was 0.0, is 0.2" in ran.stderr
    ran = run("advantage", "whole/scores", "--algo", "grpo:clip_high=0.28", "--out",
              "whole/advantages-grpo")  # fmt: skip
    assert ran.returncode == 2 and "algo was grpo:" in ran.stderr
    ran = run(*command("runs/grpo"), "--temperature", "0.9")
    assert "by rlvr 0.1.0, this is 0.2.0: temperature was 1.0, is 0.9" in ran.stderr


def test_an_option_that_this_version_does_not_know_is_refused_by_name(rlvr, tmp_path, monkeypatch):
    folder = shutil.copytree(STORED, tmp_path / "stored")
    monkeypatch.chdir(folder)
    config = folder / "runs" / "grpo" / "config.toml"
    config.write_text(config.read_text().replace("[rollout]\n", "[rollout]\nmin_p = 0.3\n"))
    ran = rlvr(*command("runs/grpo"))
    assert ran.code == 3
    assert "`min_p = 0.3` in [rollout]" in ran.err and "does not know" in ran.err
