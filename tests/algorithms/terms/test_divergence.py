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
    batch = TokenBatch(
        logp_BT=tensor([[p]], dtype=torch.float64).log(),
        old_logp_BT=tensor([[q]], dtype=torch.float64).log(),
        mask_BT=tensor([[mask]]),
        advantage_B=tensor([advantage], dtype=torch.float64),
        entropy_BT=tensor([[0.0]]),
    )
    measure = divergence.total_variation
    return divergence.is_beyond(batch, measure, low=0.125, high=0.25).item()


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
    ],
)
def test_a_token_is_beyond_the_region_where_it_is_pushed_further_out(p, q, advantage, is_out):
    assert beyond(p, q, advantage) is is_out
    assert beyond(p, q, advantage, mask=False) is False
