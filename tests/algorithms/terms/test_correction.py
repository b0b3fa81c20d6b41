"""Weights for a sampler that is not the trainer, by hand."""

import math

import pytest
import torch
from torch import tensor

from rlvr_cli.algorithms.terms import correction

W = tensor([[0.4, 0.5, 1.0, 2.0, 2.1]], dtype=torch.float64)


def weights(kind, w=W, cap=2.0):
    return kind(w.log(), cap=cap)[0].tolist()


def test_truncation_keeps_small_weights_and_caps_large_ones():
    assert weights(correction.truncated) == pytest.approx([0.4, 0.5, 1, 2, 2], rel=1e-14)


def test_masking_drops_a_token_on_either_side_of_the_cap():
    w = tensor([[0.49, 0.51, 1.0, 1.99, 2.01]], dtype=torch.float64)
    assert weights(correction.masked, w) == pytest.approx([0, 0.51, 1, 1.99, 0], rel=1e-14)


def test_a_sequence_weighs_its_product_at_every_token_or_nothing():
    w = tensor([[4.0, 0.25, 1.9], [4.0, 0.5, 1.1]], dtype=torch.float64)
    weight_BT = correction.sequence_masked(w.log(), cap=2.0)
    torch.testing.assert_close(weight_BT, tensor([[1.9] * 3, [0.0] * 3]).double())


def test_a_product_beyond_the_clamp_stays_finite():
    weight_BT = correction.sequence_masked(torch.full((1, 40), 15.0), cap=math.inf)
    assert bool(weight_BT.isfinite().all())


def test_the_drift_is_old_less_behaviour_zero_where_masked_and_without_gradient():
    old = tensor([[-1.0, -2.0, 5.0]], requires_grad=True)
    behaviour = tensor([[-1.5, -1.0, torch.nan]])
    drift_BT = correction.drift(old, behaviour, tensor([[True, True, False]]))
    assert drift_BT.tolist() == [[0.5, -1.0, 0.0]] and not drift_BT.requires_grad


@pytest.mark.parametrize("kind", [correction.masked, correction.sequence_masked])
def test_a_weight_at_its_cap_is_kept(kind):
    assert weights(kind, tensor([[1.0]], dtype=torch.float64), cap=1.0) == [1]
