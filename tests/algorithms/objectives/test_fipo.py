"""FIPO from its equations (arXiv:2603.19835, eq. 6 to 8)."""

import math

import numpy as np
import pytest

from rlvr_cli.algorithms import objective
from rlvr_cli.errors import UsageError

DEFAULTS = (
    "fipo:half_life=32.0,f_low=0.0,f_high=0.2,safety=10.0,clip_low=0.2,clip_high=0.28,"
    "dual_clip=10.0,eps=1e-06,ddof=1"
)


def estimate(batch, *, eps=1e-6, ddof=1):
    return batch.by_group(lambda R: (R - np.mean(R)) / (np.std(R, ddof=ddof) + eps))


def weights(row, *, half_life, f_low, f_high, safety, c):
    """f of each token, token by token."""
    f = np.empty(row.length)
    for t in range(row.length):
        total = 0.0
        for k in range(t, row.length):
            if math.exp(row.log_ratio[k]) <= c:
                total += 0.5 ** ((k - t) / half_life) * row.log_ratio[k]
        f[t] = min(max(math.exp(min(total, 50)), 1 - f_low), 1 + f_high)
        if row.advantage < 0 and math.exp(row.log_ratio[t]) > safety:
            f[t] = 1
    return f


def cost(row, batch, *, low=0.2, high=0.28, c=10.0, half_life=32, f_low=0, f_high=0.2, safety=10):
    r, a = np.exp(row.log_ratio), row.advantage
    f = weights(row, half_life=half_life, f_low=f_low, f_high=f_high, safety=safety, c=c)
    free, clipped = r * a, np.clip(r, 1 - low, 1 + high) * a
    gain, slope = np.minimum(free, clipped), np.where(free <= clipped, free, 0)
    if a < 0:
        gain, slope = np.maximum(gain, c * a), np.where(gain >= c * a, slope, 0)
    return -np.sum(f * gain) / batch.tokens, -f * slope / batch.tokens


@pytest.mark.parametrize(
    "spec, of_estimate, of_cost",
    [
        ("fipo", {}, {}),
        ("fipo:f_low=0.2,safety=3", {}, {"f_low": 0.2, "safety": 3}),
        (
            "fipo:half_life=2,f_low=1,f_high=9,dual_clip=1.5,safety=1.2",
            {},
            {"half_life": 2, "f_low": 1, "f_high": 9, "c": 1.5, "safety": 1.2},
        ),
        (
            "fipo:clip_low=0.5,clip_high=0.1,eps=0.1,ddof=0",
            {"eps": 0.1, "ddof": 0},
            {"low": 0.5, "high": 0.1},
        ),
    ],
)
def test_fipo_is_its_equations(matches, spec, of_estimate, of_cost):
    matches(
        spec,
        lambda batch: estimate(batch, **of_estimate),
        lambda row, batch: cost(row, batch, **of_cost),
    )


def slopes(gains, spec, ratios, advantage):
    return (gains(spec, [ratios], [advantage]).slope * len(ratios))[0].tolist()


def test_what_follows_a_token_lifts_or_lowers_it_and_what_came_before_does_not(gains):
    # With a half-life of 1 token: F = log 1.1 / 2, log 1.1, 0, and downwards the same.
    spec = "fipo:half_life=1,f_low=0.2"
    up = slopes(gains, spec, [1.0, 1.1, 1.0], 1.0)
    assert up == pytest.approx([1.1**0.5, 1.1 * 1.1, 1.0], rel=1e-12)
    down = slopes(gains, spec, [1.0, 0.9, 1.0], -1.0)
    assert down == pytest.approx([-(0.9**0.5), -0.9 * 0.9, -1.0], rel=1e-12)


def test_the_weight_is_between_its_bounds_and_by_default_never_below_one(gains):
    assert slopes(gains, "fipo", [1.0, 1.25, 1.0], 1.0)[0] == pytest.approx(1.2, rel=1e-12)
    assert slopes(gains, "fipo", [1.0, 0.5, 1.0], 1.0)[0] == 1
    lowered = slopes(gains, "fipo:f_low=0.2", [1.0, 0.5, 1.0], 1.0)
    assert lowered[0] == pytest.approx(0.8, rel=1e-12)
    assert lowered[2] == 1


def test_a_token_beyond_the_dual_clip_is_not_part_of_the_future(gains):
    assert slopes(gains, "fipo", [1.0, 9.9], -1.0)[0] == pytest.approx(-1.2, rel=1e-12)
    assert slopes(gains, "fipo", [1.0, 10.1], -1.0)[0] == -1


def test_the_bounds_of_the_ratio_are_within(gains):
    """At a ratio of 2, which a logarithm and its exponential keep exactly."""
    within = slopes(gains, "fipo:dual_clip=2", [1.0, 2.0], -1.0)
    assert within[0] == pytest.approx(-1.2, rel=1e-12)
    at_safety = slopes(gains, "fipo:safety=2", [2.0, 1.0], -1.0)
    assert at_safety[0] == pytest.approx(-2 * 1.2, rel=1e-12)
    assert slopes(gains, "fipo:safety=1.9", [2.0, 1.0], -1.0)[0] == pytest.approx(-2, rel=1e-12)


def test_an_error_far_likelier_weighs_one_and_a_success_as_its_future_says(gains):
    spec = "fipo:f_low=0.5,safety=3"
    ratios = [3.5, 0.1]  # F of the first is log 0.35: a weight of 0.5 at least
    assert slopes(gains, spec, ratios, -1.0)[0] == pytest.approx(-3.5, rel=1e-12)
    assert slopes(gains, spec, [2.9, 0.1], -1.0)[0] == pytest.approx(-2.9 / 2, rel=1e-12)
    high = gains(f"{spec},clip_high=9", [ratios], [1.0])
    assert high.slope[0, 0] == pytest.approx(3.5 / 2 / 2, rel=1e-12)


@pytest.mark.parametrize("drift", [200.0, -200.0])
def test_an_extreme_future_is_bounded(gains, drift):
    ratios = [[1.0] + [math.exp(drift)] * 60]
    assert np.isfinite(gains("fipo:f_low=1,f_high=100,dual_clip=1e9", ratios, [1.0]).slope).all()


@pytest.mark.parametrize(
    "option, message",
    [
        ("half_life=0", "half_life must be above 0 tokens"),
        ("half_life=inf", "half_life must be above 0 tokens"),
        ("f_low=1.1", "f_low must be from 0 to 1"),
        ("f_low=-0.1", "f_low must be from 0 to 1"),
        ("f_high=-0.1", "f_high 0 or above"),
        ("f_high=inf", "and finite"),
        ("safety=0.9", "safety must be at least 1"),
    ],
)
def test_a_bound_that_is_none_is_refused(option, message):
    with pytest.raises(UsageError, match=message):
        objective.build(f"fipo:{option}")
    objective.build("fipo:f_low=1,f_high=0,safety=1")
