"""Updates by the stage: the rate over checkpoints, the objective's shares, no row, adapters."""

import copy as copying
import json
import math
import shutil
import sys
from dataclasses import replace

import peft
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file

from rlvr_cli.algorithms import objective as objectives
from rlvr_cli.cli import app
from rlvr_cli.config import UpdateOptions
from rlvr_cli.engines.training.local import LocalEngine
from rlvr_cli.errors import DataError
from rlvr_cli.models import checkpoints, logprobs, policy
from rlvr_cli.protocols import Row
from rlvr_cli.stages import common, train_step, updates
from rlvr_cli.stages.batch import UpdateBatch
from rlvr_cli.storage.shards import Shards

RATES = ["--learning-rate", "1e-3", "--warmup-updates", "2", "--schedule", "cosine"]
RATES += ["--decay-updates", "6", "--mini-batch-prompts", "2"]
LORA = ["--lora-rank", "4", "--learning-rate", "1e-2", "--mini-batch-prompts", "2"]


def rates_of(folder):
    return pq.read_table(folder / "part-00000.parquet")["learning_rate"].to_pylist()


def weights_of(folder):
    return load_file(policy.resolve(str(folder)).path / "model.safetensors")


@pytest.fixture(scope="session")
def adapted(chain, tmp_path_factory):
    """The chain with one update of adapters, in a folder of its own; not to be changed."""
    root = shutil.copytree(chain, tmp_path_factory.mktemp("adapted") / "chain")
    assert app.run(["train-step", f"{root}/advantages", *LORA]) == 0
    return root


def test_the_schedule_goes_on_where_the_checkpoint_stopped(rlvr, copy):
    """Six prompts in mini-batches of two: three updates a command."""
    rlvr("train-step", copy / "advantages", *RATES)
    assert rates_of(copy / "update") == pytest.approx([5e-4, 1e-3, 1e-3])
    words = ("--model", copy / "update", "--off-policy", "--out", copy / "second", "--json")
    ran = rlvr("train-step", copy / "advantages", *RATES, *words)
    half = 5e-4 * 2**-0.5
    expected = [5e-4 + half, 5e-4, 5e-4 - half]
    assert rates_of(copy / "second") == pytest.approx(expected)
    assert json.loads(ran.out)["learning_rate"] == rates_of(copy / "second")[-1]


def test_the_rate_that_is_written_is_the_rate_that_was_used(rlvr, copy):
    """A warm-up of four halves the rate of two: AdamW's first step is the rate in size."""
    for name, warmup in (("four", "4"), ("two", "2")):
        words = ("--learning-rate", "1e-3", "--warmup-updates", warmup, "--out", copy / name)
        assert rlvr("train-step", copy / "advantages", *words).code == 0
    before, two, four = (weights_of(name) for name in ("builtin", copy / "two", copy / "four"))
    name = "model.layers.0.mlp.up_proj.weight"
    moved = [float((after[name] - before[name].float()).abs().max()) for after in (two, four)]
    assert moved == pytest.approx([5e-4, 2.5e-4], rel=0.01)


def test_the_shares_of_the_objective_are_columns_and_null_among_nothing(loaded):
    rows = [Row([5, 6], [7, 8, 9], 1.0), Row([5, 6], [7], -1.0), Row([7], [8, 9], -1.0)]
    batch = UpdateBatch(rows, ["a", "a", "b"], [0] * 3, [None] * 3)

    def gains(tokens, _):
        mask_BT = tokens.mask_BT
        return (tokens.advantage_B > 0)[:, None] & mask_BT, mask_BT

    def never(tokens, _):
        return tokens.mask_BT, tokens.mask_BT & False

    objective = replace(objectives.build("grpo"), shares=(("gains", gains), ("never", never)))
    options = UpdateOptions(mini_batch_prompts=1, learning_rate=0.0, micro_batch_tokens=1)
    steps_table = updates.run(LocalEngine(loaded, options), batch, objective, options, {}, 0)
    by_tokens = dict(
        zip(steps_table["tokens"].to_pylist(), steps_table["gains"].to_pylist(), strict=True)
    )
    assert by_tokens == {4: 0.75, 2: 0.0}
    assert steps_table["never"].to_pylist() == [None, None]
    loaded.model.zero_grad()


def test_a_single_update_needs_no_pass_for_old_log_probs_and_is_the_same(rlvr, copy, monkeypatch):
    """Stored ones are computed by the same engine beforehand."""
    rlvr("logprob", copy / "rollouts", "--columns", "old_logp", "--out", copy / "old")
    stored = ("--old-logprobs", "stored", "--logprobs", copy / "old", "--out", copy / "stored")
    rlvr("train-step", copy / "advantages", "--learning-rate", "1e-3", *stored)
    monkeypatch.delattr(LocalEngine, "logp")
    rlvr("train-step", copy / "advantages", "--learning-rate", "1e-3", "--out", copy / "own")
    own, stored = weights_of(copy / "own"), weights_of(copy / "stored")
    assert all(torch.equal(own[name], stored[name]) for name in stored)
    assert Shards.open(copy / "own").table() == Shards.open(copy / "stored").table()


