"""QUATRO's dual: the published check values, and what must hold for any rewards."""

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import tensor

from rlvr_cli.algorithms.terms.dual import trust_region

DELTAS = [0.1, 0.01, 0.001]
GRADED = st.floats(0, 1).map(lambda value: round(value, 3))


def f64(*values):
    return tensor(values, dtype=torch.float64)


def solve(*groups, delta, max_gap=20.0):
    reward = f64(*(reward for group in groups for reward in group))
    code = tensor([i for i, group in enumerate(groups) for _ in group], dtype=torch.int64)
    return trust_region(reward, code, delta=delta, max_gap=max_gap)


def divergence(rewards, lam):
    """KL(softmax(R / lam) || uniform), from its definition."""
    share = torch.softmax(f64(*rewards) / lam, -1)
    return float(torch.special.xlogy(share, share * len(rewards)).sum())


@pytest.mark.parametrize(
    "delta, right, lam, up, down",
    [
        (0.1, 4, 1.060, 0.364, -0.579),
        (0.1, 7, 0.361, 0.125, -2.644),
        (0.01, 4, 3.518, 0.132, -0.152),
        (0.001, 4, 11.175, 0.044, -0.046),
    ],
)
def test_lam_and_advantage_are_the_check_values_for_eight_completions(delta, right, lam, up, down):
    solution = solve([1] * right + [0] * (8 - right), delta=delta)
    assert solution["lam"].tolist() == pytest.approx([lam] * 8, abs=5e-4)
    assert solution["advantage"].tolist() == pytest.approx(
        [up] * right + [down] * (8 - right), abs=6e-4
    )
    assert solution["floored"].tolist() == [0] * 8


@pytest.mark.parametrize("delta", DELTAS)
def test_lam_of_a_half_right_group_solves_its_own_equation(delta):
    # With s = sigmoid(1 / lam): KL = s log 2s + (1 - s) log 2(1 - s), A = log 2s and log 2(1 - s).
    solution = solve([1, 0], delta=delta)
    share = 1 / (1 + math.exp(-1 / float(solution["lam"][0])))
    kl = share * math.log(2 * share) + (1 - share) * math.log(2 * (1 - share))
    assert kl == pytest.approx(delta, rel=1e-10)
    expected = [math.log(2 * share), math.log(2 * (1 - share))]
    assert solution["advantage"].tolist() == pytest.approx(expected, rel=1e-10)


@settings(max_examples=60)
@given(
    groups=st.lists(
        st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=17)
        | st.lists(GRADED, min_size=1, max_size=17),
        min_size=1,
        max_size=6,
    ),
    delta=st.sampled_from([*DELTAS, 0.5, 1e-5]),
)
def test_the_divergence_is_delta_wherever_lam_is_above_its_floor(groups, delta):
    solution = solve(*groups, delta=delta)
    row = 0
    for rewards in groups:
        lam, gap = float(solution["lam"][row]), max(rewards) - min(rewards)
        if gap == 0:
            assert math.isnan(lam) and solution["floored"][row] == 0
            assert solution["achieved_kl"][row] == 0
            assert solution["advantage"][row : row + len(rewards)].tolist() == [0] * len(rewards)
        elif solution["floored"][row]:
            assert lam == pytest.approx(gap / 20, rel=1e-12)
            assert divergence(rewards, lam) < delta + 1e-10
        else:
            assert abs(divergence(rewards, lam) - delta) < 1e-10
            assert abs(float(solution["achieved_kl"][row]) - delta) < 1e-10
        row += len(rewards)


@settings(max_examples=60)
@given(rewards=st.lists(GRADED, min_size=2, max_size=12), delta=st.sampled_from(DELTAS))
def test_the_advantages_are_log_weights_whose_mean_weight_is_one(rewards, delta):
    solution = solve(rewards, delta=delta)
    assert float(solution["advantage"].exp().mean()) == pytest.approx(1, abs=1e-12)


def test_lam_falls_as_delta_grows():
    rewards = [0.0, 0.1, 0.5, 0.5, 0.9, 1.0]
    deltas = [1e-6, 1e-4, 0.001, 0.01, 0.03, 0.1, 0.3, 0.6]
    lams = [float(solve(rewards, delta=delta)["lam"][0]) for delta in deltas]
    assert all(after < before for before, after in pairwise(lams))


