"""What an update reads: all that it needs, finite, of the right rows; else a refusal."""

import math
import shlex
import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from rlvr_cli.algorithms import objective as objectives
from rlvr_cli.cli import app
from rlvr_cli.config import UpdateOptions
from rlvr_cli.errors import DataError
from rlvr_cli.models import policy
from rlvr_cli.stages import batch, logprob
from rlvr_cli.storage.plan import Plan
from rlvr_cli.storage.shards import Shards
from rlvr_cli.storage.writer import write_all_shards

OPTIONS = UpdateOptions()
STORED = UpdateOptions(old_logprobs="stored")
ROLLOUT = UpdateOptions(old_logprobs="rollout")


def objective_with(*needs, top_k=0):
    return replace(objectives.build("grpo"), needs=frozenset(needs), top_k=top_k)


ANCHORED = objective_with("ref_topk", top_k=3)


@pytest.fixture(scope="module")
def root(chain, tmp_path_factory):
    """A copy of the chain with a logprobs directory of every column, of 5 likeliest tokens."""
    root = shutil.copytree(chain, tmp_path_factory.mktemp("batch") / "chain")
    words = ["--ref-model", "builtin", "--ref-top-k", "5", "--out", f"{root}/full-logprobs"]
    assert app.run(["logprob", f"{root}/rollouts", *words]) == 0
    return root


def opened(root, logprobs="full-logprobs"):
    names = ("advantages", "rollouts", logprobs)
    return [Shards.open(root / name) if name else None for name in names]


def read(root, objective, options=OPTIONS, logprobs="full-logprobs"):
    return batch.read(*opened(root, logprobs), objective, options)


def refusal(root, objective, options=OPTIONS, logprobs="full-logprobs"):
    with pytest.raises(DataError) as caught:
        read(root, objective, options, logprobs)
    return str(caught.value), caught.value.hint


def spoil(shards, out, name, row, change):
    """A copy of a directory at `out`, whole, whose part 1 holds one other value."""
    kept = ("kind", "stage", "params")
    plan = Plan(
        *(shards.manifest[key] for key in kept),
        parents={r: shards.parent(r) for r in shards.manifest["parents"]},
        parts=len(shards),
        only=shards.manifest["only"] and tuple(shards.manifest["only"]),
    )

    def make(index):
        table = shards.part(index)
        if index != 1:
            return table
        column = table[name].to_pylist()
        column[row] = change(column[row])
        at, field = table.column_names.index(name), table.schema.field(name)
        return table.set_column(at, field, pa.array(column, field.type))

    return write_all_shards(out, plan, make)


def lists(arrays):
    return [array.tolist() for array in arrays]


def last_is(value):
    return lambda values: [*values[:-1], value]


def test_rows_have_what_the_objective_needs_and_nothing_else(root):
    bare = read(root, objective_with())
    assert len(bare.rows) == len(bare.prompt_ids) == 24
    for row in bare.rows:
        optional = (row.old_logp, row.ref_logp, row.behaviour_logp, row.ref_topk_ids)
        assert (*optional, row.ref_topk_logp) == (None,) * 5

    full = read(
        root, objective_with("ref_logp", "behaviour_logp", "ref_topk", "entropy", top_k=3), STORED
    )
    stored = opened(root)[2].table().to_pylist()
    sampled = opened(root)[1].table()["behaviour_logp"].to_pylist()
    assert lists(full.sampler_logp) == sampled
    for row, values, behaviour in zip(full.rows, stored, sampled, strict=True):
        assert lists([row.old_logp, row.ref_logp]) == [values["old_logp"], values["ref_logp"]]
        assert row.behaviour_logp.tolist() == behaviour
        assert (row.ref_topk_ids.dtype, row.ref_topk_logp.dtype) == (np.int32, np.float32)
        assert row.ref_topk_ids.shape == (len(row.token_ids), 5)
        assert row.ref_topk_ids.tolist() == values["ref_topk_ids"]
        assert row.ref_topk_logp.tolist() == values["ref_topk_logp"]


def test_old_log_probs_may_be_the_rollouts_own(root):
    rows_read = read(root, objective_with(), ROLLOUT, logprobs=None)
    assert lists([row.old_logp for row in rows_read.rows]) == lists(rows_read.sampler_logp)
    assert {row.behaviour_logp for row in rows_read.rows} == {None}


