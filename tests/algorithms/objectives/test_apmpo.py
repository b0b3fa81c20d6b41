"""APMPO from its equations (arXiv:2605.04066, eq. 2 to 11 and 81)."""

import math

import numpy as np
import pytest

DEFAULTS = (
    "apmpo:gamma=0.8,clip_low=0.2,e_min=0.2,e_max=0.4,exponent=exponential,fss=full,"
    "bounds=upper,tanh=true,stats=batch,kl=0.001,eps=1e-06,ddof=0"
)

DEFAULT = {
    "gamma": 0.8,
    "clip_low": 0.2,
    "e_min": 0.2,
    "e_max": 0.4,
    "exponent": "exponential",
    "fss": "full",
    "bounds": "upper",
    "tanh": True,
    "stats": "batch",
    "kl": 0.001,
    "eps": 1e-6,
    "ddof": 0,
}


def estimate(batch, option):
    advantage = batch.by_group(
        lambda R: (R - np.mean(R)) / (np.std(R, ddof=option["ddof"]) + option["eps"])
    )
    mu, sigma = np.zeros(batch.sequences), np.zeros(batch.sequences)
    for i, group in enumerate(batch.group):
        chosen = batch.reward if option["stats"] == "batch" else batch.reward[batch.group == group]
        # The deviation of equal numbers is 0; that of ten times 0.1 as numpy makes it is not.
        mu[i], sigma[i] = np.mean(chosen), np.std(chosen) if np.ptp(chosen) else 0
    decay = option["gamma"] * mu
    power = np.exp(-decay) if option["exponent"] == "exponential" else 1 - decay
    fss = {"full": mu / (sigma + 1e-6), "mean": mu, "inverse-std": 1 / (sigma + 1e-6)}
    reach = fss[option["fss"]]
    reach = np.tanh(reach) if option["tanh"] else reach
    adapted = option["e_min"] + (option["e_max"] - option["e_min"]) * reach
    low = adapted if option["bounds"] == "both" else np.full_like(adapted, option["clip_low"])
    return {"advantage": advantage, "power": power, "clip_low": low, "clip_high": adapted}


def cost(row, batch, option):
    """sgn(A) times the power mean of |min(r A, clip(r) A)|, sequence mean, and kl k3."""
    ratio, a, p = np.exp(row.log_ratio), row.advantage, row.power
    free, clipped = ratio * a, np.clip(ratio, 1 - row.clip_low, 1 + row.clip_high) * a
    x = row.ref_logp - row.logp
    loss = option["kl"] * np.mean(np.expm1(x) - x)
    slope = option["kl"] * -np.expm1(x) / row.length
    if a != 0:
        phi = np.abs(np.minimum(free, clipped))
        mean = np.exp(np.mean(np.log(phi))) if p == 0 else np.mean(phi**p) ** (1 / p)
        loss -= np.sign(a) * mean
        share = mean ** (1 - p) * phi**p / row.length
        slope -= np.sign(a) * np.where(free <= clipped, share, 0)
    return loss / batch.sequences, slope / batch.sequences


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"stats": "group"},
        {"gamma": 2.0, "clip_low": 0.5, "e_min": 0.05, "e_max": 0.1},
        {"exponent": "linear"},
        {"exponent": "linear", "gamma": 2.0, "stats": "group"},
        {"fss": "mean", "bounds": "both"},
        {"fss": "inverse-std"},
        {"tanh": False},
        {"tanh": False, "fss": "inverse-std", "stats": "group"},
        {"kl": 0.3, "eps": 0.1, "ddof": 1},
        {"kl": 0.0, "bounds": "both", "stats": "group"},
    ],
    ids=lambda change: ",".join(change) or "default",
)
def test_apmpo_is_its_equations(matches, change):
    option = DEFAULT | change
    named = ",".join(f"{k}={str(v).lower()}" for k, v in change.items())
    matches(
        f"apmpo:{named}" if named else "apmpo",
        lambda batch: estimate(batch, option),
        lambda row, batch: cost(row, batch, option),
    )


RATIOS = [[1.7, 0.6, 1.05], [1.25, 0.9, 0.4]]


def power(value, rows=2):
    return {"power": [value] * rows, "clip_high": [0.3] * rows, "clip_low": [0.2] * rows}