def test_a_single_update_on_a_log_prob_that_is_not_finite_names_the_completion(loaded):
    rows = [Row([5, 6], [7, 8, 9], 1.0), Row([5, 6], [7], -1.0)]
    batch = UpdateBatch(rows, ["a", "a"], [0] * 2, [None] * 2)
    options = UpdateOptions(learning_rate=0.0)
    damaged = copying.deepcopy(loaded)
    next(damaged.model.parameters()).data[50] = torch.nan  # a logit, and no hidden state
    with pytest.raises(DataError, match="a log-prob of nan to a completion of `a`"):
        updates.run(LocalEngine(damaged, options), batch, objectives.build("grpo"), options, {}, 0)


def test_the_shares_are_in_the_summary(rlvr, copy):
    words = ("--algo", "grpo+is-correction:cap=1.0", "--out", copy / "corrected")
    rlvr("advantage", copy / "scores", *words)
    words = ("--mini-batch-prompts", "2", "--out", copy / "made", "--json")
    ran = rlvr("train-step", copy / "corrected", *words)
    column = pq.read_table(copy / "made" / "part-00000.parquet")["correction_cut"].to_pylist()
    assert len(column) == 3 and 0 < sum(column) < 3
    assert json.loads(ran.out)["correction_cut"] == pytest.approx(sum(column) / 3)


def test_a_directory_that_was_begun_with_fewer_shares_goes_on_with_them():
    objective = objectives.build("grpo+is-correction+anchor")
    fewer = updates.with_begun_shares(objective, ("correction_cut", "anchor_flat"))
    assert updates.share_names(fewer) == ("correction_cut", "anchor_flat")
    for begun in (None, ("another",), updates.share_names(objective)):
        assert updates.with_begun_shares(objective, begun) is objective


def test_a_correction_of_the_behaviour_policy_is_not_applied_twice(rlvr, refused, copy):
    rlvr("advantage", copy / "scores", "--algo", "grpo+is-correction", "--out", copy / "corrected")
    words = ("--old-logprobs", "rollout", "--out", copy / "made")
    err = refused(2, "train-step", copy / "corrected", *words)
    assert "correct for that policy once more" in err and "--old-logprobs recompute" in err
    assert not (copy / "made").exists()


def test_normalised_weights_are_of_the_optimizer_batch_however_it_is_split(loaded):
    """Old log-probs are needed before the update, and are computed for a sole one too."""
    objective = objectives.build("grpo+is-correction:cap=3,normalize=true")
    rows = [Row([5, 6], [7, 8, 9], 1.0), Row([5, 6], [7], -1.0), Row([7], [8, 9], -0.5)]
    options = UpdateOptions(learning_rate=0.0, micro_batch_tokens=1000)
    old = LocalEngine(loaded, options).logp(rows, 1.0)
    # Weights 2, 4 cut to 3, and 1/2: of 3, 1 and 2 tokens, 10 / 6 in the mean.
    rows = [
        replace(row, behaviour_logp=logp_T - math.log(weight))
        for row, logp_T, weight in zip(rows, old, (2, 4, 0.5), strict=True)
    ]
    batch = UpdateBatch(rows, ["a", "a", "b"], [0] * 3, [None] * 3)
    losses = []
    for size in (1, 1000):
        engine = LocalEngine(loaded, replace(options, micro_batch_tokens=size))
        table = updates.run(engine, batch, objective, options, {}, 0)
        losses += table["loss"].to_pylist()
        loaded.model.zero_grad()
    expected = -(2 * 1.0 + 3 * -1.0 + 0.5 * -0.5) / 3 / (10 / 6)
    assert losses == pytest.approx([expected] * 2, rel=1e-5)


@pytest.fixture
def nothing(rlvr, jsonl, tmp_path):
    """Advantages that keep no row."""
    rows = [{"id": "a", "prompt": "5=", "completion": "2+3", "reward": 1.0}] * 2
    rlvr("import", jsonl(*rows), "--out", tmp_path, "--model", "builtin")
    rlvr("advantage", tmp_path / "scores", "--drop-uninformative")
    return Shards.open(tmp_path / "advantages")


