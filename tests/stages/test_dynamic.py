import functools
import itertools
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlvr_cli import registry
from rlvr_cli.cli import app
from rlvr_cli.config import RolloutOptions
from rlvr_cli.models import policy
from rlvr_cli.runtime import seeds
from rlvr_cli.stages import dynamic, rollout
from rlvr_cli.stages.selection import Selection
from rlvr_cli.storage import schema
from rlvr_cli.storage.shards import Shards

SMALL = ("--max-new-tokens", 16, "-n", 4, "--prompts-per-part", 3, "--model", "builtin")
STEP = (*SMALL, "--prompts-per-step", 8, "--step", 1)
TINY = RolloutOptions(num_generations=2, max_new_tokens=8, prompts_per_part=2, max_draws=3)


def files_of(folder: Path) -> dict[str, bytes]:
    paths = {str(p.relative_to(folder)): p for p in folder.rglob("*") if p.is_file()}
    return {name: path.read_bytes() for name, path in paths.items() if path.name != "metrics.jsonl"}


def rewards_of(scores: Path) -> dict[str, list[float]]:
    """The rewards of each group, in the order of the rows."""
    rows = pq.read_table(scores).to_pylist()
    groups = itertools.groupby(rows, key=lambda row: row["prompt_id"])
    return {name: [row["reward"] for row in group] for name, group in groups}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Prompts, and the rollouts of a step of 8 of them that needs a second draw."""
    root = tmp_path_factory.mktemp("dynamic")
    for words in (
        ["prompts", "task:expression", "--out", root / "prompts"],
        ["rollout", root / "prompts", *STEP, "--max-draws", 3],
    ):
        assert app.run([str(word) for word in words]) == 0
    return root


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        ([1.0, 0.0], True),
        ([1.0, 1.0], False),
        ([0.0, 0.0], False),
        ([0.3, 0.1 + 0.2], True),
        ([0.0, -0.0], False),
        ([None, 1.0, 1.0], False),
        ([None, 1.0, 0.0], True),
        ([None, None], False),
        ([1.0], False),
    ],
)
def test_a_group_is_mixed_if_two_of_its_rewards_differ(rewards, expected):
    n = len(rewards)
    columns = {
        "prompt_id": ["p"] * n,
        "sample_index": range(n),
        "reward": rewards,
        "correct": [None] * n,
        "extracted": [None] * n,
        "reason": [None] * n,
        "status": ["ok"] * n,
    }
    table = pa.table({k: list(v) for k, v in columns.items()}, schema.schema("scores"))
    assert dynamic.mixed(table) == (["p"] if expected else [])


def test_the_rows_are_the_first_mixed_groups_in_the_order_drawn(root):
    draws = root / "rollouts" / "_draws"
    assert sorted(p.name for p in draws.iterdir()) == ["0", "1"]
    expected = []
    for draw in ("0", "1"):
        rows = pq.read_table(draws / draw / "rollouts").to_pylist()
        for prompt_id, rewards in rewards_of(draws / draw / "scores").items():
            if max(rewards) != min(rewards):
                expected.append([row for row in rows if row["prompt_id"] == prompt_id])
    assert len(expected) > 8
    assert pq.read_table(root / "rollouts").to_pylist() == list(itertools.chain(*expected[:8]))


def test_the_summary_says_how_many_were_drawn(root):
    summary = Shards.open(root / "rollouts").summary
    counts = {name: summary[name] for name in ("draws", "drawn", "wanted", "prompts", "unrewarded")}
    assert counts == {"draws": 2, "drawn": 16, "wanted": 8, "prompts": 8, "unrewarded": 0}
    assert summary["completions"] == 32


def test_the_first_draw_is_the_rollout_of_the_step_without_further_ones(root, rlvr, tmp_path):
    shutil.copytree(root / "prompts", tmp_path / "prompts")
    assert rlvr("rollout", tmp_path / "prompts", *STEP).code == 0
    draw = root / "rollouts" / "_draws" / "0" / "rollouts"
    assert pq.read_table(tmp_path / "rollouts").equals(pq.read_table(draw))
    plain = Shards.open(tmp_path / "rollouts").manifest
    assert Shards.open(draw).manifest["fingerprint"] == plain["fingerprint"]


def test_a_row_has_the_seed_it_would_have_in_any_draw(root):
    for row in pq.read_table(root / "rollouts").to_pylist():
        assert row["seed"] == seeds.row_seed(0, 1, row["prompt_id"], row["sample_index"])


def test_draws_take_every_prompt_once(prompts_named):
    ids = prompts_named(*(f"p{number}" for number in range(23)))
    step = Selection(seed=3, step=2, prompts_per_step=5, limit=21)
    draws = [replace(step, draw=draw).of(ids).tolist() for draw in range(6)]
    assert list(map(len, draws)) == [5, 5, 5, 5, 1, 0]
    assert sorted(itertools.chain(*draws)) == list(range(21))
    assert draws[0] == step.of(ids).tolist()
    assert (
        replace(step, draw=1, step=6).of(ids).tolist() != draws[1]
    )  # the same step of the next epoch


@pytest.mark.slow
def test_every_later_stage_takes_the_directory_as_it_takes_any_other(root, rlvr, tmp_path):
    shutil.copytree(root, tmp_path / "copy")
    here = tmp_path / "copy"
    assert rlvr("check", here / "rollouts").code == 0
    assert rlvr("check", here / "rollouts" / "_draws" / "1" / "scores").code == 0
    assert Shards.open(here / "rollouts").parent("prompts").path == here / "prompts"
    assert rlvr("score", here / "rollouts").code == 0
    assert all(max(rewards) != min(rewards) for rewards in rewards_of(here / "scores").values())
    summary = json.loads(rlvr("advantage", here / "scores", "--json").out)
    assert (summary["groups"], summary["informative"], summary["kept"]) == (8, 8, 32)
    assert rlvr("train-step", here / "advantages").code == 0


def test_running_again_changes_nothing_and_says_so(root, rlvr):
    before = files_of(root / "rollouts")
    ran = rlvr("rollout", root / "prompts", *STEP, "--max-draws", 3)
    assert "nothing left to do" in ran.err and "8 of 8 groups, from 16 in 2 draws" in ran.err
    assert files_of(root / "rollouts") == before


def test_another_number_of_draws_is_refused(root, refused):
    err = refused(2, "rollout", root / "prompts", *STEP, "--max-draws", 4)
    assert "max_draws was 3, is 4" in err


@pytest.mark.slow
def test_fewer_mixed_groups_than_wanted_are_taken_and_counted(root, rlvr, tmp_path):
    shutil.copytree(root / "prompts", tmp_path / "prompts")
    words = ("--prompts-per-step", 10, "--limit", 12, "--max-draws", 9)
    ran = rlvr("rollout", tmp_path / "prompts", *SMALL, *words, "--json")
    summary = json.loads(ran.out)
    assert (summary["draws"], summary["drawn"], summary["wanted"]) == (2, 12, 10)
    assert 0 < summary["prompts"] < 7  # the last of its four parts is empty
    assert f"{summary['prompts']} of 10 groups, from 12 in 2 draws" in ran.err
    assert len(pq.read_table(tmp_path / "rollouts")) == 4 * summary["prompts"]
    for stage, source in (
        *(("score", "rollouts"), ("logprob", "rollouts"), ("advantage", "scores")),
        *(("train-step", "advantages"), ("check", "rollouts"), ("eval-passk", "scores")),
    ):
        assert rlvr(stage, tmp_path / source).code == 0, stage


def test_the_last_draw_allowed_is_the_last(root, rlvr, tmp_path):
    words = ("--prompts-per-step", 10, "--max-draws", 2, "-n", 2, "--out", tmp_path / "made")
    summary = json.loads(rlvr("rollout", root / "prompts", *SMALL, *words, "--json").out)
    assert (summary["draws"], summary["drawn"]) == (2, 20)
    assert summary["prompts"] < 10


def test_no_mixed_group_at_all_is_an_error_with_counts(refused, jsonl, tmp_path):
    rows = [{"prompt": f"{i}=", "answer": "1000", "verifier": "expression"} for i in range(5)]
    app.run(["prompts", str(jsonl(*rows)), "--out", str(tmp_path / "prompts")])
    words = ("--prompts-per-step", 2, "--max-draws", 7)
    err = refused(3, "rollout", tmp_path / "prompts", *SMALL, *words)
    assert "not one of 5 groups, from 3 draws, has different rewards" in err
    assert "0 of the completions have no reward" in err and "--max-draws" in err
    assert not (tmp_path / "rollouts" / "_manifest.json").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--max-draws", 2), "--prompts-per-step"),
        (("--max-draws", 2, "--prompts-per-step", 4, "--shard", "0/2"), "--shard is 0/2"),
        (("--max-draws", 2, "--prompts-per-step", 4, "-n", 1), "--num-generations 2"),
        (("--max-draws", 0, "--prompts-per-step", 4), "--max-draws is 0"),
        (("--max-draws", 2, "--prompts-per-step", 60), "--prompts-per-step 56"),
    ],
)
@pytest.mark.parametrize("dry", [(), ("--dry-run",)], ids=["run", "dry-run"])
def test_a_wrong_word_is_a_usage_error(root, refused, tmp_path, words, message, dry):
    out = tmp_path / "made"
    assert message in refused(2, "rollout", root / "prompts", *SMALL, *words, "--out", out, *dry)
    assert not out.exists()


def test_dry_run_says_how_often_it_would_draw(root, rlvr, tmp_path):
    words = (*STEP, "--max-draws", 3, "--out", tmp_path / "made", "--dry-run")
    assert "8 prompts x 4 completions of `builtin`, in 3 draws at most, would go" in (
        rlvr("rollout", root / "prompts", *words).err
    )
    assert not (tmp_path / "made").exists()


class Counted:
    """An engine of the built-in policy that keeps how often it was made and used.

    What it sampled once it knows: a completion depends on its prompt and its seed alone.
    """

    supports_continuous_batching = False
    known: ClassVar[dict] = {}

    def __init__(self, loaded):
        self.loaded, self.made, self.sampled = loaded, 0, 0

    def __call__(self):
        self.made += 1
        self._engine = registry.build("rollout", "transformers")(self.loaded.policy, self.loaded)
        return self

    def generate(self, requests, sampling):
        self.sampled += len(requests)
        keys = [(*request.prompt_token_ids, request.seed, sampling) for request in requests]
        new = [index for index, key in enumerate(keys) if key not in self.known]
        for place, completion in self._engine.generate([requests[i] for i in new], sampling):
            self.known[keys[new[place]]] = completion
        yield from enumerate(self.known[key] for key in keys)


@pytest.fixture
def sample(root, loaded):
    """Makes the rollouts of a step of 3, in parts of 2; the engine that made them."""

    def sample(out: Path, engine: Counted | None = None) -> Counted:
        engine = engine or Counted(loaded)
        prompts = Shards.open(root / "prompts")
        selection = Selection(step=1, prompts_per_step=3)
        resolved = policy.resolve("builtin")
        assert rollout.run(prompts, out, resolved, TINY, selection, engine=engine) is not None
        return engine

    return sample


def test_the_engine_is_made_once_for_all_draws(sample, tmp_path):
    engine = sample(tmp_path / "made")
    assert engine.made == 1
    assert engine.sampled == 6 * Shards.open(tmp_path / "made").summary["draws"] > 6


def test_a_damaged_part_is_made_again_from_the_stored_draws(sample, tmp_path):
    sample(tmp_path / "made")
    before = files_of(tmp_path / "made")
    (tmp_path / "made" / "part-00001.parquet").write_bytes(b"")
    assert sample(tmp_path / "made").sampled == 0
    assert files_of(tmp_path / "made") == before


def test_a_complete_directory_needs_no_draws(sample, tmp_path):
    sample(tmp_path / "made")
    shutil.rmtree(tmp_path / "made" / "_draws")
    assert sample(tmp_path / "made").sampled == 0


class Killed(BaseException):
    """Stands for SIGKILL: nothing may catch it and tidy up."""


@pytest.mark.slow
def test_a_kill_at_any_rename_loses_at_most_one_part(sample, loaded, tmp_path, monkeypatch):
    """Every rename and link of every draw and of the result is the last one, in turn."""
    whole = sample(tmp_path / "whole")
    expected = files_of(tmp_path / "whole")
    real = {name: getattr(os, name) for name in ("replace", "rename", "link")}
    for fatal in itertools.count(1):
        out = tmp_path / "killed"
        shutil.rmtree(out, ignore_errors=True)
        calls, engine = itertools.count(1), Counted(loaded)

        def dying(name, *arguments, calls=calls, fatal=fatal):
            if next(calls) == fatal:
                raise Killed
            return real[name](*arguments)

        with monkeypatch.context() as patch:
            for name in real:
                patch.setattr(os, name, functools.partial(dying, name))
            try:
                sample(out, engine)
                break
            except Killed:
                pass
        sample(out, engine)
        assert files_of(out) == expected
        assert engine.sampled <= whole.sampled + 2 * 2
    assert fatal > 20


TRAIN = ["--prompts-per-step", "6", "-n", "4", "--max-new-tokens", "16", "--prompts-per-part", "2"]
TRAIN += ["--learning-rate", "3e-4", "--eval-every", "2", "--eval-num-generations", "1"]


def train(out: Path, *words: str) -> int:
    return app.run(["train", "--out", str(out), "--steps", "2", "--keep", "9", *TRAIN, *words])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("train") / "run"
    assert train(out, "--max-draws", "3") == 0
    return out


@pytest.mark.slow
def test_a_run_draws_for_its_steps_and_not_for_its_evaluations(trained):
    lines = [json.loads(line) for line in (trained / "metrics.jsonl").read_text().splitlines()]
    for line in lines[1:]:
        assert line["informative"] == 1
        assert line["drawn"] == 6 * line["draws"] and line["prompts"] <= 6
    assert max(line["draws"] for line in lines[1:]) > 1
    assert not list(trained.glob("eval/**/_draws"))
    assert {Shards.open(p).params["max_draws"] for p in trained.glob("eval/*/rollouts")} == {1}


@pytest.mark.slow
def test_the_command_makes_the_bytes_of_the_run(trained, rlvr, tmp_path):
    shutil.copytree(trained / "prompts", tmp_path / "prompts")
    out = tmp_path / "steps" / "000001" / "rollouts"
    words = ("--step", 1, "--max-draws", 3, "--out", out, "--model", "builtin", *TRAIN[:8])
    assert rlvr("rollout", tmp_path / "prompts" / "train", *words).code == 0
    assert files_of(out) == files_of(trained / "steps" / "000001" / "rollouts")


@pytest.mark.slow
@pytest.mark.parametrize(
    "lost",
    [
        ["_draws/1", "part-*", "_manifest.json"],
        ["_draws/1/rollouts/_manifest.json", "_draws/1/scores", "part-*", "_manifest.json"],
        ["_manifest.json"],
    ],
    ids=["between draws", "within a draw", "before the end"],
)
def test_a_run_killed_between_draws_goes_on_to_the_same_bytes(trained, tmp_path, lost):
    run = shutil.copytree(trained, tmp_path / "run")
    drawn = [p.parent.parent for p in run.glob("steps/*/rollouts/_draws/1")]
    step = max(path.parent for path in drawn)
    for later in run.glob("steps/*"):
        if later.name > step.name:
            shutil.rmtree(later)
    for folder in ("scores", "advantages", "update"):
        shutil.rmtree(step / folder)
    shutil.rmtree(run / "eval" / "000002")
    for pattern in lost:
        for path in list((step / "rollouts").glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert train(run, "--max-draws", "3") == 0
    assert files_of(run) == files_of(trained)


def test_a_run_refuses_another_number_of_draws(trained, capsys):
    assert train(trained, "--max-draws", "2") == 2
    assert "max_draws was 3, is 2" in capsys.readouterr().err