@pytest.mark.parametrize("p", [0.0, 0.45, 1.0])
def test_c_times_the_advantage_is_c_times_the_gain(gains, p):
    one = gains("apmpo:kl=0", RATIOS, [0.5, -1.5], columns=power(p))
    seven = gains("apmpo:kl=0", RATIOS, [3.5, -10.5], columns=power(p))
    assert seven.value == pytest.approx(7 * one.value, rel=1e-12)
    assert seven.slope == pytest.approx(7 * one.slope, rel=1e-12)


def test_with_power_one_it_is_the_clipped_ratio_in_the_mean_of_a_completion(gains):
    gain = gains("apmpo:kl=0", RATIOS, [0.5, -1.5], columns=power(1.0))
    ppo = gains("grpo:clip_low=0.2,clip_high=0.3", RATIOS, [0.5, -1.5])
    assert gain.value == pytest.approx(ppo.value, rel=1e-12)
    assert gain.slope == pytest.approx(ppo.slope, rel=1e-12)


def test_with_gamma_zero_the_power_is_one(advantages):
    for spec in ("apmpo:gamma=0", "apmpo:gamma=0,exponent=linear"):
        assert advantages(spec, [1, 0, 0, 0.5], 2, 2)["power"] == [1] * 4


@pytest.mark.parametrize("p", [0.0, 1e-12, 1e-7])
def test_as_the_power_goes_to_zero_it_is_the_geometric_mean_of_the_clipped_ratios(gains, p):
    gain = gains("apmpo:kl=0", RATIOS, [0.5, -1.5], columns=power(p))
    up, down = (1.3 * 0.6 * 1.05) ** (1 / 3), (1.25 * 0.9 * 0.8) ** (1 / 3)
    assert gain.value == pytest.approx((0.5 * up - 1.5 * down) / 2, rel=1e-6)
    third = np.array([[0, 0.5 * up, 0.5 * up], [-1.5 * down, -1.5 * down, 0]]) / 6
    assert gain.slope == pytest.approx(third, rel=1e-6)


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_on_policy_the_power_has_no_effect(gains, p):
    gain = gains("apmpo:kl=0", [[1.0, 1.0], [1.0, 1.0]], [2.0, -1.0], columns=power(p))
    assert gain.value == pytest.approx(0.5, rel=1e-12)
    assert gain.slope == pytest.approx(np.array([[0.5, 0.5], [-0.25, -0.25]]), rel=1e-12)


def test_the_four_corners_of_the_clip(gains):
    gain = gains("apmpo:kl=0", [1.5, 0.5, 1.5, 0.5], [1, 1, -1, -1], columns=power(0.5, 4))
    assert gain.value == pytest.approx((1.3 + 0.5 - 1.5 - 0.8) / 4, rel=1e-12)
    assert gain.slope == pytest.approx([0, 0.5 / 4, -1.5 / 4, 0], rel=1e-12)


def test_the_power_and_the_bound_are_those_of_the_mean_and_the_deviation(advantages):
    # Mean 1/2, deviation 1/2 of the batch; of the first group 1/4 and sqrt(3)/4.
    reward = [1, 0, 0, 0, 1, 1, 1, 0]
    columns = advantages("apmpo", reward, 4, 4)
    assert columns["power"] == pytest.approx([math.exp(-0.4)] * 8, rel=1e-12)
    bound = 0.2 + 0.2 * math.tanh(0.5 / 0.500001)
    assert columns["clip_high"] == pytest.approx([bound] * 8, rel=1e-12)
    columns = advantages("apmpo:stats=group", reward, 4, 4)
    assert columns["power"][0] == pytest.approx(math.exp(-0.2), rel=1e-12)
    bound = 0.2 + 0.2 * math.tanh(0.25 / (math.sqrt(3) / 4 + 1e-6))
    assert columns["clip_high"][0] == pytest.approx(bound, rel=1e-12)


def test_without_tanh_the_bound_exceeds_its_maximum(advantages):
    columns = advantages("apmpo:tanh=false", [1, 1, 1, 0])
    bound = 0.2 + 0.2 * 0.75 / (math.sqrt(3) / 4 + 1e-6)
    assert columns["clip_high"] == pytest.approx([bound] * 4, rel=1e-12)
    assert bound > 0.4


def test_without_signal_the_bound_is_its_minimum_and_not_the_middle(advantages):
    assert advantages("apmpo", [0, 0, 0])["clip_high"] == [0.2] * 3