@pytest.mark.parametrize("options", [UpdateOptions(), UpdateOptions(old_logprobs="rollout")])
def test_no_row_gives_no_update_and_the_policy_as_it_was_where_that_is_allowed(
    nothing, tmp_path, options
):
    start = policy.resolve("builtin")
    out = tmp_path / "made"
    update = train_step.run(nothing, out, start, options, allow_empty=True)
    assert update.rows == 0 and policy.checkpoint_state(update) == "whole"
    before, after = weights_of("builtin"), weights_of(out)
    assert all(torch.equal(after[name], before[name].float()) for name in after)
    absent = {name for name, value in update.summary.items() if value is None}
    assert {"loss", "grad_norm", "kl", "first_ratio_min", "learning_rate"} <= absent
    assert [update.summary[name] for name in ("updates", "tokens", "clamp_count")] == [0, 0, 0]
    json.dumps(update.summary, allow_nan=False)
    again = train_step.run(nothing, out, start, options, allow_empty=True)
    assert again.digest == update.digest


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--schedule", "linear"), 2, "--decay-updates is 0"),
        (("--schedule", "step"), 2, "--schedule"),
        (("--decay-updates", 9), 2, "a constant rate does not fall"),
        (("--min-rate", 1.5), 2, "--min-rate is 1.5"),
        (("--lora-alpha", 8), 2, "--lora-rank is 0"),
        (("--lora-rank", 4, "--lora-targets", "lm_head"), 2, "is the output head"),
    ],
)
def test_a_wrong_word_is_refused(refused, chain, tmp_path, words, code, message):
    out = tmp_path / "made"
    assert message in refused(code, "train-step", chain / "advantages", *words, "--out", out)
    assert not (out / "_manifest.json").exists()


def test_adapters_without_peft_are_refused_with_what_to_install(refused, chain, monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    err = refused(2, "train-step", chain / "advantages", "--lora-rank", 4)
    assert "pip install 'rlvr[lora]'" in err


def test_what_is_sampled_from_adapters_has_the_log_probs_of_the_merged_model(
    rlvr, adapted, tmp_path
):
    words = ("--model", adapted / "update", "--out", tmp_path / "next", "-n2")
    assert rlvr("rollout", adapted / "prompts", *words, "--max-new-tokens=16").code == 0
    base = policy.load(policy.resolve("builtin")).model
    table = pq.read_table(tmp_path / "next")
    rows = common.training_rows(table)
    sampled = torch.tensor([x for logp in table["behaviour_logp"].to_pylist() for x in logp])

    def logp_of(model):
        with torch.no_grad():
            stats = logprobs.completion_stats(model, rows, temperature=1.0)
        return stats.logp_BT[stats.mask_BT]

    assert float((sampled - logp_of(base)).abs().max()) > 1e-2
    path = policy.resolve(str(adapted / "update")).path
    merged = peft.PeftModel.from_pretrained(base, path).merge_and_unload()
    torch.testing.assert_close(sampled, logp_of(merged), rtol=0, atol=1e-5)


def test_adapters_stand_for_a_policy_in_every_command(rlvr, adapted, tmp_path):
    update = adapted / "update"
    (tmp_path / "rows.jsonl").write_text('{"id": "a", "prompt": "5=", "completion": "2+3"}\n')
    words = ("--columns", "old_logp,ref_logp", "--ref-model", "builtin", "--model", update)
    ran = rlvr("logprob", adapted / "rollouts", *words, "--out", tmp_path / "logprobs", "--json")
    assert abs(json.loads(ran.out)["kl_k1"]) > 1e-3
    ran = rlvr("import", tmp_path / "rows.jsonl", "--model", update, "--out", tmp_path / "imported")
    assert ran.code == 0
    assert rlvr("check", update).code == 0


def test_an_update_of_adapters_goes_on_from_the_checkpoint_before(rlvr, refused, adapted, tmp_path):
    words = ("--model", adapted / "update", "--off-policy", "--out", tmp_path / "made")
    err = refused(2, "train-step", adapted / "advantages", *words)
    assert "holds adapters of --lora-rank 4" in err and "resume with `--lora-rank 4" in err
    assert rlvr("train-step", adapted / "advantages", *words, *LORA).code == 0
    after, before = (policy.resolve(str(path)) for path in (tmp_path / "made", adapted / "update"))
    assert after.base.name == before.base.name == "builtin"
    assert after.digest != before.digest
    steps = load_file(after.path / checkpoints.OPTIMIZER)
    assert {int(value) for name, value in steps.items() if name.startswith("step.")} == {6}


def test_the_same_update_of_adapters_gives_the_same_bytes(rlvr, adapted, chain, files_of, tmp_path):
    words = (*LORA, "--out", tmp_path / "made")
    assert rlvr("train-step", chain / "advantages", *words).code == 0
    repeated, expected = (
        policy.resolve(str(path)).path for path in (tmp_path / "made", adapted / "update")
    )
    assert files_of(repeated) == files_of(expected)
