"""Packed and padded rows through a model, and which models can be given packed ones."""

import warnings

import numpy as np
import pytest
import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

from rlvr_cli.errors import UsageError
from rlvr_cli.models import logprobs, packed_attention, packing, passes
from rlvr_cli.protocols import Row

SIZES = {
    "vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 64, "max_position_embeddings": 512,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
LENGTHS = (31, 4, 1, 90, 17, 4)


def random(kind, **changes):
    torch.manual_seed(0)
    config = CONFIG_MAPPING[kind](**SIZES | changes)
    return AutoModelForCausalLM.from_config(config).eval()


def rows():
    chance = np.random.default_rng(1)
    return [
        Row(chance.integers(0, 100, 3 + i).tolist(), chance.integers(0, 100, n).tolist(), 1.0)
        for i, n in enumerate(LENGTHS)
    ]


def weighed(stats):
    """A sum of the statistics in which each token has a weight of its own."""
    weight_N = torch.linspace(-1, 1, int(stats.mask_BT.sum()))
    return ((stats.logp_BT + 0.3 * stats.entropy_BT)[stats.mask_BT] * weight_N).sum()


@pytest.mark.parametrize("kind", ["qwen2", "qwen3", "llama", "gemma", "gpt2", "phi3", "mixtral"])
@pytest.mark.parametrize("least", [0, 300])
def test_packed_rows_have_the_statistics_and_gradients_of_padded_ones(kind, least):
    model = random(kind)
    padded = logprobs.completion_stats(model, rows(), temperature=0.8, entropy_gradient=True)
    expected = torch.autograd.grad(weighed(padded), list(model.parameters()))
    with passes.Pass(model, True, False, 512).here():
        packed = logprobs.completion_stats(
            model, rows(), temperature=0.8, entropy_gradient=True, packed=least
        )
        gradients = torch.autograd.grad(weighed(packed), list(model.parameters()))
    assert torch.equal(packed.mask_BT, padded.mask_BT)
    torch.testing.assert_close(packed.logp_BT, padded.logp_BT, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(gradients, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("packed", [None, 0])
def test_tensors_are_made_on_the_host_whatever_the_caller_s_default_device(packed):
    model = random("qwen2")
    torch.set_default_device("meta")
    try:
        with passes.Pass(model, packed is not None, False, 512).here():
            stats = logprobs.completion_stats(model, rows(), temperature=1.0, packed=packed)
    finally:
        torch.set_default_device(None)
    assert stats.logp_BT.device.type == "cpu"


def test_a_pass_that_recomputes_activations_is_packed_there_too():
    model, results = random("qwen2"), []
    for wanted in (False, True):
        with logprobs.recomputing(model, wanted), passes.Pass(model, True, False, 512).here():
            stats = logprobs.completion_stats(model, rows(), temperature=1.0, packed=0)
            results.append(torch.autograd.grad(weighed(stats), list(model.parameters())))
    torch.testing.assert_close(*results, atol=0, rtol=0)


@pytest.mark.parametrize("kind", ["qwen2", "opt", "biogpt"])  # the last two drop out by default
def test_activations_that_are_computed_again_change_no_gradient_and_leave_the_model_as_it_was(
    kind,
):
    model, results = random(kind), []
    dropouts = [getattr(module, "dropout", None) for module in model.modules()]
    for wanted in (False, True):
        with logprobs.recomputing(model, wanted), warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)
            stats = logprobs.completion_stats(model, rows(), temperature=1.0)
            results.append(torch.autograd.grad(weighed(stats), list(model.parameters())))
    torch.testing.assert_close(*results, atol=0, rtol=0)
    assert dropouts == [getattr(module, "dropout", None) for module in model.modules()]
    assert not any(module.training for module in model.modules())


def test_a_model_that_cannot_compute_its_activations_again_is_refused():
    model = random("ctrl", n_layer=1, dff=8)
    with pytest.raises(UsageError, match="CTRLLMHeadModel has no layers"):
        logprobs.recomputing(model, True).__enter__()


@pytest.mark.parametrize(
    "kind", ["qwen2", "qwen3", "llama", "gpt2", "qwen2_moe", "qwen3_moe", "lfm2"]
)
def test_models_whose_tokens_see_their_own_row_alone_may_be_packed(kind):
    assert passes.keeps_rows_apart(random(kind))


@pytest.mark.parametrize(
    "kind",
    ["bloom", "mamba", "qwen3_next", "jamba", "stablelm", "mistral", "gemma2", "gpt_oss"],
)
def test_models_that_would_mix_packed_rows_are_known(kind):
    model = random(kind)
    assert not passes.keeps_rows_apart(model)
    with pytest.raises(UsageError, match="cannot be given packed rows"):
        passes.chosen(model, 512, torch.float32, "true", "auto")


def test_falcon_is_packed_only_where_this_transformers_keeps_its_rows_apart():
    """Newer releases do, by the positions, which begin again with each row."""
    model = random("falcon")
    if not passes.keeps_rows_apart(model):
        with pytest.raises(UsageError, match="cannot be given packed rows"):
            passes.chosen(model, 512, torch.float32, "true", "auto")
        return
    padded = logprobs.completion_stats(model, rows(), temperature=0.8)
    with passes.Pass(model, True, False, 512).here():
        packed = logprobs.completion_stats(model, rows(), temperature=0.8, packed=0)
    torch.testing.assert_close(packed.logp_BT, padded.logp_BT, atol=1e-5, rtol=1e-5)


def test_a_sink_and_a_cap_are_seen_though_no_option_names_them(monkeypatch):
    model = random("llama")
    attend = packed_attention.attend
    monkeypatch.setattr(
        packed_attention, "attend", lambda *given, **more: (0.99 * attend(*given, **more)[0], None)
    )
    assert not passes.keeps_rows_apart(model)


def test_the_model_attends_as_before_after_a_pass():
    model = random("qwen2")
    before = model.config._attn_implementation
    with pytest.raises(KeyError), passes.Pass(model, True, False, 512).here():
        assert model.config._attn_implementation == packed_attention.NAME
        raise KeyError
    assert model.config._attn_implementation == before


@pytest.mark.parametrize("pack", ["auto", "true"])
def test_flash_attention_4_is_refused_where_rows_are_not_packed_in_bfloat16(pack):
    with pytest.raises(UsageError, match="is for packed rows in bfloat16"):
        passes.chosen(random("qwen2"), 512, torch.float32, pack, "auto", "flash4")


def test_flash_attention_4_is_refused_with_what_installs_it_or_where_it_does_not_run():
    model = random("qwen2")
    with pytest.raises(UsageError, match=r"is not installed|capability 9\.0"):
        passes.chosen(model, 512, torch.bfloat16, "true", "auto", "flash4")


def test_another_attention_of_packed_rows_takes_the_place_of_torch_s(monkeypatch):
    model, seen = random("qwen2"), []

    def attend(*inputs, **options):
        seen.append(options["packed"])
        return packed_attention.attend(*inputs, **options)

    monkeypatch.setattr(passes.packed_flash4, "attend", attend)
    with passes.Pass(model, True, False, 512, "flash4").here():
        logprobs.completion_stats(model, rows(), temperature=1.0, packed=0)
    assert len(seen) == SIZES["num_hidden_layers"]


def test_a_small_model_on_a_cpu_is_neither_packed_nor_compiled():
    chosen = passes.chosen(random("qwen2"), 512, torch.float32, "auto", "auto")
    assert (chosen.packed, chosen.compiled, chosen.least) == (False, False, None)
    assert list(chosen.micro_batches(rows())) == list(logprobs.micro_batches(rows(), 512))


@pytest.mark.parametrize("tokens", [1, 40, 100, 128, 10_000])
def test_packed_batches_hold_each_row_once_and_at_most_so_many_tokens(tokens):
    sizes = [row.size for row in rows()]
    cuts = list(packing.batches(sizes, tokens))
    assert sorted(i for cut in cuts for i in cut) == list(range(len(sizes)))
    assert all(len(cut) == 1 or sum(sizes[i] for i in cut) <= tokens for cut in cuts)
    assert cuts == list(packing.batches(list(sizes), tokens))
    assert list(packing.batches([], tokens)) == []


@pytest.mark.parametrize("least", [0, 1, 500, 4096])
def test_a_filling_is_of_rows_no_longer_than_the_longest(least):
    packed = packing.pack(rows(), torch.device("cpu"), least=least)
    sizes = packed.ends.at.diff()
    assert packed.token_1S.shape == packed.place_1S.shape
    assert packed.token_1S.shape[1] % 128 == 0
    assert packed.token_1S.shape[1] == packed.ends.at[-1] >= least
    assert sizes.min() > 0 and sizes.max() == packed.ends.longest
    assert packed.place_1S[0].tolist() == [i for size in sizes.tolist() for i in range(size)]
