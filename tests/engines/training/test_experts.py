"""Training a random mixture of experts: its layers, its checkpoints, its adapters."""

import warnings
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from rlvr_cli import registry
from rlvr_cli.algorithms import objective
from rlvr_cli.algorithms.objective import Totals
from rlvr_cli.config import UpdateOptions
from rlvr_cli.errors import Advice
from rlvr_cli.models import logprobs, lora, policy
from rlvr_cli.protocols import Row
from rlvr_cli.stages import convert

TOTALS = Totals(tokens=7, sequences=2, max_length=8)
ROWS = [Row([20, 30, 40], [9, 8, 7, 6, 1], 1.5), Row([3], [4, 1], -1.5)]
LORA = UpdateOptions(lora_rank=4)


def start(path, options=UpdateOptions(), spec="local"):
    return registry.build("training", spec)(policy.load(policy.resolve(str(path))), options, seed=0)


def train(engine, steps=1):
    algo, logps = objective.build("grpo"), engine.logp(ROWS, 1.0)
    rows = [replace(row, old_logp=logp) for row, logp in zip(ROWS, logps, strict=True)]
    for _ in range(steps):
        engine.accumulate(rows, algo, TOTALS, 1.0)
        engine.update(1e-2)
    return engine


def logps(model):
    with torch.no_grad():
        return logprobs.completion_stats(model, ROWS, temperature=1.0).logp_BT


def close(one, other):
    torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["qwen3_moe", "mixtral", "granitemoe"])
def test_a_checkpoint_has_the_names_of_the_model_it_was_trained_from(mixture, tmp_path, kind):
    engine = train(start(mixture(kind)))
    engine.save(tmp_path)
    before = load_file(mixture(kind) / "model.safetensors")
    after = load_file(tmp_path / "model.safetensors")
    assert before.keys() == after.keys()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert sum("expert" in name or "linear" in name for name in changed) > 2
    expected = logps(engine.loaded.model)
    close(logps(AutoModelForCausalLM.from_pretrained(tmp_path).eval()), expected)
    again = train(start(tmp_path))
    close(logps(again.loaded.model), logps(train(engine).loaded.model))
    convert.write(str(tmp_path), tmp_path / "made", "float32")
    assert load_file(tmp_path / "made" / "model.safetensors").keys() == before.keys()
    close(logps(policy.load(policy.resolve(str(tmp_path / "made"))).model), expected)


def test_experts_are_computed_again_where_activations_are(mixture):
    """Routing is decided twice, and the same way."""
    path = mixture("qwen3_moe")
    options = replace(UpdateOptions(), recompute_activations=True)
    models = [train(start(path, chosen)).loaded.model for chosen in (UpdateOptions(), options)]
    torch.testing.assert_close(logps(models[0]), logps(models[1]), atol=0, rtol=0)


@pytest.mark.slow
@pytest.mark.engine("deepspeed")
@pytest.mark.parametrize("zero", [2, 3])
def test_deepspeed_trains_experts_as_plain_torch_does(mixture, tmp_path, zero):
    plain = train(start(mixture("qwen3_moe")), 2)
    engine = train(start(mixture("qwen3_moe"), spec=f"deepspeed:zero={zero}"), 2)
    own, given = dict(plain.weights()), {n: v.clone() for n, v in engine.weights()}
    assert own.keys() == given.keys()
    for name, value in own.items():
        torch.testing.assert_close(given[name], value, atol=1e-4, rtol=1e-3)
    engine.save(tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    assert all(torch.equal(stored[name], value) for name, value in given.items())


def test_adapters_of_experts_are_kept_loaded_and_merged(mixture, tmp_path):
    engine = train(start(mixture("qwen3_moe"), LORA))
    assert any(".experts." in name for name in engine._trained.named)
    expected = logps(engine.loaded.model)
    assert (expected - logps(start(mixture("qwen3_moe")).loaded.model)).abs().max() > 0.1
    engine.save(tmp_path / "adapters")
    assert lora.adapts_parameters(tmp_path / "adapters")
    loaded = policy.load(policy.resolve(str(tmp_path / "adapters")))
    torch.testing.assert_close(logps(loaded.model), expected, atol=0, rtol=0)
    convert.write(str(tmp_path / "adapters"), tmp_path / "merged", "float32")
    close(logps(policy.load(policy.resolve(str(tmp_path / "merged"))).model), expected)


def test_experts_that_adapters_leave_alone_are_said_and_those_they_have_are_not(mixture):
    lora._warn_of_experts.cache_clear()
    with pytest.warns(Advice, match="leave the experts of GraniteMoeForCausalLM as they are"):
        start(mixture("granitemoe"), LORA)
    lora._warn_of_experts.cache_clear()
    with warnings.catch_warnings(action="error"):
        start(mixture("qwen3_moe"), LORA)
        start(mixture("granitemoe"), replace(LORA, lora_targets="q_proj"))
        start("builtin", LORA)
