"""What may change when a run resumes, and what its rows do not depend on."""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rlvr_cli import config, run_config
from rlvr_cli.errors import UsageError
from rlvr_cli.loop import preflight, run_directory, setup, stored_config
from rlvr_cli.models import policy
from rlvr_cli.stages import rollout_options
from rlvr_cli.verification.scoring import rewards as scoring

pytestmark = pytest.mark.slow


def chosen(**flags):
    train = {"steps": 3, "eval_every": 0, "keep": 9, "prompts_per_step": 4, **flags}
    sampling = {"num_generations": 4, "max_new_tokens": 16}
    given = {"train": train, "rollout": sampling, "train_step": {"learning_rate": 1e-3}}
    return run_config.load([], given)


def interrupted(out: Path, after: int, **flags) -> None:
    for record in setup.train(out, chosen(**flags)):
        if record["step"] == after:
            return


def rewards(out: Path) -> list:
    return [pq.read_table(p)["reward"].to_pylist() for p in sorted(out.glob("steps/*/scores"))]


def checkpoints(out: Path) -> list[str]:
    return sorted(path.parent.parent.name for path in out.glob("steps/*/update/_checkpoint"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "run"
    list(setup.train(out, chosen()))
    return out


def test_evaluations_may_begin_when_a_run_resumes(whole, tmp_path):
    interrupted(tmp_path / "run", 1)
    assert not (tmp_path / "run" / "eval").exists()
    records = list(setup.train(tmp_path / "run", chosen(eval_every=2, eval_num_generations=16)))
    assert ["eval" in record for record in records] == [False, True, True]
    assert rewards(tmp_path / "run") == rewards(whole)


def test_evaluations_may_end_and_the_digest_of_their_prompts_stays(whole, tmp_path):
    interrupted(tmp_path / "run", 1, eval_every=1)
    before = json.loads((tmp_path / "run" / "inputs.json").read_text())
    list(setup.train(tmp_path / "run", chosen(eval_every=0)))
    assert sorted(p.name for p in (tmp_path / "run" / "eval").iterdir()) == ["000000", "000001"]
    assert json.loads((tmp_path / "run" / "inputs.json").read_text()) == before
    assert rewards(tmp_path / "run") == rewards(whole)


@pytest.mark.parametrize("after", [1, 2])
def test_checkpoints_may_be_written_more_often(whole, tmp_path, after):
    """Steps that were begun from a policy without a checkpoint go on from it."""
    interrupted(tmp_path / "run", after, save_every=3)
    assert checkpoints(tmp_path / "run") == []
    records = list(setup.train(tmp_path / "run", chosen(save_every=1)))
    assert [record["step"] for record in records] == [0, 1, 2, 3]
    assert checkpoints(tmp_path / "run") == [f"00000{n}" for n in range(after, 4)]
    assert rewards(tmp_path / "run") == rewards(whole)


def test_checkpoints_may_be_written_less_often(whole, tmp_path):
    interrupted(tmp_path / "run", 1)
    list(setup.train(tmp_path / "run", chosen(save_every=3)))
    assert checkpoints(tmp_path / "run") == ["000001", "000003"]
    assert rewards(tmp_path / "run") == rewards(whole)


def test_what_decides_rows_or_compares_evaluations_may_not_change(whole):
    for flags in ({"eval_num_generations": 4}, {"eval_temperature": 0.5}, {"seed": 1}):
        with pytest.raises(UsageError, match="was started with other parameters"):
            setup.check(whole, chosen(**flags))


def test_steps_in_other_parts_have_the_same_rows(whole, tmp_path):
    """As after a resume with more processes; a half-made step keeps its parts."""
    out = tmp_path / "run"
    interrupted(out, 1)
    cut = chosen()
    cut = replace(cut, rollout=replace(cut.rollout, prompts_per_part=2))
    list(setup.train(out, cut))
    parts = [len(list((p / "rollouts").glob("*.parquet"))) for p in sorted(out.glob("steps/*"))]
    assert parts == [1, 2, 2]
    for name in ("rollouts", "scores"):
        for ours, theirs in zip(
            sorted(out.glob(f"steps/*/{name}")), sorted(whole.glob(f"steps/*/{name}")), strict=True
        ):
            one, other = pq.read_table(ours), pq.read_table(theirs)
            same = [c for c in one.column_names if c not in ("behaviour_logp", "policy")]
            assert one.select(same).equals(other.select(same))


def test_each_process_has_a_part_of_a_step_unless_it_was_begun_otherwise(tmp_path):
    builtin, default = policy.resolve("builtin"), config.RolloutOptions()

    def size(prompts, shares, options=default, **where):
        settled, _ = rollout_options.settle(options, builtin, prompts, shares, **where)
        return settled.prompts_per_part

    assert size(32, 1) == 64
    assert [size(32, n) for n in (2, 3, 8, 32)] == [16, 10, 4, 1]
    for prompts in range(1, 70):
        for shares in range(1, prompts + 1):
            assert -(-prompts // size(prompts, shares)) >= shares
    small = config.make(config.RolloutOptions, {"prompts_per_part": 4})
    assert size(32, 2, small) == 4


def test_fewer_prompts_than_processes_are_refused():
    with pytest.raises(UsageError, match="4 prompts is too few for 8 processes"):
        preflight.check_processes(chosen(), 8, decoupled=False)


def test_evaluations_have_a_temperature_and_a_length_of_their_own(tmp_path):
    flags = {"steps": 0, "eval_every": 1, "eval_num_generations": 1}
    flags |= {"eval_temperature": 0.0, "eval_max_new_tokens": 3}
    list(setup.train(tmp_path / "run", chosen(**flags)))
    held = json.loads((tmp_path / "run/eval/000000/rollouts/_manifest.json").read_text())["params"]
    assert (held["temperature"], held["max_new_tokens"]) == (0.0, 3)
    lengths = [len(t) for t in pq.read_table(tmp_path / "run/eval/000000/rollouts")["token_ids"]]
    assert max(lengths) == 3


@pytest.mark.parametrize("spec", ["math", "any:of=[math,format]", "by:of={*=0.5*math+0.5*code}"])
def test_a_new_run_takes_a_verifier_of_other_defaults_before_and_means_the_same_again(
    tmp_path, spec
):
    given, run = chosen(verifier=spec), run_directory.RunDirectory(tmp_path)
    given = replace(given, rollout=replace(given.rollout, engine="transformers"))
    for _ in range(2):  # new, and resumed
        with run.lock_and_check_config(given):
            meant = stored_config.resumed(given, run.begun()).train.verifier
            assert meant == scoring.canonical(spec)


def test_a_run_says_what_it_was_begun_with_where_a_new_one_would_not_be(trained, rlvr):
    said = rlvr("train", "--out", trained, "--steps", "2", "--dry-run").err
    assert "was begun with prompts_per_step 4, eval_every 1, eval_num_generations 2" in said
    assert "learning_rate" not in said, "it is that of every run of the built-in policy"
