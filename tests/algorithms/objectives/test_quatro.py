"""QUATRO from its equations (arXiv:2602.04620, eq. 11 to 15 and 35)."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from rlvr_cli.algorithms import objective

DEFAULTS = "quatro:delta=0.1,ratio=sequence,max_gap=20.0,log_ratio=true,detach=true,clamp=true"


def undrifted(spec, batch, weight_BT):
    """Weight and advantage of each token's gradient where the policy has not moved."""
    advantage_B1 = batch.advantage_B[:, None]
    if "length-normalized" not in spec:
        weight_BT = weight_BT.sum(-1, keepdim=True) * batch.mask_BT  # rho spans the completion
    return weight_BT, advantage_B1 - 1 if "detach=false" in spec else advantage_B1


def shares(rewards, lam):
    weight = np.exp((rewards - rewards.max()) / lam)
    return weight / weight.sum()


def divergence(rewards, lam):
    """KL(softmax(R / lam) || uniform)."""
    p = shares(rewards, lam)
    return np.sum(p * np.log(np.maximum(p * len(p), 1e-300)))


def solve(rewards, delta, max_gap):
    """lam where the divergence, which falls as lam rises, is delta; not below the floor."""
    gap = np.ptp(rewards)
    log_floor = math.log(gap / max_gap)
    if divergence(rewards, math.exp(log_floor)) <= delta:
        return math.exp(log_floor)
    log_top = max(math.log(gap / math.sqrt(delta)), log_floor) + 1
    return math.exp(
        brentq(lambda x: divergence(rewards, math.exp(x)) - delta, log_floor, log_top, xtol=1e-15)
    )


COLUMNS = ("advantage", "lam", "mu", "achieved_kl", "floored")


def estimate(batch, *, delta, max_gap):
    columns = {name: np.zeros(batch.sequences) for name in COLUMNS}
    for group in np.unique(batch.group):
        rewards = batch.reward[batch.group == group]
        if np.ptp(rewards) == 0:
            # No lam reaches the radius, and none is needed for A = 0.
            columns["lam"][batch.group == group] = columns["mu"][batch.group == group] = np.nan
            continue
        lam = solve(rewards, delta, max_gap)
        log_mean = np.log(np.mean(np.exp((rewards - rewards.max()) / lam))) + rewards.max() / lam
        kl = divergence(rewards, lam)
        floored = lam == math.exp(math.log(np.ptp(rewards) / max_gap))
        numbers = (rewards / lam - log_mean, lam, lam * (log_mean - 1), kl, floored)
        for name, value in zip(COLUMNS, numbers, strict=True):
            columns[name][batch.group == group] = value
    return columns


def cost(row, batch, *, normalized, log_ratio, detach):
    """-rho (A - log rho), the mean over completions; rho of the whole completion."""
    scale = 1 / row.length if normalized else 1.0
    log_rho = scale * row.log_ratio.sum()
    gain = np.exp(log_rho) * (row.advantage - (log_rho if log_ratio else 0))
    slope = gain if detach or not log_ratio else gain - np.exp(log_rho)
    return -gain / batch.sequences, np.full(row.length, -scale * slope / batch.sequences)


@pytest.mark.parametrize(
    "spec, delta, max_gap, normalized, log_ratio, detach",
    [
        ("quatro", 0.1, 20, False, True, True),
        ("quatro:delta=0.01,ratio=length-normalized", 0.01, 20, True, True, True),
        ("quatro:delta=0.001,max_gap=5", 0.001, 5, False, True, True),
        ("quatro:delta=0.5,max_gap=2", 0.5, 2, False, True, True),
        ("quatro:log_ratio=false", 0.1, 20, False, False, True),
        ("quatro:detach=false", 0.1, 20, False, True, False),
        ("quatro:detach=false,ratio=length-normalized", 0.1, 20, True, True, False),
        ("quatro:clamp=false,detach=false", 0.1, 20, False, True, False),
    ],
)
def test_quatro_is_its_equations(matches, spec, delta, max_gap, normalized, log_ratio, detach):
    options = {"normalized": normalized, "log_ratio": log_ratio, "detach": detach}
    matches(
        spec,
        lambda batch: estimate(batch, delta=delta, max_gap=max_gap),
        lambda row, batch: cost(row, batch, **options),
    )