def test_rows_that_are_not_kept_shift_nothing(root, tmp_path):
    advantages, rollouts, logprobs = opened(root)
    less = spoil(advantages, tmp_path / "advantages", "keep", 4, lambda _: False)
    full = read(root, ANCHORED)
    rows_read = batch.read(less, rollouts, logprobs, ANCHORED, OPTIONS)
    expected = full.rows[:16] + full.rows[17:]
    assert rows_read.prompt_ids == full.prompt_ids[:16] + full.prompt_ids[17:]
    for row, other in zip(rows_read.rows, expected, strict=True):
        assert np.array_equal(row.token_ids, other.token_ids)
        assert np.array_equal(row.ref_topk_ids, other.ref_topk_ids)
        assert np.array_equal(row.ref_topk_logp, other.ref_topk_logp)


def test_log_probs_of_rows_that_are_not_kept_may_be_anything(root, tmp_path):
    advantages, rollouts, logprobs = opened(root)
    less = spoil(advantages, tmp_path / "advantages", "keep", 4, lambda _: False)
    bad = spoil(logprobs, tmp_path / "logprobs", "ref_logp", 4, last_is(math.nan))
    assert len(batch.read(less, rollouts, bad, objective_with("ref_logp"), OPTIONS).rows) == 23


@pytest.mark.parametrize("keeps", [0, 1])
def test_few_rows_and_none_can_be_read(root, tmp_path, keeps):
    advantages, rollouts, logprobs = opened(root)
    out = tmp_path / "advantages"
    params = advantages.manifest["params"] | {"few": keeps}
    plan = Plan("advantages", "advantage", params, {"scores": advantages.parent("scores")}, 2)

    def make(index):
        table = advantages.part(index)
        keep = pa.array([index == 1 and row < keeps for row in range(table.num_rows)])
        return table.set_column(table.column_names.index("keep"), table.schema.field("keep"), keep)

    few = write_all_shards(out, plan, make)
    rows_read = batch.read(few, rollouts, logprobs, ANCHORED, STORED)
    assert len(rows_read.rows) == len(rows_read.prompt_ids) == len(rows_read.sampler_logp) == keeps


COLUMNS = [
    ("old_logp", objective_with(), STORED),
    ("ref_logp", objective_with("ref_logp"), OPTIONS),
    ("ref_topk_ids", ANCHORED, OPTIONS),
    ("ref_topk_logp", ANCHORED, OPTIONS),
]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(("name", "objective", "options"), COLUMNS[:2])
def test_a_stored_log_prob_that_is_not_finite_is_refused_by_its_row(
    root, tmp_path, name, objective, options, value
):
    advantages, rollouts, logprobs = opened(root)
    bad = spoil(logprobs, tmp_path / "bad", name, 5, last_is(value))
    with pytest.raises(DataError) as caught:
        batch.read(advantages, rollouts, bad, objective, options)
    prompt_id = logprobs.part(1)["prompt_id"][5]
    assert str(caught.value) == (
        f"`{name}` of `{bad.path}` holds a log-prob of {value} for sample 1 of prompt `{prompt_id}`"
    )
    assert "rlvr logprob" in caught.value.hint


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_likeliest_tokens_log_prob_that_is_no_number_is_refused(root, tmp_path, value):
    advantages, rollouts, logprobs = opened(root)
    bad = spoil(
        logprobs, tmp_path / "bad", "ref_topk_logp", 5, lambda v: [*v[:-1], [*v[-1][:-1], value]]
    )
    with pytest.raises(DataError, match=f"a log-prob of {value} for sample 1 of prompt"):
        batch.read(advantages, rollouts, bad, ANCHORED, OPTIONS)


@pytest.mark.parametrize("options", [OPTIONS, ROLLOUT])
@pytest.mark.parametrize("objective", [objective_with(), objective_with("behaviour_logp")])
def test_a_samplers_log_prob_that_is_not_finite_is_refused_by_its_row(
    root, tmp_path, objective, options
):
    rollouts, out = opened(root)[1], tmp_path / "rollouts"
    prompt_id = rollouts.part(1)["prompt_id"][5]
    spoil(rollouts, out, "behaviour_logp", 5, last_is(math.nan))
    assert app.run(["score", str(out)]) == app.run(["advantage", f"{tmp_path}/scores"]) == 0
    error, _ = refusal(tmp_path, objective, options, logprobs=None)
    assert error == (
        f"`behaviour_logp` of `{out}` holds a log-prob of nan for sample 1 of prompt `{prompt_id}`"
    )


@pytest.mark.parametrize(("name", "objective", "options"), COLUMNS)
def test_fewer_values_than_tokens_are_refused_with_both_numbers(
    root, tmp_path, name, objective, options
):
    advantages, rollouts, logprobs = opened(root)
    bad = spoil(logprobs, tmp_path / "bad", name, 5, lambda values: values[:-1])
    tokens = len(rollouts.part(1)["token_ids"][5])
    with pytest.raises(DataError) as caught:
        batch.read(advantages, rollouts, bad, objective, options)
    assert f"`{name}` of `{bad.path}` holds {tokens - 1} values for sample 1" in str(caught.value)
    assert str(caught.value).endswith(f"which has {tokens} token_ids")


