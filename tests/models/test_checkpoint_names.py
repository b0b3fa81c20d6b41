"""The weights of a model in memory by the names of its files."""

import pytest
import torch
from safetensors.torch import load_file

from rlvr_cli.models import checkpoint_names, policy

KINDS = ["qwen3_moe", "qwen2_moe", "mixtral", "granitemoe", "gpt_oss"]


def model_of(path):
    return policy.load(policy.resolve(str(path))).model


def named(model):
    return ((name, value.detach()) for name, value in model.named_parameters())


@pytest.mark.parametrize("kind", KINDS)
def test_experts_have_the_names_shapes_and_bits_of_the_files(mixture, kind):
    stored = load_file(mixture(kind) / "model.safetensors")
    given = dict(checkpoint_names.as_stored(model := model_of(mixture(kind)), named(model)))
    assert given.keys() == stored.keys()
    assert all(torch.equal(given[name], value) for name, value in stored.items())


def test_what_lies_in_the_files_as_it_is_passes_through(loaded):
    own = list(named(loaded.model))
    given = list(checkpoint_names.as_stored(loaded.model, iter(own)))
    assert all(a is b for (_, a), (_, b) in zip(given, own, strict=True))


def test_no_more_than_a_layer_is_held(mixture):
    model, taken = model_of(mixture("qwen3_moe")), []
    weights = checkpoint_names.as_stored(
        model, (taken.append(name) or (name, value) for name, value in named(model))
    )
    assert next(name for name, _ in weights if ".experts.0.gate_proj" in name)
    assert "model.layers.0.mlp.experts.gate_up_proj" in taken
    assert not any("layers.1" in name for name in taken[:-1])


def test_a_checkpoint_that_was_saved_with_fused_experts_keeps_their_names(mixture, tmp_path):
    """As some are on the hub, and as `save_original_format=False` writes them."""
    model = model_of(mixture("qwen3_moe"))
    model.save_pretrained(tmp_path, save_original_format=False)
    for file in mixture("qwen3_moe").glob("tokenizer*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    fused = model_of(tmp_path)
    names = dict(checkpoint_names.as_stored(fused, named(fused)))
    assert "model.layers.0.mlp.experts.gate_up_proj" in names
    assert names.keys() == load_file(tmp_path / "model.safetensors").keys()
