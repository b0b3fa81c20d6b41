"""Gains, by hand: the four corners of the clip, and the pull of the trust region."""

import math

import pytest
import torch
from torch import tensor

from rlvr_cli.parts import surrogate


def gain_and_slope(gain, ratio, advantage):
    """The gain at a ratio, and its derivative by the log ratio."""
    log_ratio = tensor([[math.log(ratio)]], dtype=torch.float64, requires_grad=True)
    value = gain(log_ratio, tensor([[advantage]], dtype=torch.float64))
    (slope,) = torch.autograd.grad(value.sum(), log_ratio)
    return value.item(), slope.item()


def clipped(log_ratio, advantage):
    return surrogate.clipped(log_ratio, advantage, low=0.2, high=0.28)


@pytest.mark.parametrize(
    "ratio, advantage, gain, slope",
    [
        pytest.param(1.5, 2.0, 1.28 * 2, 0.0, id="above the clip, A > 0: flat"),
        pytest.param(0.5, 2.0, 0.5 * 2, 0.5 * 2, id="below the clip, A > 0: not flat"),
        pytest.param(1.5, -2.0, 1.5 * -2, 1.5 * -2, id="above the clip, A < 0: not flat"),
        pytest.param(0.5, -2.0, 0.8 * -2, 0.0, id="below the clip, A < 0: flat"),
        pytest.param(1.25, 2.0, 2.5, 2.5, id="within the clip, above 1, A > 0"),
        pytest.param(0.85, -2.0, -1.7, -1.7, id="within the clip, below 1, A < 0"),
        pytest.param(1.0, 2.0, 2.0, 2.0, id="at 1, A > 0"),
        pytest.param(1.0, -2.0, -2.0, -2.0, id="at 1, A < 0"),
        pytest.param(1.5, 0.0, 0.0, 0.0, id="A = 0"),
        pytest.param(math.exp(19), -1.0, -math.exp(19), -math.exp(19), id="no dual clip"),
    ],
)
def test_the_clipped_gain_and_its_slope(ratio, advantage, gain, slope):
    made = gain_and_slope(clipped, ratio, advantage)
    assert made == pytest.approx((gain, slope), rel=1e-12, abs=1e-15)


def test_low_and_high_are_distances_below_and_above_one():
    log_ratio, up = tensor([[3.0]]), tensor([[1.0]])
    assert surrogate.clipped(log_ratio, up, low=0.9, high=0.5).item() == pytest.approx(1.5)
    assert surrogate.clipped(-log_ratio, -up, low=0.9, high=0.5).item() == pytest.approx(-0.1)


@pytest.mark.parametrize(
    "log_rho, advantage",
    [(0.0, 0.7), (0.0, -0.7), (0.4, 0.7), (0.7, 0.7), (1.1, 0.7), (-0.5, -2.6), (-3.0, -2.6)],
)
def test_the_trust_region_gain_is_rho_times_what_is_left_of_the_advantage(log_rho, advantage):
    rho = math.exp(log_rho)
    made = gain_and_slope(surrogate.trust_region, rho, advantage)
    left = rho * (advantage - log_rho)
    assert made == pytest.approx((left, left), rel=1e-12, abs=1e-15)


def test_the_trust_region_pulls_back_once_the_log_ratio_is_beyond_the_advantage():
    assert gain_and_slope(surrogate.trust_region, math.exp(0.5), 0.6)[1] > 0
    assert gain_and_slope(surrogate.trust_region, math.exp(0.7), 0.6)[1] < 0
    assert gain_and_slope(surrogate.trust_region, math.exp(0.1), 0.0)[1] < 0


@pytest.mark.parametrize("gain", [clipped, surrogate.trust_region])
def test_two_hundred_nats_are_finite_in_float32(gain):
    log_ratio = tensor([[200.0, -200.0, 200.0, -200.0]], requires_grad=True)
    value = gain(log_ratio, tensor([[3.0, 3.0, -3.0, -3.0]]))
    value.sum().backward()
    assert bool(value.isfinite().all()) and bool(log_ratio.grad.isfinite().all())
