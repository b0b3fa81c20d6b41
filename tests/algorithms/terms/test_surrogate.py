"""Gains, by hand: the four corners of the clip, and the pull of the trust region."""

import math

import pytest
import torch
from torch import tensor

from rlvr_cli.algorithms.terms import surrogate


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
    result = gain_and_slope(clipped, ratio, advantage)
    assert result == pytest.approx((gain, slope), rel=1e-12, abs=1e-15)


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
    gain = gain_and_slope(surrogate.trust_region, rho, advantage)
    left = rho * (advantage - log_rho)
    assert gain == pytest.approx((left, left), rel=1e-12, abs=1e-15)


def test_the_trust_region_pulls_back_once_the_log_ratio_is_beyond_the_advantage():
    assert gain_and_slope(surrogate.trust_region, math.exp(0.5), 0.6)[1] > 0
    assert gain_and_slope(surrogate.trust_region, math.exp(0.7), 0.6)[1] < 0
    assert gain_and_slope(surrogate.trust_region, math.exp(0.1), 0.0)[1] < 0


def soft_gate(log_ratio, advantage):
    return surrogate.soft_gate(log_ratio, advantage, tau_pos=1.0, tau_neg=2.0)


def preserving(log_ratio, advantage):
    betas = {"beta1": 0.5, "beta2": 2.0}
    return surrogate.preserving(log_ratio, advantage, low=0.25, high=0.5, **betas)


def flipped(log_ratio, advantage):
    return surrogate.flipped(log_ratio, advantage, low=0.25, high=0.5, cap=2.5)


@pytest.mark.parametrize("advantage, tau", [(3.0, 1.0), (-3.0, 2.0)])
@pytest.mark.parametrize("ratio", [0.3, 1.0, 2.5])
def test_a_soft_gate_is_a_sigmoid_of_slope_one_at_one(advantage, tau, ratio):
    p = 1 / (1 + math.exp(-tau * (ratio - 1)))
    made = gain_and_slope(soft_gate, ratio, advantage)
    slope = advantage * 4 * p * (1 - p) * ratio
    assert made == pytest.approx((advantage * 4 / tau * p, slope), rel=1e-12)


@pytest.mark.parametrize(
    "ratio, advantage, gain",
    [
        pytest.param(2.0, 2.0, 2.0 * 1.5 * 2, id="above the clip, A > 0"),
        pytest.param(2.0, -2.0, -4.0, id="above the clip, A < 0"),
        pytest.param(0.5, 2.0, 1.0, id="below the clip, A > 0"),
        pytest.param(0.5, -2.0, 0.5 * 0.75 * -2, id="below the clip, A < 0"),
        pytest.param(1.5, 2.0, 3.0, id="at the clip, A > 0"),
        pytest.param(0.75, -2.0, -1.5, id="at the clip, A < 0"),
    ],
)
def test_a_preserving_clip_has_a_slope_as_large_as_its_gain(ratio, advantage, gain):
    assert gain_and_slope(preserving, ratio, advantage) == pytest.approx((gain, gain), rel=1e-12)


@pytest.mark.parametrize("gain", [clipped, surrogate.trust_region, soft_gate, preserving, flipped])
def test_two_hundred_nats_are_finite_in_float32(gain):
    log_ratio = tensor([[200.0, -200.0, 200.0, -200.0]], requires_grad=True)
    value = gain(log_ratio, tensor([[3.0, 3.0, -3.0, -3.0]]))
    value.sum().backward()
    assert bool(value.isfinite().all()) and bool(log_ratio.grad.isfinite().all())


# Gains of whole completions: log ratios d, mask, gain and slope by each d.


def whole(gain, d, advantage, mask=None):
    d_BT = tensor([d], dtype=torch.float64, requires_grad=True)
    mask_BT = tensor([mask or [True] * len(d)])
    value_BT = gain(d_BT, tensor([[advantage]], dtype=torch.float64), mask_BT)
    assert len(set(value_BT[0].tolist())) == 1, "the gain stands at each token"
    (slope,) = torch.autograd.grad(value_BT[0, 0], d_BT)
    return value_BT[0, 0].item(), slope[0].tolist()


def geometric(d_BT, advantage_B1, mask_BT):
    return surrogate.geometric(d_BT, advantage_B1, mask_BT, clip=0.4)


def power_mean(power, low=0.2):
    def gain(d_BT, advantage_B1, mask_BT):
        bounds = {"power_B1": power, "low_B1": low, "high_B1": 0.5}
        columns = {k: tensor([[v]], dtype=torch.float64) for k, v in bounds.items()}
        return surrogate.power_mean(d_BT, advantage_B1, mask_BT, **columns)

    return gain


def test_the_geometric_mean_is_clipped_above_for_success_and_below_for_errors():
    gain, slope = whole(geometric, [1.0, -1.0, 0.2], 3.0)
    mean = math.exp((0.4 - 1.0 + 0.2) / 3)
    assert gain == pytest.approx(3 * mean, rel=1e-14)
    assert slope == pytest.approx([0, mean, mean], rel=1e-14)
    gain, slope = whole(geometric, [1.0, -1.0, 0.2], -3.0)
    mean = math.exp((1.0 - 0.4 + 0.2) / 3)
    assert gain == pytest.approx(-3 * mean, rel=1e-14)
    assert slope == pytest.approx([-mean, 0, -mean], rel=1e-14)


