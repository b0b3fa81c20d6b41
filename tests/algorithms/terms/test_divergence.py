"""Divergences of the sampled token against the rest, by hand."""

import math

import pytest
import torch
from torch import tensor

from rlvr_cli.algorithms.objective import TokenBatch
from rlvr_cli.algorithms.terms import divergence

P = tensor([[0.6, 0.11, 0.99, 1.0, 1.0]], dtype=torch.float64)
Q = tensor([[0.5, 0.01, 0.8, 0.9, 1.0]], dtype=torch.float64)


def test_the_total_variation_is_the_probability_moved():
    moved = divergence.total_variation(P.log(), Q.log())
    assert moved.tolist()[0] == pytest.approx([0.1, 0.1, 0.19, 0.1, 0], abs=1e-15)
    assert divergence.total_variation(Q.log(), P.log()).tolist() == moved.tolist()


def test_the_kl_divergence_is_that_of_two_outcomes_and_infinite_where_one_is_ruled_out():
    expected = [
        q * math.log(q / p) + (1 - q) * math.log((1 - q) / (1 - p))
        for p, q in [(0.6, 0.5), (0.11, 0.01), (0.99, 0.8)]
    ]
    moved = divergence.kl(P.log(), Q.log()).tolist()[0]
    assert moved[:3] == pytest.approx(expected, rel=1e-12)
    assert moved[3] == math.inf
    assert not moved[4] > 0  # both are sure


def test_a_log_prob_that_rounding_left_above_0_is_that_of_a_certain_token():
    fallen, above = tensor([[-1.0]], dtype=torch.float64), tensor([[1e-7]], dtype=torch.float64)
    assert divergence.kl(fallen, above).item() == 1.0
    assert divergence.kl(above, above).item() == 0


def beyond(p, q, advantage, mask=True):
    """By how far the probability has moved."""
    batch = TokenBatch(
        logp_BT=tensor([[p]], dtype=torch.float64).log(),
        old_logp_BT=tensor([[q]], dtype=torch.float64).log(),
        mask_BT=tensor([[mask]]),
        advantage_B=tensor([advantage], dtype=torch.float64),
        entropy_BT=tensor([[0.0]]),
    )
    moved = tensor([[abs(p - q)]])
    return divergence.is_beyond(batch, moved, low=0.125, high=0.25).item()


@pytest.mark.parametrize(
    "p, q, advantage, is_out",
    [
        pytest.param(0.8125, 0.5, 1.0, True, id="pushed up, beyond the upper bound"),
        pytest.param(0.75, 0.5, 1.0, False, id="pushed up, at the upper bound"),
        pytest.param(0.125, 0.5, 1.0, False, id="brought back up"),
        pytest.param(0.25, 0.5, -1.0, True, id="pushed down, beyond the lower bound"),
        pytest.param(0.375, 0.5, -1.0, False, id="pushed down, at the lower bound"),
        pytest.param(0.875, 0.5, -1.0, False, id="brought back down"),
        pytest.param(0.875, 0.5, 0.0, False, id="no advantage"),
        pytest.param(0.125, 0.5, 0.0, False, id="no advantage, fallen"),
    ],
)
def test_a_token_is_beyond_the_region_where_it_is_pushed_further_out(p, q, advantage, is_out):
    assert beyond(p, q, advantage) is is_out
    assert beyond(p, q, advantage, mask=False) is False


def limits(moved, mask=None, **options):
    """The limits of one completion, by default with a fixed budget and without weights."""
    moved_BT = tensor([moved], dtype=torch.float64)
    mask_BT = torch.ones_like(moved_BT).bool() if mask is None else tensor([mask])
    chosen = {"delta": 0.5, "least": 0.25, "most": 0.25, "w_min": 1.0} | options
    return divergence.prefix_limit(moved_BT, mask_BT, **chosen)[0].tolist()


def test_a_limit_falls_by_what_a_prefix_has_moved_beyond_its_budget():
    # Before each token the prefix may have moved 0.25 a token, and has moved 0, 0.5, 0.5 and 1.5.
    assert limits([0.5, 0.0, 1.0, 0.125]) == [0.5, 0.25, 0.5, -0.25]
    assert limits([0.125] * 3) == [0.5] * 3  # what is left over is not for later


def test_weights_fall_in_equal_steps_and_widen_the_limits_of_late_tokens():
    still = limits([0.0] * 3, w_min=0.5)
    assert still == pytest.approx([0.5, 0.5 / 0.75, 1.0], rel=1e-15)
    # Weights 1, 0.75 and 0.5: spent 0.5 and then 1.25, of a budget of 0.25 and then 0.4375.
    spent = limits([0.5, 1.0, 0.0], w_min=0.5)
    assert spent == pytest.approx([0.5, 0.25 / 0.75, (0.5 - 0.8125) / 0.5], rel=1e-15)


@pytest.mark.parametrize("width", [4, 64])
def test_untrained_tokens_take_no_place_and_spend_nothing(width):
    trained = limits([0.5, 1.0, 0.0], w_min=0.5)
    mask = [True, False, True, True] + [False] * (width - 4)
    among = limits([0.5, 9.0, 1.0, 0.0] + [9.0] * (width - 4), mask, w_min=0.5)
    assert [among[0], *among[2:4]] == trained


@pytest.mark.parametrize(
    "moved, budget",
    [
        pytest.param([0.3, 0.1, 0.2], 0.28, id="between two ranks, in any order"),
        pytest.param([0.3], 0.3, id="one token"),
        pytest.param([0.0] * 10 + [1.0], 0.1, id="no less than the least"),
        pytest.param([0.9] * 3, 0.4, id="no more than the most"),
    ],
)
def test_the_budget_is_the_completions_own_percentile_within_bounds(moved, budget):
    made = limits(moved, least=0.1, most=0.4, delta=0.0)
    spent = [sum(moved[:t]) for t in range(len(moved))]
    assert made == pytest.approx([min(0, budget * t - s) for t, s in enumerate(spent)], abs=1e-15)
