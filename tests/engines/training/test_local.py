"""Training on one device, on the built-in policy."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from rlvr_cli.algorithms import objective
from rlvr_cli.algorithms.objective import Totals
from rlvr_cli.config import UpdateOptions
from rlvr_cli.engines.training.local import LocalEngine
from rlvr_cli.errors import UserError
from rlvr_cli.models import checkpoints, compiled_layers, logprobs, policy, tensor_files
from rlvr_cli.protocols import Row

TOTALS = Totals(tokens=13, sequences=4, max_length=8)


def start(path=None, *, tokens=1000, weight_decay=0.0, max_grad_norm=1.0, **options_of_spec):
    """An engine of its own on the built-in policy, or on the one at a path."""
    loaded = policy.load(policy.resolve(str(path) if path else "builtin"))
    options = UpdateOptions(
        micro_batch_tokens=tokens, weight_decay=weight_decay, max_grad_norm=max_grad_norm
    )
    return LocalEngine(loaded, options, **options_of_spec)


def rows_of(engine, *, drift=0.0):
    """Four rows of unlike lengths, with the engine's own log-probs less a drift as the old."""
    results = [
        Row([20, 30, 40], [9, 8, 7, 6, 1], advantage=1.5, columns={"lam": 1.0}),
        Row([3], [4, 1], advantage=-0.5),
        Row([5, 6, 7, 8, 9], [12, 0], advantage=-0.5),
        Row([50, 51], [3, 4, 5, 1], advantage=-0.5),
    ]
    logps = engine.logp(results, 1.0)
    return [
        Row(
            row.prompt_token_ids,
            row.token_ids,
            row.advantage,
            old_logp=[logp - drift for logp in logp_T],
            ref_logp=[logp + 0.1 for logp in logp_T],
        )
        for row, logp_T in zip(results, logps, strict=True)
    ]


def with_more(engine, rows, *, k=4):
    """The rows with behaviour log-probs, and with the likeliest tokens of the engine's policy."""
    with torch.no_grad():
        _, top = logprobs.with_top_k(engine.loaded.model, rows, k, temperature=1.0)
    ids, logps = (logprobs.unpad(value_BTK, rows) for value_BTK in top)
    return [
        dataclasses.replace(
            row,
            behaviour_logp=[logp - 0.3 for logp in row.old_logp],
            ref_topk_ids=i.astype(np.int32),
            ref_topk_logp=logp,
        )
        for row, i, logp in zip(rows, ids, logps, strict=True)
    ]


def weights(engine):
    return {name: value.detach().clone() for name, value in engine.loaded.model.named_parameters()}


def gradient(engine):
    return torch.cat([value.grad.flatten() for value in engine.loaded.model.parameters()])


def assert_bitwise(made, expected):
    assert made.keys() == expected.keys()
    assert all(torch.equal(made[name], expected[name]) for name in expected)


def train(engine, steps, *, spec="grpo", learning_rate=1e-3):
    """Updates on rows whose old log-probs are those of the first step; the gradients' norms."""
    algo, rows = objective.build(spec), rows_of(engine)
    norms = []
    for _ in range(steps):
        engine.accumulate(rows, algo, TOTALS, 1.0)
        norms.append(engine.update(learning_rate))
    return norms


def test_log_probs_do_not_depend_on_how_the_rows_are_cut():
    complete, cut = start(), start(tokens=1)
    for one, other in zip(rows_of(complete), rows_of(cut), strict=True):
        assert one.old_logp == pytest.approx(other.old_logp, abs=1e-5)


@pytest.mark.parametrize("tokens", [1, 9, 16, 1000])
def test_log_probs_come_in_the_order_of_the_rows(tokens):
    engine = start(tokens=tokens)
    rows = rows_of(engine)
    for row, logps in zip(rows, engine.logp(rows, 1.0), strict=True):
        assert logps == pytest.approx(engine.logp([row], 1.0)[0], abs=1e-5)