@pytest.mark.parametrize(("name", "objective", "options"), COLUMNS)
def test_completions_without_a_column_are_refused(root, tmp_path, name, objective, options):
    advantages, rollouts, logprobs = opened(root)
    bad = spoil(logprobs, tmp_path / "bad", name, 5, lambda _: None)
    with pytest.raises(DataError, match=f"has completions without {name}"):
        batch.read(advantages, rollouts, bad, objective, options)


def test_columns_that_are_not_needed_may_hold_anything(root, tmp_path):
    advantages, rollouts, logprobs = opened(root)
    bad = spoil(logprobs, tmp_path / "bad", "old_logp", 5, last_is(math.nan))
    assert len(batch.read(advantages, rollouts, bad, ANCHORED, OPTIONS).rows) == 24


@pytest.mark.parametrize(
    ("objective", "options", "message"),
    [
        (ANCHORED, OPTIONS, "needs ref_topk_ids and ref_topk_logp"),
        (
            objective_with("ref_logp", "ref_topk", top_k=6),
            STORED,
            "needs ref_logp and ref_topk_ids and",
        ),
        (objective_with("ref_logp"), OPTIONS, "needs ref_logp,"),
    ],
)
def test_the_command_of_the_hint_makes_what_is_missing(root, tmp_path, objective, options, message):
    error, hint = refusal(root, objective, options, logprobs=None)
    assert message in error
    command = hint.partition("`")[2].partition("`")[0].replace("MODEL", "builtin")
    assert app.run([*shlex.split(command)[1:], "--out", f"{tmp_path}/made"]) == 0
    directory = Shards.open(tmp_path / "made")
    assert len(batch.read(*opened(root)[:2], directory, objective, options).rows) == 24


def test_the_hint_beside_another_directory_makes_one_with_all_that_is_needed(root, copy):
    """The directory at hand has ref_logp alone; an update takes one directory."""
    words = ["--ref-model", "builtin", "--columns", "ref_logp"]
    assert app.run(["logprob", f"{copy}/rollouts", *words]) == 0
    objective = objective_with("ref_logp", "ref_topk", top_k=2)
    error, hint = refusal(copy, objective, logprobs="logprobs")
    assert "needs ref_topk_ids and ref_topk_logp, which" in error
    assert hint.endswith("then name that with --logprobs")
    command = hint.partition("`")[2].partition("`")[0].replace("MODEL", "builtin")
    assert app.run(shlex.split(command)[1:]) == 0
    assert len(read(copy, objective, logprobs="more-logprobs").rows) == 24


def test_fewer_likeliest_tokens_than_needed_are_refused_with_the_command(root):
    error, hint = refusal(root, objective_with("ref_topk", top_k=6))
    assert "holds the 5 likeliest tokens of the reference policy" in error
    assert error.endswith("this objective needs 6")
    assert "--columns ref_topk_ids,ref_topk_logp --ref-model MODEL --ref-top-k 6 --out" in hint
    assert len(read(root, objective_with("ref_topk", top_k=5)).rows) == 24


def test_log_probs_of_other_rollouts_are_refused(root, tmp_path):
    advantages, rollouts, _ = opened(root)
    other = spoil(rollouts, tmp_path / "rollouts", "seed", 0, lambda seed: seed + 1)
    columns = {"columns": ("old_logp",), "micro_batch_tokens": 1000}
    resolved = logprob.run(other, tmp_path / "made", policy=policy.resolve("builtin"), **columns)
    with pytest.raises(DataError, match="was made from other rollouts"):
        batch.read(advantages, rollouts, resolved, objective_with(), STORED)


@pytest.mark.parametrize(
    ("objective", "options", "hint"),
    [
        (objective_with("behaviour_logp"), OPTIONS, "this objective needs it"),
        (objective_with(), ROLLOUT, "use `--old-logprobs recompute`"),
    ],
)
def test_completions_that_were_not_sampled_have_no_behaviour_log_probs(
    known, tmp_path, objective, options, hint
):
    assert app.run(["advantage", f"{known}/scores", "--out", f"{tmp_path}/advantages"]) == 0
    sources = Shards.open(tmp_path / "advantages"), Shards.open(known / "rollouts"), None
    with pytest.raises(DataError, match="has completions without behaviour_logp") as caught:
        batch.read(*sources, objective, options)
    assert hint in caught.value.hint
    assert len(batch.read(*sources, objective_with(), OPTIONS).rows) == 8
