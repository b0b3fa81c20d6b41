"""Estimates of the divergence from the reference policy, by hand."""

import math

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import tensor

from rlvr_cli.algorithms.terms import penalty


def f64(value):
    return tensor(value, dtype=torch.float64)


@pytest.mark.parametrize("logp, ref_logp", [(-1.0, -1.5), (-1.5, -1.0), (-2.0, -2.0), (-9.0, -1.0)])
def test_the_estimators_are_their_formulas(logp, ref_logp):
    logp_, ref_logp_ = f64(logp), f64(ref_logp)
    drift = logp - ref_logp
    assert float(penalty.k1(logp_, ref_logp_)) == pytest.approx(drift)
    assert float(penalty.k2(logp_, ref_logp_)) == pytest.approx(drift**2 / 2)
    assert float(penalty.k3(logp_, ref_logp_)) == pytest.approx(math.exp(-drift) + drift - 1)


@pytest.mark.parametrize(
    "estimate, slope", [(penalty.k1, 1.0), (penalty.k2, 0.5), (penalty.k3, 1 - math.exp(-0.5))]
)
def test_the_slopes_by_the_policys_log_prob_half_a_nat_above_the_reference(estimate, slope):
    logp = f64(-1.0).requires_grad_()
    estimate(logp, f64(-1.5)).backward()
    assert float(logp.grad) == pytest.approx(slope, rel=1e-12)


@settings(max_examples=200)
@given(logp=st.floats(-300, 0, width=32), ref_logp=st.floats(-300, 0, width=32))
def test_k3_is_never_negative_nor_infinite_in_float32(logp, ref_logp):
    value = penalty.k3(tensor(logp), tensor(ref_logp))
    assert 0 <= float(value) < math.inf


def test_k3_keeps_its_digits_for_a_tiny_drift():
    # e^x - x - 1 = x^2 / 2 + x^3 / 6; without expm1 no digit would be left.
    drift = 1e-8
    value = float(penalty.k3(f64(0.0), f64(drift)))
    assert value == pytest.approx(drift**2 / 2, rel=1e-3, abs=0)


def test_k3_averages_to_the_divergence_over_the_policys_samples():
    policy, reference = f64([0.5, 0.3, 0.2]), f64([0.2, 0.2, 0.6])
    truth = float((policy * (policy / reference).log()).sum())
    for estimate in (penalty.k1, penalty.k3):
        mean = float((policy * estimate(policy.log(), reference.log())).sum())
        assert mean == pytest.approx(truth, rel=1e-12)


# Policies of four tokens each: what an estimate's gradient is on average, by the logits.


def policies(seed):
    """The logits of a policy, with gradient, and the log-probs of an old and a reference policy."""
    rng = torch.Generator().manual_seed(seed)
    logits = torch.randn(4, generator=rng, dtype=torch.float64).requires_grad_()
    other = torch.randn(2, 4, generator=rng, dtype=torch.float64)
    return logits, *other.log_softmax(-1)


def gradient(value, logits):
    (made,) = torch.autograd.grad(value, logits)
    return made


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_a_reweighted_estimate_has_the_divergences_gradient_over_tokens_of_another_policy(
    estimator, seed
):
    logits, old, ref = policies(seed)
    logp = logits.log_softmax(-1)
    truth = gradient((logp.exp() * (logp - ref)).sum(), logits)
    logp = logits.log_softmax(-1)
    cost = penalty.reweighted(estimator, logp, old, ref)
    torch.testing.assert_close(gradient((old.exp() * cost).sum(), logits), truth)


@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_a_reweighted_estimate_averages_to_the_divergence(estimator):
    logits, old, ref = policies(0)
    logp = logits.log_softmax(-1)
    cost = penalty.reweighted(estimator, logp, old, ref)
    truth = (logp.exp() * (logp - ref)).sum()
    torch.testing.assert_close((old.exp() * cost).sum(), truth)


def test_without_drift_k1_has_no_gradient_k2_the_divergences_and_k3_that_of_the_other_way_round():
    logits, _, ref = policies(0)
    logp = logits.log_softmax(-1)
    forward = gradient((logp.exp() * (logp - ref)).sum(), logits)
    logp = logits.log_softmax(-1)
    backward = gradient((ref.exp() * (ref - logp)).sum(), logits)
    truths = {"k1": torch.zeros(4).double(), "k2": forward, "k3": backward}
    for name, truth in truths.items():
        logp = logits.log_softmax(-1)
        mean = (logp.detach().exp() * getattr(penalty, name)(logp, ref)).sum()
        torch.testing.assert_close(gradient(mean, logits), truth, rtol=1e-9, atol=1e-12)


def test_a_ratio_of_two_hundred_nats_is_finite_in_float32():
    logp = torch.tensor(-1.0).requires_grad_()
    for name in ("k1", "k2", "k3"):
        for old in (-201.0, 199.0):
            cost = penalty.reweighted(name, logp, torch.tensor(old), torch.tensor(-2.0))
            (slope,) = torch.autograd.grad(cost, logp)
            assert bool(cost.isfinite()) and bool(slope.isfinite())