@pytest.mark.parametrize(
    "spec", ["grpo+kl:beta=0.1+entropy:coef=0.1", "quatro", "apo:k=3", "grpo+is-correction"]
)
def test_loss_gradient_and_counts_do_not_depend_on_how_the_batch_is_cut(spec):
    algo, result = objective.build(spec), []
    for tokens, pack in ((1000, "false"), (16, "false"), (1, "false"), (1000, "true"), (9, "true")):
        engine = start(tokens=tokens, pack=pack)
        rows = with_more(engine, rows_of(engine, drift=0.3))
        sums = engine.accumulate(rows, algo, TOTALS, 1.0)
        result.append((sums, gradient(engine)))
    (complete, by_whole), *others = result
    for sums, by_cut in others:
        assert sums == pytest.approx(complete, rel=1e-4, abs=1e-5)
        scale = float(by_whole.abs().max())
        torch.testing.assert_close(by_cut, by_whole, rtol=0, atol=1e-5 * scale)


@pytest.mark.parametrize("pack", ["true", "false"])
@pytest.mark.parametrize("recompute", [True, False])
def test_layers_that_are_compiled_have_the_gradients_of_eager_ones(monkeypatch, pack, recompute):
    """Padded rows, and packed ones on a GPU, need few graphs for any number of rows and tokens."""
    graphs = torch.compile(compiled_layers._layer, dynamic=True, backend="aot_eager")
    monkeypatch.setattr(compiled_layers, "_compiled", lambda: graphs)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    result = []
    for fuse in ("false", "true"):
        engine = start(tokens=16, pack=pack, fuse=fuse)
        engine._recompute = recompute
        rows = rows_of(engine)
        engine.accumulate(rows, objective.build("grpo"), TOTALS, 1.0)
        result.append(gradient(engine))
    torch.testing.assert_close(*result, rtol=1e-4, atol=1e-7)
    if pack == "false":
        assert torch._dynamo.utils.counters["stats"]["unique_graphs"] <= 3


def test_accumulating_twice_adds_the_gradients():
    engine, algo = start(), objective.build("grpo")
    rows = rows_of(engine)
    engine.accumulate(rows[:2], algo, TOTALS, 1.0)
    engine.accumulate(rows[2:], algo, TOTALS, 1.0)
    halves = gradient(engine)
    engine.loaded.model.zero_grad()
    engine.accumulate(rows, algo, TOTALS, 1.0)
    torch.testing.assert_close(halves, gradient(engine), rtol=0, atol=1e-6)


def test_an_empty_completion_adds_nothing():
    engine, algo = start(), objective.build("grpo")
    rows = rows_of(engine)
    sums = engine.accumulate(rows, algo, TOTALS, 1.0)
    without = gradient(engine)
    engine.loaded.model.zero_grad()
    empty = Row([7, 8], [], 1.0, old_logp=[])
    assert engine.accumulate([*rows, empty], algo, TOTALS, 1.0) == pytest.approx(sums, abs=1e-5)
    torch.testing.assert_close(gradient(engine), without, rtol=0, atol=1e-6)
    engine.loaded.model.zero_grad()
    engine.accumulate([empty], algo, TOTALS, 1.0)
    assert engine.update(1e-3) == 0


def test_the_first_step_on_its_own_log_probs_has_ratio_one_and_no_divergence():
    engine = start()
    sums = engine.accumulate(rows_of(engine), objective.build("grpo"), TOTALS, 1.0)
    assert (sums["ratio_min"], sums["ratio_max"]) == pytest.approx((1, 1), abs=1e-6)
    assert sums["ratio"] == pytest.approx(13, abs=1e-5)
    assert sums["kl"] == pytest.approx(0, abs=1e-9)
    assert sums["clipped"] == sums["clamped"] == 0
    assert sums["loss"] == pytest.approx(-(1.5 - 3 * 0.5) / 4, abs=1e-6)
    assert sums["entropy"] > 0


@pytest.mark.parametrize("pack", ["true", "false"])
@pytest.mark.parametrize("tokens", [1000, 16, 9, 1])
@pytest.mark.parametrize("spec", ["grpo", "grpo+entropy", "apo:k=3"])
def test_the_first_ratios_are_exactly_1_however_the_rows_are_cut(spec, tokens, pack):
    engine = start(tokens=tokens, pack=pack)
    rows = with_more(engine, rows_of(engine))
    sums = engine.accumulate(rows, objective.build(spec), TOTALS, 1.0)
    assert (sums["ratio_min"], sums["ratio_max"], sums["ratio"]) == (1, 1, 13)
    assert sums["kl"] == sums["clipped"] == 0