@pytest.mark.parametrize("power", [1.0, 0.5, 2.0, -1.0])
def test_the_power_mean_is_its_definition_on_ratios_clipped_on_one_side(power):
    ratios = [1.2, 0.5, 2.0]
    for advantage, clipped_ratios in [(3.0, [1.2, 0.5, 1.5]), (-3.0, [1.2, 0.8, 2.0])]:
        mean = (sum(u**power for u in clipped_ratios) / 3) ** (1 / power)
        flat = [u != r for u, r in zip(clipped_ratios, ratios, strict=True)]
        slopes = [
            0 if f else advantage / 3 * mean ** (1 - power) * u**power
            for f, u in zip(flat, clipped_ratios, strict=True)
        ]
        gain, slope = whole(power_mean(power), [math.log(r) for r in ratios], advantage)
        assert gain == pytest.approx(advantage * mean, rel=1e-13)
        assert slope == pytest.approx(slopes, rel=1e-13)


def test_a_bound_of_a_whole_1_or_more_below_clips_nothing():
    for low in (1.0, 1.5):
        gain, _ = whole(power_mean(1.0, low), [math.log(r) for r in (1.2, 0.5, 2.0)], -3.0)
        assert gain == pytest.approx(-3.7, rel=1e-13)


def test_a_power_of_zero_is_the_geometric_mean_and_its_neighbours_agree():
    ratios = [math.log(r) for r in (1.2, 0.5, 2.0)]
    mean = (1.2 * 0.5 * 1.5) ** (1 / 3)
    for power, rel in [(0.0, 1e-14), (1e-9, 1e-8), (1e-6, 1e-5)]:
        gain, slope = whole(power_mean(power), ratios, 3.0)
        assert gain == pytest.approx(3 * mean, rel=rel)
        assert slope == pytest.approx([mean, mean, 0], rel=rel)


@pytest.mark.parametrize("gain", [geometric, power_mean(0.5), power_mean(0.0)])
def test_a_mean_over_a_completion_counts_its_trained_tokens_alone(gain):
    result = whole(gain, [0.3, 77.0, -0.1], 2.0, [True, False, True])
    expected = whole(gain, [0.3, -0.1], 2.0)
    assert result[0] == pytest.approx(expected[0], rel=1e-14)
    assert result[1] == pytest.approx([expected[1][0], 0, expected[1][1]], rel=1e-14)


@pytest.mark.parametrize("gain", [geometric, power_mean(0.5), power_mean(0.0)])
def test_an_empty_completion_has_a_finite_gain_and_no_slope(gain):
    result = whole(gain, [1.0, 2.0], 2.0, [False, False])
    assert result == (2.0, [0, 0])


def test_a_capped_ratio_weighs_the_log_prob_and_carries_no_gradient():
    logp = tensor([[-0.5, -2.0]], dtype=torch.float64, requires_grad=True)
    old = tensor([[-0.5 - math.log(3), -2.0 - math.log(1.5)]], dtype=torch.float64)
    gain_BT = surrogate.capped(logp - old, logp, tensor([[-2.0]]).double(), floor=0.0, cap=2.0)
    (slope,) = torch.autograd.grad(gain_BT.sum(), logp)
    assert gain_BT.tolist()[0] == pytest.approx([2.0, 1.5 * -2 * -2.0], rel=1e-14)
    assert slope.tolist()[0] == pytest.approx([-4.0, -3.0], rel=1e-14)


@pytest.mark.parametrize("advantage, k, rate", [(2.0, 2.0, 3.0), (-2.0, 3.0, 0.5), (0.0, 2, 3)])
def test_a_kernel_weighs_the_log_prob_and_carries_no_gradient(advantage, k, rate):
    logp = tensor([[-0.5, -2.0]], dtype=torch.float64, requires_grad=True)
    log_w = (logp - tensor([[-0.7, -2.1]], dtype=torch.float64)).sum() * torch.ones_like(logp)
    a_B1 = tensor([[advantage]], dtype=torch.float64)
    gain_BT = surrogate.reshaped(log_w, logp, a_B1, pos=(2.0, 3.0), neg=(3.0, 0.5))
    (slope,) = torch.autograd.grad(gain_BT.sum(), logp)
    w = math.exp(0.3)
    phi = w**k * math.exp(rate * (1 - w))
    assert slope.tolist()[0] == pytest.approx([phi * advantage] * 2, rel=1e-12)
    assert gain_BT.tolist()[0] == pytest.approx([-0.5 * phi * advantage, -2 * phi * advantage])


