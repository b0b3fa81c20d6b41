"""The same bits of tokens and log-probs for any number of rows and any interruption, on a CPU.

tests/kernels/under_triton.py has the kernels that compute them on a GPU.
"""

import dataclasses

import pytest
import torch
from transformers import AutoModelForCausalLM, Gemma2Config, LlamaConfig, Olmo2Config, Qwen3Config

from rlvr_cli import registry
from rlvr_cli.engines.rollout import _invariant
from rlvr_cli.engines.rollout._step import draw
from rlvr_cli.engines.rollout.graph import GraphEngine
from rlvr_cli.errors import UsageError
from rlvr_cli.kernels import dispatch
from rlvr_cli.protocols import Request, SamplingParams

SIZES = {
    "vocab_size": 99, "hidden_size": 40, "intermediate_size": 50, "num_hidden_layers": 1,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128,
}  # fmt: skip


@pytest.fixture(scope="module")
def own(loaded):
    """Sizes that are no whole vectors, whose last numbers torch computes otherwise on a CPU."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(LlamaConfig(**SIZES)).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.2)
    return dataclasses.replace(loaded, model=model, eos_ids=(98,))


REQUESTS = [Request([1 + n, *range(7 * n % 20)], 100 + n) for n in range(8)]
LIMITS = [3, 1, 4, 2, 4, 1, 3, 2]
SAMPLING = {
    "noise 1": (1, SamplingParams(4, 1.5)),
    "noise 2": (2, SamplingParams(4, 1.5, top_p=0.9)),
    "top-k": (1, SamplingParams(4, 1.5, top_k=5)),
    "likeliest": (1, SamplingParams(4, 0.0)),
}


def sample(engine, sampling, chosen=range(len(REQUESTS))):
    requests, limits = [REQUESTS[i] for i in chosen], [LIMITS[i] for i in chosen]
    return {chosen[i]: made for i, made in engine.generate(requests, sampling, limits)}


@pytest.mark.parametrize("name", SAMPLING)
def test_bits_are_the_same_for_any_rows_refilled_shrunk_and_after_an_interruption(own, name):
    noise, sampling = SAMPLING[name]

    def engine(rows):
        return GraphEngine(own, rows, least_rows=1, noise=noise, deterministic=True)

    together = sample(engine(8), sampling)
    for rows in (1, 3, 7):
        assert sample(engine(rows), sampling) == together
    left = [7, 2, 4]  # of an interrupted part
    assert sample(engine(4), sampling, left) == {i: together[i] for i in left}


def test_tokens_are_those_of_the_engine_without_it_and_log_probs_differ_in_their_last_bits(own):
    sampling = SamplingParams(4, 1.5)
    fixed = sample(GraphEngine(own, 8, deterministic=True), sampling)
    for i, other in sample(GraphEngine(own, 8), sampling).items():
        assert fixed[i].token_ids == other.token_ids
        assert fixed[i].behaviour_logp == pytest.approx(other.behaviour_logp, abs=1e-5)


def test_top_k_keeps_equals_of_its_last_so_that_no_order_decides_which():
    logits = torch.tensor([[2.0, 1.0, 1.0, 1.0, -3.0]]).expand(200, -1)
    sampling = SamplingParams(1, top_k=2)
    drawn = draw(logits, torch.arange(200), sampling, deterministic=True)
    assert set(drawn.token_B.tolist()) == {0, 1, 2, 3}
    kept = draw(logits, torch.arange(200), sampling)
    assert len(set(kept.token_B.tolist())) == 2


def test_the_likeliest_token_has_the_log_prob_of_the_unscaled_policy():
    logits = torch.randn(4, 50, generator=torch.Generator().manual_seed(0))
    sampling, seeds = SamplingParams(1, 0.0), torch.arange(4)
    drawn, truth = (draw(logits, seeds, sampling, deterministic=flag) for flag in (True, False))
    assert torch.equal(drawn.token_B, truth.token_B)
    torch.testing.assert_close(drawn.logp_B, truth.logp_B)


NORMS = {
    "llama": (LlamaConfig(**SIZES), _invariant._rounded),
    "qwen 3": (Qwen3Config(**SIZES), _invariant._rounded),
    "olmo 2": (Olmo2Config(**SIZES, pad_token_id=0), _invariant._wide),
    "gemma 2": (Gemma2Config(**SIZES, head_dim=16), _invariant._above_one),
}


@pytest.mark.parametrize("family", NORMS)
def test_how_a_norm_applies_its_weight_is_found_by_its_bits_whatever_the_weight_is_now(family):
    config, scaling = NORMS[family]
    model = AutoModelForCausalLM.from_config(config).bfloat16()  # weights of 1, or of 0
    norms = [m for m in model.modules() if type(m).__name__.endswith("RMSNorm")]
    assert len(norms) > 2
    assert {_invariant._scaling_of(norm) for norm in norms} == {scaling}


def test_a_norm_of_another_kind_is_refused():
    class OddRMSNorm(torch.nn.Module):
        eps = 1e-6

        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(8))

        def forward(self, hidden):
            return hidden * self.weight.abs()

    with pytest.raises(UsageError, match="cannot compute a OddRMSNorm"):
        _invariant._scaling_of(OddRMSNorm())


def test_kernels_that_are_asked_for_and_cannot_run_are_an_error_with_the_reason(own, monkeypatch):
    monkeypatch.setenv(dispatch.VARIABLE, "triton")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(UsageError, match="deterministic=true needs the kernels: "):
        sample(GraphEngine(own, 2, deterministic=True), SamplingParams(2))


def test_at_least_two_rows_are_decoded_where_layers_are_compiled(own):
    """torch.compile makes other code of a single row."""
    for fuse, rows in ((False, 1), (True, 2)):
        engine = GraphEngine(own, 1, least_rows=1, fuse=fuse, deterministic=True)
        batch = engine._batch(REQUESTS[:1], SamplingParams(2), 2)
        assert batch.rows == rows and batch._least == rows


def test_it_is_an_option_of_the_engine_and_off_unless_it_is_asked_for(own):
    assert registry.parse("rollout", "graph")[1]["deterministic"] is False
    engine = registry.build("rollout", "graph:rows=3,deterministic=true")(own.policy, own)
    assert engine._deterministic


@pytest.mark.slow
def test_a_directory_that_was_begun_with_it_goes_on_with_it(
    rlvr, refused, chain, tmp_path, files_of
):
    words = ["rollout", chain / "prompts", "-n2", "--max-new-tokens=4", "--prompts-per-part=2"]
    spec, cut, whole = "graph:rows=4,deterministic=true", tmp_path / "cut", tmp_path / "whole"
    assert rlvr(*words, "--out", whole, "--engine", spec).code == 0
    assert rlvr(*words, "--out", cut, "--engine", spec, "--shard", "1/2").code == 0
    err = refused(2, *words, "--out", cut, "--engine", "graph:rows=4,deterministic=false")
    assert "deterministic" in err
    assert rlvr(*words, "--out", cut, "--engine", "graph").code == 0
    assert files_of(cut) == files_of(whole)