class Caught(Exception):
    """Carries the batch that an objective was given."""


def batch_of(engine, rows, *needs, top_k=0):
    """What an objective with these needs is given of the rows, in one micro-batch."""
    seen = []

    def look(batch):
        seen.append(batch)
        raise Caught

    base = objective.build("grpo")
    algo = dataclasses.replace(base, log_ratio=look, needs=frozenset(needs), top_k=top_k)
    with pytest.raises(Caught):
        engine.accumulate(rows, algo, TOTALS, 1.0)
    return seen[0]


def test_an_objective_is_given_what_it_needs_and_nothing_else():
    engine = start()
    rows = with_more(engine, rows_of(engine))
    order = sorted(rows, key=lambda row: -len(row.prompt_token_ids) - len(row.token_ids))
    optional = ("ref_logp_BT", "behaviour_logp_BT", "anchor_logp_BT", "anchor_ref_logp_BT")
    bare = batch_of(engine, rows, top_k=2)
    assert [getattr(bare, name) for name in optional] == [None] * 4

    batch = batch_of(engine, rows, "ref_logp", "behaviour_logp", "ref_topk", top_k=2)
    assert all(getattr(batch, name).shape == batch.mask_BT.shape for name in optional)
    for name in ("old_logp", "ref_logp", "behaviour_logp"):
        result = logprobs.unpad(getattr(batch, f"{name}_BT"), order)
        for row, made_T in zip(order, result, strict=True):
            assert made_T.tolist() == pytest.approx(getattr(row, name), abs=1e-6)
    # The reference policy is the policy itself: both have the same mass on an anchor set.
    torch.testing.assert_close(
        batch.anchor_logp_BT.detach(), batch.anchor_ref_logp_BT, rtol=0, atol=1e-5
    )
    assert batch.anchor_logp_BT.requires_grad and not batch.anchor_ref_logp_BT.requires_grad


def test_rows_without_old_log_probs_have_those_of_the_same_forward_pass():
    engine, algo = start(), objective.build("quatro+kl:beta=0.1")
    given = [dataclasses.replace(row, sampler_logp=None) for row in rows_of(engine)]
    gradients = []
    for rows in (given, [dataclasses.replace(row, old_logp=None) for row in given]):
        engine.accumulate(rows, algo, TOTALS, 1.0)
        gradients.append([p.grad.clone() for p in engine.loaded.model.parameters()])
        engine.loaded.model.zero_grad()
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


def test_the_gap_to_the_sampler_is_the_largest_of_the_rows_that_have_its_log_probs():
    engine = start()
    rows = [
        dataclasses.replace(
            row, old_logp=None, sampler_logp=None if i == 0 else np.add(row.old_logp, 0.1 * i)
        )
        for i, row in enumerate(rows_of(engine))
    ]
    sums = engine.accumulate(rows, objective.build("grpo"), TOTALS, 1.0)
    assert sums["sampler_gap_max"] == pytest.approx(0.1 * (len(rows) - 1), abs=1e-5)
    rows = [dataclasses.replace(row, sampler_logp=None) for row in rows]
    assert "sampler_gap_max" not in engine.accumulate(rows, objective.build("grpo"), TOTALS, 1.0)


def test_rows_of_which_some_have_old_log_probs_are_an_error():
    engine = start()
    rows = [Row([3], [4, 5], 1.0), Row([3], [4, 5], 1.0, old_logp=[-1.0, -1.0])]
    with pytest.raises(RuntimeError):
        engine.accumulate(rows, objective.build("grpo"), TOTALS, 1.0)