@pytest.mark.parametrize("advantage, weights", [(2.0, [1, 1]), (-2.0, [1, 0.25])])
def test_a_taper_weighs_errors_alone_and_carries_no_gradient(advantage, weights):
    logp = tensor([[-0.5, -2.0]], dtype=torch.float64, requires_grad=True)
    old = tensor([[-0.5 - math.log(3), -2.0 - math.log(0.25)]], dtype=torch.float64)
    gain_BT = surrogate.tapered(logp - old, logp, tensor([[advantage]]).double())
    (slope,) = torch.autograd.grad(gain_BT.sum(), logp)
    assert slope.tolist()[0] == pytest.approx([w * advantage for w in weights], rel=1e-14)
    expected = [weights[0] * advantage * -0.5, weights[1] * advantage * -2.0]
    assert gain_BT.tolist()[0] == pytest.approx(expected, rel=1e-14)


def test_a_quadratic_is_of_the_token_or_of_the_completion():
    logp = tensor([[-0.5, -2.0]], dtype=torch.float64, requires_grad=True)
    d_BT = logp - tensor([[-1.5, -4.0]], dtype=torch.float64)  # 1 and 2 nats
    a_B1 = tensor([[3.0]]).double()
    for span_BT, squares, slopes in [
        (d_BT, [1, 4], [3 - 0.4, 3 - 0.8]),
        (d_BT.sum(-1, keepdim=True).expand_as(d_BT), [3, 6], [3 - 1.2, 3 - 1.2]),
    ]:
        gain_BT = surrogate.quadratic(d_BT, span_BT, logp, a_B1, beta=0.4)
        (slope,) = torch.autograd.grad(gain_BT.sum(), logp, retain_graph=True)
        expected = [-1.5 - 0.2 * squares[0], -6 - 0.2 * squares[1]]
        assert gain_BT.tolist()[0] == pytest.approx(expected, rel=1e-14)
        assert slope.tolist()[0] == pytest.approx(slopes, rel=1e-14)


@pytest.mark.parametrize(
    "ratio, advantage, gain, slope",
    [
        pytest.param(0.5, 2.0, 4.0, 4.0, id="A > 0: the reciprocal"),
        pytest.param(0.1, 2.0, 5.0, 5.0, id="A > 0, capped: not flat"),
        pytest.param(2.0, 2.0, 2 / 1.5, 0.0, id="A > 0, above the clip: flat"),
        pytest.param(1.5, 2.0, 2 / 1.5, 2 / 1.5, id="A > 0, at the clip"),
        pytest.param(2.0, -2.0, -4.0, -4.0, id="A < 0: the ratio"),
        pytest.param(9.0, -2.0, -5.0, -5.0, id="A < 0, capped: not flat"),
        pytest.param(0.5, -2.0, -1.5, 0.0, id="A < 0, below the clip: flat"),
        pytest.param(0.75, -2.0, -1.5, -1.5, id="A < 0, at the clip"),
        pytest.param(0.5, 0.0, 0.0, 0.0, id="A = 0"),
    ],
)
def test_a_flipped_ratio(ratio, advantage, gain, slope):
    made = gain_and_slope(flipped, ratio, advantage)
    assert made == pytest.approx((gain, slope), rel=1e-12, abs=1e-15)


def test_the_log_prob_alone_has_no_ratio():
    logp = tensor([[-0.5, -2.0]])
    assert surrogate.log_prob(logp, tensor([[-2.0]])).tolist() == [[1.0, 4.0]]


def trust_region(**options):
    return lambda d_BT, a_B1: surrogate.trust_region(d_BT, a_B1, **options)


def test_without_its_log_ratio_the_trust_region_gain_is_rho_times_the_advantage():
    gain = gain_and_slope(trust_region(log_ratio=False), 1.5, 2.0)
    assert gain == pytest.approx((3.0, 3.0), rel=1e-14)


def test_a_log_ratio_with_gradient_pulls_by_one_more():
    gain, slope = gain_and_slope(trust_region(detach=False), 1.5, 2.0)
    assert gain == pytest.approx(1.5 * (2 - math.log(1.5)), rel=1e-14)
    assert slope == pytest.approx(1.5 * (2 - math.log(1.5) - 1), rel=1e-14)


@pytest.mark.parametrize(
    "ratio, advantage, gain, slope",
    [
        pytest.param(1.0, 2.0, 2.0, 2.0, id="not moved"),
        pytest.param(1.25, 2.0, 2.25, 0.0, id="a success at the width: at rest"),
        pytest.param(1.5, 2.0, 2.0, -3.0, id="a success beyond: brought back"),
        pytest.param(0.5, 2.0, 0.0, 3.0, id="a success that has fallen: pulled up harder"),
        pytest.param(0.75, -2.0, -1.75, 0.0, id="an error at the width: at rest"),
        pytest.param(0.5, -2.0, -2.0, 1.0, id="an error beyond: brought back"),
        pytest.param(1.5, -2.0, -4.0, -9.0, id="an error that has risen: pushed down harder"),
    ],
)
def test_a_square_brings_a_token_back_to_the_width(ratio, advantage, gain, slope):
    def parabolic(log_ratio, advantage):
        return surrogate.parabolic(log_ratio, advantage, width=0.25)

    result = gain_and_slope(parabolic, ratio, advantage)
    assert result == pytest.approx((gain, slope), rel=1e-12, abs=1e-12)
