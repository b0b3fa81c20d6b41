"""Which implementation is taken, and what is said about it."""

import importlib.util

import pytest
import torch

from rlvr_cli.errors import UsageError, UserError
from rlvr_cli.kernels import dispatch, reference
from rlvr_cli.protocols import Row

ARGUMENTS = torch.randn(3, 4), torch.randn(6, 4), torch.tensor([0, 5, 2])


@pytest.fixture
def with_triton(monkeypatch):
    """As if triton were there; what is asked about here is decided before it is imported."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setenv("TRITON_INTERPRET", "1")


@pytest.mark.parametrize("chosen", [None, "auto", "reference"])
def test_on_a_cpu_the_reference_is_taken_silently(monkeypatch, recwarn, chosen):
    monkeypatch.delenv(dispatch.VARIABLE, raising=False)
    if chosen:
        monkeypatch.setenv(dispatch.VARIABLE, chosen)
    result, truth = (m.token_stats(*ARGUMENTS, temperature=0.5) for m in (dispatch, reference))
    assert all(torch.equal(a, b) for a, b in zip(result[:4], truth[:4], strict=True))
    assert torch.equal(dispatch.top_k(*ARGUMENTS[:2], 2)[0], reference.top_k(*ARGUMENTS[:2], 2)[0])
    seeds = torch.arange(3)
    assert torch.equal(dispatch.sample(*ARGUMENTS[:1], seeds, 0)[0],
                       reference.sample(*ARGUMENTS[:1], seeds, 0)[0])  # fmt: skip
    assert not recwarn


def test_kernels_that_are_asked_for_and_cannot_be_had_are_refused_with_the_reason(monkeypatch):
    monkeypatch.setenv(dispatch.VARIABLE, "triton")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(dispatch.Unsupported, match=r"triton is not installed|need a GPU"):
        dispatch.token_stats(*ARGUMENTS)


def test_a_word_that_names_no_implementation_is_refused(monkeypatch):
    monkeypatch.setenv(dispatch.VARIABLE, "cuda")
    with pytest.raises(
        dispatch.Unsupported, match="RLVR_KERNELS is `cuda`, it may be auto, triton"
    ):
        dispatch.token_stats(*ARGUMENTS)


def test_a_dtype_and_a_number_of_top_k_may_be_unsupported(with_triton):
    assert "torch.float64" in dispatch.reason_against(torch.zeros(1).double())
    assert "65 top-k tokens are requested" in dispatch.reason_against(torch.zeros(1), 65)
    assert dispatch.reason_against(torch.zeros(1), 64) is None


def test_a_fallback_is_said_aloud_once():
    dispatch._say.cache_clear()
    with pytest.warns(UserWarning, match="the reference is used, not the kernels: of old age"):
        dispatch._say("of old age")
    dispatch._say("of old age")  # a second warning would be an error below
    dispatch._say.cache_clear()


def test_forward_says_what_is_refused_as_an_error_with_a_hint(loaded, monkeypatch):
    from rlvr_cli.models import logprobs

    rows = [Row([3], [0, 1])]
    monkeypatch.setenv(dispatch.VARIABLE, "triton")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(UsageError, match="RLVR_KERNELS is triton, but") as refused:
        logprobs.completion_stats(loaded.model, rows, temperature=1.0)
    assert "RLVR_KERNELS" in refused.value.hint
    monkeypatch.delenv(dispatch.VARIABLE)
    norm = loaded.model.base_model.norm.weight
    kept = norm.detach().clone()
    try:
        norm.data[2] = torch.nan
        with pytest.raises(UserError, match="gives no log-probs: hidden_NH holds NaN in row 0"):
            logprobs.completion_stats(loaded.model, rows, temperature=1.0)
    finally:
        norm.data.copy_(kept)
