"""One decoder layer is compiled, once, and the model is left as it was."""

import contextlib
import dataclasses
import shutil
from types import SimpleNamespace

import pytest
import torch
from transformers import AutoModelForCausalLM, Gemma2Config, Qwen2Config

from rlvr_cli import registry
from rlvr_cli.engines.rollout import _fused
from rlvr_cli.engines.rollout.graph import GraphEngine
from rlvr_cli.errors import UserError
from rlvr_cli.protocols import Request, SamplingParams

pytestmark = pytest.mark.slow

SIZES = {
    "vocab_size": 99, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 6,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _compiles_anew():
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()


def random(loaded, config, dtype=torch.float32):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).eval().to(dtype)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.2)
    if getattr(config, "attn_logit_softcapping", None):
        model.set_attn_implementation("eager")  # sdpa leaves the cap of scores out
    return dataclasses.replace(loaded, model=model, eos_ids=(-1,))


def sample(engine, limits, length=3, sampling=SamplingParams(40, 1.5)):
    requests = [Request([1 + i % 5] * (1 + i % length), i) for i in range(len(limits))]
    by_index = dict(engine.generate(requests, sampling, limits))
    return [by_index[index] for index in range(len(limits))]


@pytest.mark.skipif(not shutil.which("g++"), reason="torch.compile makes C++ here, g++ is missing")
def test_a_layer_is_compiled_once_for_all_layers_row_counts_lengths_and_weights(loaded):
    own = random(loaded, Qwen2Config(**SIZES), torch.bfloat16)
    plain, fused = (GraphEngine(own, 8, least_rows=2, fuse=fuse) for fuse in (False, True))
    for limits, length in (([3, 5, 9, 2, 2, 2, 4, 12], 3), ([40, 3, 1, 2, 30], 90)):
        result, expected = (sample(engine, limits, length) for engine in (fused, plain))
        assert result == expected  # to the bit: values are rounded where eager torch rounds them
        with torch.no_grad():
            for weight in own.model.parameters():  # what a trainer changes is sampled from
                weight.mul_(0.7)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_a_layer_is_compiled_on_a_gpu_alone_unless_it_is_asked_for(loaded):
    model = random(loaded, Qwen2Config(**SIZES)).model
    on_gpu = SimpleNamespace(device=torch.device("cuda"), base_model=model.base_model)
    without_layers = SimpleNamespace(device=on_gpu.device, base_model=torch.nn.Identity())
    for spec, expected in (
        ("graph", [False, True, False]),
        ("graph:fuse=true", [True, True, True]),
        ("graph:fuse=false", [False, False, False]),
    ):
        engine = registry.build("rollout", spec)(loaded.policy, loaded)
        assert [engine._fuses(m) for m in (model, on_gpu, without_layers)] == expected


def test_layers_of_another_kind_are_compiled_for_themselves(loaded, monkeypatch):
    """With a window, and without; and those of a memory model."""
    eager = torch.compile(_fused._layer, dynamic=True, backend="eager")
    monkeypatch.setattr(_fused, "_compiled", lambda: eager)  # no code is made
    config = Gemma2Config(**SIZES, head_dim=16, sliding_window=9, attn_logit_softcapping=2.0)
    own = random(loaded, config)
    memory = random(loaded, Qwen2Config(**SIZES | {"hidden_size": 16, "num_hidden_layers": 3}))
    limits, sampling = [3, 5, 9, 2, 2, 2, 30, 40], SamplingParams(40, 1.5, mu=0.5)
    result, expected = (
        sample(
            GraphEngine(own, 8, least_rows=2, fuse=fuse, memory_model=memory),
            limits,
            sampling=sampling,
        )
        for fuse in (True, False)
    )
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 3
    for one, other in zip(result, expected, strict=True):
        assert one.token_ids == other.token_ids
        assert one.policy_logp == pytest.approx(other.policy_logp, abs=1e-5)


def test_a_compiler_that_fails_is_said_with_the_way_without_it(loaded, monkeypatch):
    def broken(graph, inputs):
        raise RuntimeError("there is no compiler")

    compiled = torch.compile(_fused._layer, dynamic=True, backend=broken)
    monkeypatch.setattr(_fused, "_compiled", lambda: compiled)
    own = random(loaded, Qwen2Config(**SIZES))
    with pytest.raises(UserError, match="there is no compiler") as caught:
        sample(GraphEngine(own, 4, fuse=True), [3, 2])
    assert "graph:fuse=false" in caught.value.hint


@pytest.mark.parametrize("fails", [False, True])
def test_the_model_is_left_as_it_was(loaded, monkeypatch, fails):
    own = random(loaded, Qwen2Config(**SIZES))
    model, ids = own.model, torch.tensor([[1, 2, 3]])

    def compiled(layer, hidden, **options):
        assert not fails
        return _fused._layer(layer, hidden, **options)

    def facts():
        inside = [(name, sorted(vars(module))) for name, module in model.named_modules()]
        return inside, list(model.state_dict()), model.config._attn_implementation

    monkeypatch.setattr(_fused, "_compiled", lambda: compiled)
    before, logits = facts(), model(ids).logits
    with pytest.raises(AssertionError) if fails else contextlib.nullcontext():
        sample(GraphEngine(own, 4, fuse=True), [3, 2])
    assert facts() == before
    assert torch.equal(model(ids).logits, logits)