@pytest.mark.parametrize(
    "delta, right, lam, up, down",
    [
        (0.1, 4, 1.060, 0.364, -0.579),
        (0.1, 7, 0.361, 0.125, -2.644),
        (0.01, 4, 3.518, 0.132, -0.152),
        (0.001, 4, 11.175, 0.044, -0.046),
    ],
)
def test_eight_samples_give_the_check_values(advantages, delta, right, lam, up, down):
    columns = advantages(f"quatro:delta={delta}", [1] * right + [0] * (8 - right))
    assert columns["lam"] == pytest.approx([lam] * 8, abs=5e-4)
    assert columns["advantage"] == pytest.approx([up] * right + [down] * (8 - right), abs=5e-4)
    assert columns["achieved_kl"] == pytest.approx([delta] * 8, abs=1e-10)
    assert not any(columns["floored"])


def test_one_wrong_of_sixteen_is_at_the_floor(advantages):
    # log(16/15) = 0.0645 < 0.1: no lam reaches the radius.
    columns = advantages("quatro", [1] * 15 + [0])
    assert columns["lam"] == pytest.approx([1 / 20] * 16, rel=1e-12)
    assert all(columns["floored"])
    assert columns["advantage"][15] == pytest.approx(math.log(16 / 15) - 20, rel=1e-8)
    assert columns["achieved_kl"] == pytest.approx([math.log(16 / 15)] * 16, rel=1e-6)


def test_equal_rewards_have_advantage_zero_and_still_pull_back(advantages, gains):
    columns = advantages("quatro", [1, 1, 1])
    assert (columns["advantage"], columns["keep"]) == ([0] * 3, [True] * 3)
    pulled = gains("quatro", [2.0, 0.5], [0.0, 0.0])
    expected = [-2 * math.log(2) / 2, 0.5 * math.log(2) / 2]
    assert pulled.slope == pytest.approx(expected, rel=1e-12)


def test_no_ratio_is_clipped(gains):
    gain = gains("quatro", [9.0, 0.1, 9.0, 0.1], [1.0, 1.0, -1.0, -1.0])
    logs = [math.log(9), math.log(0.1)] * 2
    terms = [
        r * (a - x) / 4 for r, a, x in zip([9, 0.1, 9, 0.1], [1, 1, -1, -1], logs, strict=True)
    ]
    assert gain.value == pytest.approx(sum(terms), rel=1e-12)
    assert gain.slope == pytest.approx(terms, rel=1e-12)


# A completion that has drifted beyond 20 nats, two tokens long.


def drifted(gains, spec, nats, advantage):
    """The gain and its slope by each token's log-prob, of one completion `nats` from the old."""
    made = gains(spec, [[math.exp(nats / 2)] * 2], [advantage])
    return made.value, made.slope[0]


@pytest.mark.parametrize("nats", [20.5, 40, -20.5, -40])
def test_beyond_twenty_nats_a_clamped_completion_has_no_gradient(gains, nats):
    value, slope = drifted(gains, "quatro", nats, 0.4)
    held = math.copysign(20, nats)
    assert value == pytest.approx(math.exp(held) * (0.4 - held), rel=1e-9)
    assert slope.tolist() == [0, 0]


@pytest.mark.parametrize("nats", [20.5, 40, 600, -20.5, -40, 19.5])
@pytest.mark.parametrize(
    "options, more, keeps_log", [("", 0, True), (",detach=false", 1, True),
                                 (",log_ratio=false", 0, False)]
)  # fmt: skip
def test_without_the_clamp_it_is_pulled_back_from_any_distance(
    gains, nats, options, more, keeps_log
):
    value, slope = drifted(gains, f"quatro:clamp=false{options}", nats, 0.4)
    weight, log_rho = math.exp(min(nats, 20)), nats if keeps_log else 0
    assert value == pytest.approx(weight * (0.4 - log_rho), rel=1e-9)
    expected = weight * (0.4 - log_rho - more)
    assert slope.tolist() == pytest.approx([expected] * 2, rel=1e-9)


def test_what_an_earlier_version_stored_is_clamped():
    made_by = "quatro:delta=0.1,ratio=sequence,max_gap=20.0,log_ratio=true,detach=true"
    assert objective.canonical(made_by, made_by) == f"{made_by},clamp=true"
