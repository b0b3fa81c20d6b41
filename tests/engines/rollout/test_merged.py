"""Layers of the same input are one product, of parameters that are nowhere twice."""

import dataclasses

import pytest
import torch
from transformers import AutoModelForCausalLM, Gemma2Config, LlamaConfig, Phi3Config, Qwen2Config

from rlvr_cli import registry
from rlvr_cli.engines.rollout import _fused, _merged
from rlvr_cli.engines.rollout.graph import GraphEngine
from rlvr_cli.protocols import Request, SamplingParams

SIZES = {
    "vocab_size": 99, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256,
}  # fmt: skip
KINDS = {
    "biases": Qwen2Config(**SIZES),
    "no biases": LlamaConfig(**SIZES),
    "windows, capped": Gemma2Config(**SIZES, head_dim=16, sliding_window=9),
}


def random(config, dtype=torch.float32):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).eval().to(dtype)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.2)
    return model


def sample(engine, count=6):
    requests = [Request([1 + i % 5] * (1 + i % 3), i) for i in range(count)]
    by_index = dict(engine.generate(requests, SamplingParams(6, 1.5)))
    return [by_index[index] for index in range(count)]


@pytest.mark.parametrize("kind", ["biases", "windows, capped"])
def test_one_product_samples_what_several_sample_before_and_after_an_update(loaded, kind):
    own = dataclasses.replace(loaded, model=random(KINDS[kind]), eos_ids=(-1,))
    plain, merging = (GraphEngine(own, 4, merge=merge) for merge in (False, True))
    for _ in range(2):
        for one, other in zip(sample(merging), sample(plain), strict=True):
            assert one.token_ids == other.token_ids
            assert one.behaviour_logp == pytest.approx(other.behaviour_logp, abs=2e-6)
        with torch.no_grad():
            for weight in own.model.parameters():  # as an optimizer does, in place
                weight.mul_(0.7)


def test_each_layer_has_both_groups_and_no_weight_is_there_twice():
    model = random(KINDS["biases"])
    before = {name: value.clone() for name, value in model.state_dict().items()}
    groups = _merged.groups_of(model)
    assert [group.sizes for group in groups] == [[32, 16, 16], [48, 48]] * 2
    for group in groups:
        for value in (group.weight, group.bias):
            parts = [
                getattr(x, "weight" if value is group.weight else "bias") for x in group.layers
            ]
            assert value is None or torch.equal(value, torch.cat(list(parts)))
            for part in parts if value is not None else []:
                assert part.untyped_storage().data_ptr() == value.untyped_storage().data_ptr()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    again = _merged.groups_of(model)
    assert [g.weight.data_ptr() for g in again] == [g.weight.data_ptr() for g in groups]


def test_parameters_within_a_tensor_of_anothers_stay_where_they_are():
    """As DeepSpeed's do: it updates them through the tensor that it laid them out in."""
    model = random(KINDS["no biases"])
    q = model.model.layers[0].self_attn.q_proj.weight
    flat = torch.zeros(q.numel() + 10)
    flat[3 : 3 + q.numel()] = q.detach().flatten()
    q.data = flat[3 : 3 + q.numel()].view_as(q)
    groups = _merged.groups_of(model)
    assert q.untyped_storage().data_ptr() == flat.data_ptr()
    assert [group.sizes for group in groups] == [[48, 48], [32, 16, 16], [48, 48]]


def test_parameters_that_lie_one_below_the_other_in_anothers_tensor_are_a_group_there():
    model = random(KINDS["no biases"])
    weights = list(model.model.layers.parameters())
    flat = torch.cat([weight.detach().flatten() for weight in weights])
    for weight, part in zip(weights, flat.split([w.numel() for w in weights]), strict=True):
        weight.data = part.view_as(weight)
    groups = _merged.groups_of(model)
    assert [group.sizes for group in groups] == [[32, 16, 16], [48, 48]] * 2
    flat.zero_()
    assert not any(group.weight.any() for group in groups)


def test_a_saved_policy_is_read_as_it_was(tmp_path):
    model = random(KINDS["biases"])
    ids = torch.tensor([[1, 2, 3]])
    logits = model(ids).logits
    _merged.groups_of(model)
    assert torch.equal(model(ids).logits, logits)
    model.save_pretrained(tmp_path)
    assert torch.equal(AutoModelForCausalLM.from_pretrained(tmp_path)(ids).logits, logits)


def test_layers_of_other_kinds_are_left_alone():
    assert _merged.groups_of(random(Phi3Config(**SIZES, pad_token_id=0))) == []
    model = random(KINDS["biases"])

    class Adapted(torch.nn.Linear):
        pass

    for layer in model.model.layers:
        layer.self_attn.q_proj = Adapted(32, 32)
        layer.mlp.gate_proj = layer.mlp.gate_proj.double()
    assert _merged.groups_of(model) == []


def test_a_layer_with_joint_products_is_compiled_once(loaded, monkeypatch):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    eager = torch.compile(_fused._layer, dynamic=True, backend="eager")
    monkeypatch.setattr(_fused, "_compiled", lambda: eager)  # no code is made
    own = dataclasses.replace(loaded, model=random(KINDS["biases"], torch.bfloat16), eos_ids=(-1,))
    expected = sample(GraphEngine(own, 4, merge=True))
    for _ in range(2):
        assert sample(GraphEngine(own, 4, merge=True, fuse=True)) == expected
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    for module in own.model.modules():
        assert type(module) is not _merged._Member and "group" not in vars(module)


def test_it_is_the_default_which_directories_without_the_option_are_not_of():
    _, options = registry.parse("rollout", "graph")
    assert (options["noise"], options["merge"]) == (2, True)
    _, before = registry.parse("rollout", "graph", "graph:rows=4,fuse=auto")
    assert (before["noise"], before["merge"]) == (1, False)
