"""The loop with adapters on a schedule, and with a batch that keeps no row."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rlvr_cli import run_config
from rlvr_cli.cli import app
from rlvr_cli.loop import setup
from rlvr_cli.models import policy

pytestmark = pytest.mark.slow

FLAGS = ["--prompts-per-step", "4", "-n", "4", "--max-new-tokens", "16", "--prompts-per-part", "2"]
UPDATE = ["--learning-rate", "1e-2", "--mini-batch-prompts", "2", "--lora-rank", "2"]
UPDATE += ["--warmup-updates", "1", "--schedule", "cosine", "--decay-updates", "4"]
SMALL = [*FLAGS, *UPDATE, "--eval-every", "2", "--eval-num-generations", "2"]


def words(out: Path, prompts: Path, *more: str) -> list[str]:
    where = ["--prompts", str(prompts / "train"), "--heldout", str(prompts / "heldout")]
    base = ["train", "--algo", "quatro+kl", "--out", str(out), "--steps", "2", *where, *SMALL]
    return [*base, *more]


def train(out: Path, prompts: Path, *more: str) -> int:
    return app.run(words(out, prompts, *more))


def files_of(folder: Path) -> dict[str, bytes]:
    paths = {str(p.relative_to(folder)): p for p in folder.rglob("*") if p.is_file()}
    return {name: path.read_bytes() for name, path in paths.items() if path.name != "metrics.jsonl"}


def lines_of(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def prompts(tmp_path_factory):
    root = tmp_path_factory.mktemp("prompts")
    for split, limit in (("train", "24"), ("heldout", "6")):
        words = ["--split", split, "--limit", limit, "--out", str(root / split)]
        assert app.run(["prompts", "task:expression", *words]) == 0
    return root


@pytest.fixture(scope="module")
def run(prompts, tmp_path_factory):
    out = tmp_path_factory.mktemp("train") / "run"
    assert train(out, prompts, "--steps", "2") == 0
    return out


def test_a_run_trains_adapters_on_its_schedule_over_the_steps(run):
    parts = sorted(run.glob("steps/*/update/part-00000.parquet"))
    rates = [rate for part in parts for rate in pq.read_table(part)["learning_rate"].to_pylist()]
    assert rates == pytest.approx([0.01, 0.01, 0.0075, 0.0025])
    resolved = policy.resolve(str(run / "steps" / "000002" / "update"))
    assert resolved.base.name == "builtin"
    lines = lines_of(run)
    assert [line["updates"] for line in lines[1:]] == [2, 2]
    for line in lines[1:]:
        assert (line["first_ratio_min"], line["first_ratio_max"]) == pytest.approx((1, 1), abs=1e-6)


def test_one_step_and_one_more_are_two(run, prompts, tmp_path):
    assert train(tmp_path / "run", prompts, "--steps", "1") == 0
    shutil.rmtree(tmp_path / "run" / "eval" / "000001")  # the last step is always evaluated
    assert train(tmp_path / "run", prompts, "--steps", "2") == 0
    assert files_of(tmp_path / "run") == files_of(run)


def test_commands_typed_by_hand_make_the_same_bytes(run, prompts, tmp_path):
    hand, model = tmp_path / "hand", "builtin"
    for step in (1, 2):
        here = hand / "steps" / f"{step:06d}"
        flags = ["--model", model, "--step", str(step), "--out", str(here / "rollouts"), *FLAGS]
        for stage, source, options in (
            ("rollout", prompts / "train", flags),
            ("score", here / "rollouts", []),
            ("logprob", here / "rollouts", ["--columns", "ref_logp", "--ref-model", "builtin"]),
            ("advantage", here / "scores", ["--algo", "quatro+kl"]),
            ("train-step", here / "advantages", UPDATE),
        ):
            assert app.run([stage, str(source), *options]) == 0
        model = str(here / "update")
    assert files_of(hand / "steps") == files_of(run / "steps")


def test_a_checkpoint_of_adapters_that_is_gone_is_made_again_from_the_stored_rollouts(
    run, prompts, tmp_path
):
    broken = shutil.copytree(run, tmp_path / "run")
    shutil.rmtree(broken / "steps" / "000002" / "update" / "_checkpoint")
    assert train(broken, prompts, "--steps", "2") == 0
    assert files_of(broken) == files_of(run)


@pytest.mark.parametrize("sign", ["steps/000001/update/_checkpoint", "steps/000002/rollouts"])
def test_a_killed_run_goes_on_to_the_same_bytes(run, prompts, tmp_path, sign):
    """SIGKILL to a process of its own as soon as there is the sign."""
    out = tmp_path / "run"
    code = f"import sys; from rlvr_cli.cli import app; sys.exit(app.run({words(out, prompts)!r}))"
    for _ in range(20):
        child = subprocess.Popen([sys.executable, "-P", "-c", code], cwd=tmp_path)
        while not (out / sign).exists() and child.poll() is None:
            time.sleep(0.002)
        child.kill()
        if child.wait() != 0:
            break
        shutil.rmtree(out)  # the run was over before the signal came
    assert child.returncode == -signal.SIGKILL
    assert train(out, prompts, "--steps", "2") == 0
    assert files_of(out) == files_of(run)


def test_a_run_may_start_from_adapters_and_keeps_them_as_its_reference(run, prompts, tmp_path):
    model = str(run / "steps" / "000002" / "update")
    words = ["--model", model, "--eval-every", "0", "--steps", "1", "--learning-rate", "0"]
    assert train(tmp_path / "run", prompts, *words) == 0
    (line,) = lines_of(tmp_path / "run")[1:]
    assert line["kl"] == pytest.approx(0, abs=1e-9)
    start = tmp_path / "run" / "steps" / "000001"
    reference = pq.read_table(start / "logprobs")["ref_logp"].to_pylist()
    sampled = pq.read_table(start / "rollouts")["behaviour_logp"].to_pylist()
    assert [x for row in reference for x in row] == pytest.approx(
        [x for row in sampled for x in row], abs=1e-4
    )


def test_a_batch_that_keeps_no_row_does_not_end_a_run(tmp_path, capsys):
    """One token is no expression, so no completion is right and `psr` keeps none."""
    out = tmp_path / "run"
    words = ["train", "--algo", "psr", "--out", str(out), *FLAGS, "--max-new-tokens", "1"]
    words += ["--steps", "2", "--eval-every", "0"]
    assert app.run(words) == 0
    err = capsys.readouterr().err
    assert "step 1: no completion to train on" in err
    assert "step 2 of 2: reward 0.000 entropy nan kl nan" in err
    lines = lines_of(out)
    assert [line.get("updates") for line in lines] == [None, 0, 0]
    assert lines[1]["loss"] is None and lines[1]["tokens"] == 0
    before, *after = (
        policy.resolve(str(name)).digest
        for name in ("builtin", *sorted(out.glob("steps/*/update")))
    )
    assert after[0] == after[1] != before
    assert app.run([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] == 2


def test_steps_between_checkpoints_are_made_again_after_a_crash_from_the_newest_one(tmp_path):
    """With one kept checkpoint and two steps between: cut off at step 3, it is that of step 2."""
    flags = {"steps": 4, "eval_every": 0, "keep": 1, "save_every": 2}
    given = {
        "train": {**flags, "prompts_per_step": 4},
        "rollout": {"num_generations": 4, "max_new_tokens": 16},
        "train_step": {"learning_rate": 1e-3},
    }
    chosen = run_config.load([], given)

    def checkpoints(out):
        return sorted(path.parent.parent.name for path in out.glob("steps/*/update/_checkpoint"))

    whole, cut = tmp_path / "whole", tmp_path / "cut"
    list(setup.train(whole, chosen))
    assert checkpoints(whole) == ["000004"]
    for record in setup.train(cut, chosen):
        if record["step"] == 3:
            break
    assert checkpoints(cut) == ["000002"]
    assert [record["step"] for record in setup.train(cut, chosen)] == [2, 3, 4]
    assert checkpoints(cut) == ["000004"]
    assert files_of(cut) == files_of(whole)