def test_one_wrong_of_sixteen_at_delta_one_tenth_is_floored():
    # log(16 / 15) = 0.0645 is the most that the divergence can be.
    solution = solve([1] * 15 + [0], delta=0.1)
    log_mean = math.log((15 + math.exp(-20)) / 16)
    assert solution["floored"].tolist() == [1] * 16
    assert solution["lam"].tolist() == pytest.approx([1 / 20] * 16, rel=1e-12)
    expected = [-log_mean] * 15 + [-20 - log_mean]
    assert solution["advantage"].tolist() == pytest.approx(expected, rel=1e-12)
    assert float(solution["achieved_kl"][0]) == pytest.approx(math.log(16 / 15), abs=1e-6)


def test_one_wrong_of_sixteen_at_delta_one_hundredth_is_not_floored():
    assert solve([1] * 15 + [0], delta=0.01)["floored"].tolist() == [0] * 16


def test_the_floor_is_the_gap_of_the_rewards_over_max_gap():
    solution = solve([3, 3, 1], delta=1.0, max_gap=8.0)
    assert solution["floored"].tolist() == [1, 1, 1]
    assert solution["lam"].tolist() == pytest.approx([2 / 8] * 3, rel=1e-12)
    up, down = solution["advantage"][0], solution["advantage"][2]
    assert float(up - down) == pytest.approx(8, rel=1e-12)


def test_a_delta_beyond_any_divergence_within_max_gap_is_floored():
    # The bracket is empty: (R_max - R_min)^2 / (8 lam^2) = 1/8 at the floor lam = 1.
    solution = solve([1, 0], delta=0.5, max_gap=1.0)
    assert solution["floored"].tolist() == [1, 1]
    assert solution["lam"].tolist() == pytest.approx([1, 1], rel=1e-12)


def test_mu_is_lam_times_the_log_mean_less_one():
    rewards = [0.2, 0.9, 1.0, 0.0]
    for delta in DELTAS:
        solution = solve(rewards, delta=delta)
        lam = float(solution["lam"][0])
        log_mean = math.log(sum(math.exp(r / lam) for r in rewards) / 4)
        assert solution["mu"].tolist() == pytest.approx([lam * (log_mean - 1)] * 4, rel=1e-12)


def test_a_constant_added_to_the_rewards_moves_mu_alone():
    rewards = [0.25, 1.0, 0.5, 0.0]
    result, moved = solve(rewards, delta=0.1), solve([r + 8 for r in rewards], delta=0.1)
    for name in ("advantage", "lam", "achieved_kl"):
        torch.testing.assert_close(moved[name], result[name], rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(moved["mu"], result["mu"] + 8, rtol=1e-12, atol=0)


def test_rewards_times_a_constant_scale_lam_and_leave_the_advantage():
    rewards = [0.25, 1.0, 0.5, 0.0]
    result, scaled = solve(rewards, delta=0.1), solve([r * 4 for r in rewards], delta=0.1)
    torch.testing.assert_close(scaled["advantage"], result["advantage"], rtol=1e-12, atol=0)
    torch.testing.assert_close(scaled["lam"], result["lam"] * 4, rtol=1e-12, atol=0)
    torch.testing.assert_close(scaled["mu"], result["mu"] * 4, rtol=1e-12, atol=0)


def test_equal_rewards_have_advantage_zero_and_no_lam_beside_a_mixed_group():
    solution = solve([0.3] * 6, [1, 0], delta=0.1)
    assert solution["advantage"][:6].tolist() == [0] * 6
    assert bool(solution["lam"][:6].isnan().all()) and bool(solution["mu"][:6].isnan().all())
    assert solution["achieved_kl"][:6].tolist() == [0] * 6
    torch.testing.assert_close(solution["advantage"][6:], solve([1, 0], delta=0.1)["advantage"])


def test_groups_may_lie_in_any_order():
    reward, code = f64(1, 0, 0, 1, 1, 0), tensor([0, 1, 0, 1, 0, 1])
    mixed = trust_region(reward, code, delta=0.1, max_gap=20.0)
    first = solve([1, 0, 1], delta=0.1)
    torch.testing.assert_close(mixed["advantage"][code == 0], first["advantage"], rtol=0, atol=0)
