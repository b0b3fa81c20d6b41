"""What goes wrong with a directory or a run that was begun, and what is said of it."""

import json
import shutil
from pathlib import Path

import pytest

from rlvr_cli import registry

STORED = Path(__file__).parent / "0.1.0"


@pytest.fixture
def stored(tmp_path, monkeypatch):
    folder = shutil.copytree(STORED, tmp_path / "stored")
    monkeypatch.chdir(folder)
    return folder


def command(directory: str) -> list[str]:
    entries = json.loads((STORED / "commands.json").read_text())
    return next(entry["command"] for entry in entries if entry["directory"] == directory)


def test_a_damaged_part_is_not_made_again_by_another_version_of_a_verifier(
    refused, stored, monkeypatch
):
    part = next(Path("whole/scores").glob("part-*.parquet"))
    part.write_bytes(part.read_bytes() + b"x")
    before = part.read_bytes()
    monkeypatch.setattr(registry.module("verifiers", "expression"), "VERSION", 2, raising=False)
    assert "the version of verifier `expression` was 1, is 2" in refused(
        2, *command("whole/scores")
    )
    assert part.read_bytes() == before


@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        ("[rollout]\n", "[rollout]\nmin_p = 0.3\n", 3, "`min_p = 0.3` in [rollout]"),
        ("[train]\n", "foo = 3\n[train]\n", 3, "`foo`"),
        ("[train]\n", "[bar]\n[train]\n", 3, "`bar`"),
        ("steps = 6\n", 'steps = "abc"\n', 2, "`steps` is 'abc'"),
        ('overlong = "error"\n', 'overlong = "foo"\n', 2, "`overlong` is 'foo'"),
        ("learning_rate = 0.001\n", "", 3, "lacks `learning_rate` in [train-step]"),
    ],
)
def test_a_changed_configuration_of_a_run_is_refused(refused, stored, old, new, code, message):
    path = Path("runs/grpo/config.toml")
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    words = [word for word in command("runs/grpo") if word not in ("--learning-rate", "1e-3")]
    assert message in refused(code, *words)


def test_damaged_inputs_of_a_run_are_refused(refused, stored):
    Path("runs/grpo/inputs.json").write_text("{")
    assert "inputs.json` is not as it was written" in refused(3, *command("runs/grpo"))


def test_a_run_in_the_default_folder_is_resumed_only_with_its_model_and_prompts(
    refused, stored, monkeypatch
):
    shutil.copytree("runs/finished", "runs/apo-seed0")
    err = refused(2, "train", "--algo", "apo", "--steps", "3")
    assert "`runs/apo-seed0` holds a run of `policy` on `whole/prompts`" in err
    assert "--out runs/apo-seed0" in err


def test_a_run_says_what_it_was_begun_with(rlvr, stored):
    ran = rlvr("train", "--steps", "3", "--out", "runs/finished")
    assert ran.code == 0, ran.err
    assert "was begun with model policy" in ran.err and "learning_rate 0.001" in ran.err


def test_a_recipe_of_a_run_that_was_begun_needs_no_prompts_again(refused, stored):
    err = refused(2, "train", "--recipe", "apo", "--model", "policy", "--out", "runs/finished")
    assert "was started with other parameters" in err


def test_the_verifier_that_was_given_at_the_start_stays(rlvr, stored):
    words = ("score", "whole/rollouts", "--out", "new/scores")
    assert rlvr(*words, "--verifier", "format").code == 0
    again = rlvr(*words)
    assert again.code == 0 and "nothing left to do" in again.err, again.err


def test_a_directory_of_another_kind_is_said_to_be_one(refused, stored):
    err = refused(2, "rollout", "whole/prompts", "--model", "policy", "--out", "whole/scores")
    assert "made with other parameters: kind was scores, is rollouts" in err


def test_nothing_is_said_of_what_was_begun_with_the_defaults(rlvr, stored):
    for words in (
        ("advantage", "whole/scores", "--out", "new/advantages"),
        ("logprob", "whole/rollouts", "--model", "policy", "--out", "new/logprobs"),
    ):
        assert rlvr(*words).code == 0
        again = rlvr(*words)
        assert again.code == 0 and "was begun with" not in again.err, again.err


def test_code_of_a_file_may_have_a_version_of_its_own_kind(rlvr, stored):
    Path("my-reward.py").write_text(
        'VERSION = "1.2.0"\n\n\n'
        "def build(*, n: int = 1):\n"
        '    """One for completions of at least n characters."""\n'
        "    from rlvr_cli.protocols import Verdict\n\n"
        "    def verify(completion, *, answer, extra):\n"
        "        right = len(completion) >= n\n"
        '        return Verdict("ok", float(right), right, completion)\n\n'
        "    return verify\n"
    )
    spec = "my-reward.py:build:n=1+my-reward.py:build:n=6"
    ran = rlvr("score", "whole/rollouts", "--verifier", spec, "--out", "new/scores")
    assert ran.code == 0, ran.err
    columns = json.loads(Path("new/scores/_manifest.json").read_text())["extra"]
    assert len(columns) == 2, columns
