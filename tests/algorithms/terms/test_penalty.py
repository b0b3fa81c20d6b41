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
