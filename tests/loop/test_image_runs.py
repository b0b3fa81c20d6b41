"""Runs on `task:shapes` as they are branched, sampled by other processes, and pruned."""

import json
import shutil
from pathlib import Path

import pytest

from rlvr_cli.models import policy as policies

pytestmark = pytest.mark.slow

SMALL = (
    *("--prompts", "task:shapes:count=6", "--steps", "3", "--prompts-per-step", "2", "-n", "2"),
    *("--max-new-tokens", "8", "--eval-every", "3", "--eval-num-generations", "1"),
    *("--save-every", "1", "--keep-weights", "1", "--learning-rate", "1e-3"),
)
OF_A_BRANCH = {"branch.json", "inputs.json", "_run.json"}


def files_below(run: Path) -> dict[str, bytes]:
    """The files of a run, without logs; metrics.jsonl without seconds."""
    files = {str(f.relative_to(run)): f.read_bytes() for f in run.rglob("*") if f.is_file()}
    records = map(json.loads, files["metrics.jsonl"].splitlines())
    timeless = [{n: v for n, v in record.items() if n != "seconds"} for record in records]
    files["metrics.jsonl"] = json.dumps(timeless).encode()
    return {name: data for name, data in files.items() if not name.startswith("_logs/")}


def done(rlvr, *words: object) -> str:
    ran = rlvr(*words)
    assert ran.code == 0, ran.err
    return ran.err


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    from rlvr_cli.cli import app

    out = tmp_path_factory.mktemp("shapes") / "run"
    assert app.run(["train", *SMALL, "--out", str(out)]) == 0
    return out


def test_a_branch_is_whole_without_its_run_and_goes_on_to_the_same_bytes(rlvr, run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "run")
    words = ("--at", 2, "--algo", "grpo", "--algo", "apmpo", "--out", tmp_path / "branches")
    done(rlvr, "branch", copy, *words)
    shutil.rmtree(copy)
    for name in ("grpo", "apmpo"):
        done(rlvr, "train", "--out", tmp_path / "branches" / name)
        done(rlvr, "check", tmp_path / "branches" / name)
    ours, theirs = (files_below(path) for path in (tmp_path / "branches" / "grpo", run))
    assert {n for n in ours | theirs if ours.get(n) != theirs.get(n)} == OF_A_BRANCH


def test_weights_that_are_kept_alone_read_images(run):
    kept = policies.resolve(str(run / "steps" / "000001" / "update"))
    assert kept.path.name == "_weights"
    assert policies.load(kept).processor is not None


def test_processes_that_sample_for_the_trainer_make_the_bytes_of_one_in_turn(rlvr, tmp_path):
    ahead, schedule = ("--ahead", 1), ("--schedule-of", tmp_path / "run")
    said = done(rlvr, "train", *SMALL, *ahead, "--async", "--out", tmp_path / "run")
    of_this = f"--config {tmp_path / 'run' / 'config.toml'} --algo quatro"
    assert f"rlvr train {of_this} --out {tmp_path / 'quatro-seed0'} && rlvr compare" in said
    done(rlvr, "train", *SMALL, *ahead, *schedule, "--out", tmp_path / "turns")
    ours, theirs = (files_below(tmp_path / name) for name in ("run", "turns"))
    other = {n for n in ours | theirs if ours.get(n) != theirs.get(n)}
    published = {name for name in other if name.endswith("policy/_published.json")}
    assert other - published == {"_run.json", "config.toml", "inputs.json"}