def test_the_ratios_are_those_to_the_old_log_probs_at_the_temperature():
    engine = start()
    sums = engine.accumulate(rows_of(engine, drift=0.1), objective.build("grpo"), TOTALS, 1.0)
    for name in ("ratio_min", "ratio_max"):
        assert sums[name] == pytest.approx(math.exp(0.1), abs=1e-5)
    sums = engine.accumulate(rows_of(engine), objective.build("grpo"), TOTALS, 2.0)
    assert sums["ratio_min"] < 0.99 or sums["ratio_max"] > 1.01


def test_a_step_makes_good_completions_likelier_and_bad_ones_less_likely():
    engine = start()
    before = [sum(row.old_logp) for row in rows_of(engine)]
    train(engine, 3, learning_rate=1e-4)
    after = [sum(row.old_logp) for row in rows_of(engine)]
    assert after[0] > before[0]
    assert sum(after[1:]) < sum(before[1:])


def test_a_batch_of_advantage_zero_moves_nothing():
    engine = start()
    before = weights(engine)
    still = [Row(r.prompt_token_ids, r.token_ids, 0.0, r.old_logp) for r in rows_of(engine)]
    engine.accumulate(still, objective.build("grpo"), TOTALS, 1.0)
    assert engine.update(1e-3) == 0
    assert_bitwise(weights(engine), before)


def test_weights_move_at_a_learning_rate_of_a_millionth():
    engine = start()
    before = weights(engine)
    train(engine, 1, learning_rate=1e-6)
    moved = [float((after - before[name]).abs().max()) for name, after in weights(engine).items()]
    assert all(0 < distance < 2e-6 for distance in moved)


def test_the_weights_in_training_are_float32():
    assert {value.dtype for value in weights(start()).values()} == {torch.float32}


def test_the_norm_is_that_before_clipping_and_the_gradient_is_cleared():
    engine = start(max_grad_norm=1e-3)
    rows, algo = rows_of(engine), objective.build("grpo")
    engine.accumulate(rows, algo, TOTALS, 1.0)
    expected = float(gradient(engine).norm())
    assert engine.update(0.0) == pytest.approx(expected, rel=1e-4)
    engine.accumulate(rows, algo, TOTALS, 1.0)
    assert float(gradient(engine).norm()) == pytest.approx(expected, rel=1e-4)


def test_weight_decay_shrinks_the_weights():
    engine = start(weight_decay=0.5)
    before = weights(engine)
    engine.accumulate([Row([3], [4], 0.0, old_logp=[0.0])], objective.build("grpo"), TOTALS, 1.0)
    engine.update(0.1)
    for name, after in weights(engine).items():
        torch.testing.assert_close(after, before[name] * 0.95)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_gradient_that_is_not_finite_is_refused_and_leaves_the_weights(value):
    engine = start()
    before = weights(engine)
    engine.accumulate(rows_of(engine), objective.build("grpo"), TOTALS, 1.0)
    next(engine.loaded.model.parameters()).grad[0, 0] = value
    with pytest.raises(UserError, match=f"norm is {value}"):
        engine.update(1e-3)
    assert_bitwise(weights(engine), before)


def test_a_row_of_nan_advantage_is_refused_and_leaves_the_weights():
    engine = start()
    before = weights(engine)
    rows = [Row(r.prompt_token_ids, r.token_ids, math.nan, r.old_logp) for r in rows_of(engine)]
    engine.accumulate(rows, objective.build("grpo"), TOTALS, 1.0)
    with pytest.raises(UserError, match="norm is nan"):
        engine.update(1e-3)
    assert_bitwise(weights(engine), before)


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_going_on_from_a_checkpoint_is_going_on(tmp_path, weight_decay):
    through = start(weight_decay=weight_decay)
    train(through, 2)
    through.save(tmp_path / "checkpoint")
    resumed = start(tmp_path / "checkpoint", weight_decay=weight_decay)
    assert_bitwise(weights(resumed), weights(through))
    assert train(resumed, 2) == train(through, 2)
    assert_bitwise(weights(resumed), weights(through))


def test_the_optimizers_moments_are_in_the_checkpoint(tmp_path):
    through = start()
    train(through, 2)
    through.save(tmp_path / "with")
    through.save(tmp_path / "without")
    (tmp_path / "without" / checkpoints.OPTIMIZER).unlink()
    train(through, 1)
    resumed, forgetful = start(tmp_path / "with"), start(tmp_path / "without")
    train(resumed, 1)
    train(forgetful, 1)
    assert_bitwise(weights(resumed), weights(through))
    name, expected = next(iter(weights(through).items()))
    assert not torch.equal(weights(forgetful)[name], expected)


def test_a_checkpoint_in_several_files_is_the_same_checkpoint(tmp_path, monkeypatch):
    through = start()
    train(through, 2)
    through.save(tmp_path / "one")
    monkeypatch.setattr(tensor_files, "FILE_SIZE", 10_000)
    through.save(tmp_path / "many")
    assert len(list((tmp_path / "many").glob("model-*.safetensors"))) > 1
    assert len(checkpoints.optimizer_state(tmp_path / "many")) > 1
    assert not (tmp_path / "many" / checkpoints.OPTIMIZER).exists()
    resumed = start(tmp_path / "many")
    assert_bitwise(weights(resumed), weights(through))
    assert train(resumed, 2) == train(through, 2)
    assert_bitwise(weights(resumed), weights(through))


def test_every_file_of_the_moments_identifies_the_optimizer(tmp_path, monkeypatch):
    engine = start()
    train(engine, 1)
    monkeypatch.setattr(tensor_files, "FILE_SIZE", 10_000)
    engine.save(tmp_path)
    digests = {policy.resolve(str(tmp_path)).trainer_digest}
    for file in checkpoints.optimizer_state(tmp_path):
        content = file.read_bytes()
        file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        digests.add(policy.resolve(str(tmp_path)).trainer_digest)
        file.write_bytes(content)
    assert len(digests) == 1 + len(checkpoints.optimizer_state(tmp_path))


def test_saving_changes_nothing(tmp_path):
    saved, other = start(), start()
    train(saved, 1)
    saved.save(tmp_path / "checkpoint")
    train(other, 1)
    assert train(saved, 1) == train(other, 1)
    assert_bitwise(weights(saved), weights(other))


def test_an_engine_without_a_step_can_be_saved_and_taken_up(tmp_path):
    engine = start()
    engine.save(tmp_path / "checkpoint")
    resumed = start(tmp_path / "checkpoint")
    assert_bitwise(weights(resumed), weights(engine))
    assert train(resumed, 1) == train(engine, 1)
    assert_bitwise(weights(resumed), weights(engine))


def test_a_checkpoint_is_a_hugging_face_directory(tmp_path):
    engine = start()
    train(engine, 1)
    engine.save(tmp_path / "checkpoint")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "checkpoint", dtype="auto")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "checkpoint")
    assert_bitwise(
        {name: value.detach() for name, value in model.named_parameters()}, weights(engine)
    )
    text = "47=6*8-1"
    assert tokenizer(text)["input_ids"] == engine.loaded.tokenizer(text)["input_ids"]
    assert tokenizer.eos_token_id == engine.loaded.tokenizer.eos_token_id


def test_what_is_published_is_the_checkpoint_without_the_optimizer(tmp_path):
    engine = start()
    train(engine, 1)
    for name in ("checkpoint", "published"):
        (tmp_path / name).mkdir()
    engine.save(tmp_path / "checkpoint")
    engine.publish(tmp_path / "published")
    files = {p.name: p.read_bytes() for p in (tmp_path / "checkpoint").iterdir() if p.is_file()}
    assert {p.name: p.read_bytes() for p in (tmp_path / "published").iterdir()} == files
    half = start()
    half.loaded.model.to(torch.bfloat16)  # as the policy of a GPU's trainer is
    half.publish(tmp_path / "half")
    assert {v.dtype for v in tensor_files.read(tmp_path / "half").values()} == {torch.bfloat16}


def test_a_checkpoint_keeps_the_policys_end_and_pad_ids(tmp_path):
    engine = start()
    engine.save(tmp_path / "checkpoint")
    loaded = policy.load(policy.resolve(str(tmp_path / "checkpoint")))
    assert (loaded.eos_ids, loaded.pad_id) == (engine.loaded.eos_ids, engine.loaded.pad_id)
    assert loaded.context == engine.loaded.context
