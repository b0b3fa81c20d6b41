"""Weights and masks for a sampler that is not the trainer, by hand."""

import math

import pytest
import torch
from torch import tensor

from rlvr_cli.algorithms.terms import correction

W = tensor([[0.4, 0.5, 1.0, 2.0, 2.1]], dtype=torch.float64)


def weights(kind, w=W, low=0.0, cap=2.0):
    return kind(w.log(), low=low, cap=cap)[0].tolist()


def test_truncation_keeps_small_weights_and_caps_large_ones():
    assert weights(correction.truncated) == pytest.approx([0.4, 0.5, 1, 2, 2], rel=1e-14)
    assert weights(correction.truncated, low=0.45)[:2] == pytest.approx([0.45, 0.5], rel=1e-14)


def test_masking_drops_a_token_on_either_side_of_its_bounds():
    w = tensor([[0.49, 0.51, 1.0, 1.99, 2.01]], dtype=torch.float64)
    assert weights(correction.masked, w, low=0.5) == pytest.approx([0, 0.51, 1, 1.99, 0], rel=1e-14)


SEQUENCES = tensor([[4.0, 0.25, 1.9], [4.0, 0.5, 1.1], [0.5, 0.5, 1.0]], dtype=torch.float64)


def test_a_sequence_weighs_its_product_at_every_token_or_nothing():
    weight_BT = correction.sequence_masked(SEQUENCES.log(), low=0.3, cap=2.0)
    torch.testing.assert_close(weight_BT, tensor([[1.9] * 3, [0.0] * 3, [0.0] * 3]).double())


def test_a_sequence_weighs_its_product_within_its_bounds():
    weight_BT = correction.sequence_truncated(SEQUENCES.log(), low=0.3, cap=2.0)
    torch.testing.assert_close(weight_BT, tensor([[1.9] * 3, [2.0] * 3, [0.3] * 3]).double())


@pytest.mark.parametrize("kind", [correction.sequence_masked, correction.sequence_truncated])
def test_a_product_beyond_the_clamp_stays_finite(kind):
    weight_BT = kind(torch.full((1, 40), 15.0), low=0.0, cap=math.inf)
    assert bool(weight_BT.isfinite().all())


def test_the_drift_is_old_less_behaviour_zero_where_masked_and_without_gradient():
    old = tensor([[-1.0, -2.0, 5.0]], requires_grad=True)
    behaviour = tensor([[-1.5, -1.0, torch.nan]])
    drift_BT = correction.drift(old, behaviour, tensor([[True, True, False]]))
    assert drift_BT.tolist() == [[0.5, -1.0, 0.0]] and not drift_BT.requires_grad


@pytest.mark.parametrize("kind", [correction.masked, correction.sequence_masked])
def test_a_weight_at_its_bounds_is_kept(kind):
    assert weights(kind, tensor([[1.0]], dtype=torch.float64), low=1.0, cap=1.0) == [1]


def test_the_gap_of_a_token_by_each_estimator():
    drift_BT = tensor([[-1.0, 0.0, 0.5]], dtype=torch.float64)
    assert correction.gap(drift_BT, by="k1")[0].tolist() == [-1, 0, 0.5]
    assert correction.gap(drift_BT, by="k2")[0].tolist() == [0.5, 0, 0.125]
    k3 = [math.exp(-1) - 1 + 1, 0, math.exp(0.5) - 1 - 0.5]
    assert correction.gap(drift_BT, by="k3")[0].tolist() == pytest.approx(k3, rel=1e-14)


# Gaps of two completions, of three tokens and of two.
GAP = tensor([[0.25, -0.5, 1.0], [-0.25, -0.25, 0.0]], dtype=torch.float64)
MASK = tensor([[True, True, True], [True, True, False]])


@pytest.mark.parametrize(
    "over, below, above, expected",
    [
        ("token", 0.5, 1.0, [[0, 0, 0], [0, 0, 0]]),  # a gap at its bound is within
        ("token", 0.4, 0.9, [[0, 1, 1], [0, 0, 0]]),
        ("max", 0.5, 0.9, [[1, 1, 1], [0, 0, 0]]),
        ("max", 0.2, 2.0, [[1, 1, 1], [1, 1, 1]]),
        ("mean", 0.25, 0.25, [[0, 0, 0], [0, 0, 0]]),  # both are 0.25 from 0
        ("mean", 0.24, 0.24, [[1, 1, 1], [1, 1, 1]]),  # over two tokens, not three
        ("sum", 0.5, 0.75, [[0, 0, 0], [0, 0, 0]]),
        ("sum", 0.5, 0.74, [[1, 1, 1], [0, 0, 0]]),
        ("sum", 0.49, 0.75, [[0, 0, 0], [1, 1, 1]]),
    ],
)
def test_what_lies_outside_is_a_token_or_a_whole_completion(over, below, above, expected):
    outside_BT = correction.outside(GAP, MASK, over=over, below=below, above=above)
    assert outside_BT.int().tolist() == expected


def test_the_mean_weight_is_of_trained_tokens_or_of_completions_alike():
    weight_BT = tensor([[1.0, 2.0, 3.0], [4.0, 9.0, 9.0], [9.0, 9.0, 9.0]], dtype=torch.float64)
    mask_BT = tensor([[True, True, True], [True, False, False], [False, False, False]])
    assert correction.mean_weight(weight_BT, mask_BT, of="tokens") == 2.5
    assert correction.mean_weight(weight_BT, mask_BT, of="completions") == 3.0


@pytest.mark.parametrize("of", ["tokens", "completions"])
def test_a_mean_weight_of_zero_or_of_nothing_is_one(of):
    nothing_BT = torch.zeros(2, 3)
    assert correction.mean_weight(nothing_BT, torch.ones(2, 3).bool(), of=of) == 1
    assert correction.mean_weight(nothing_BT + 2, torch.zeros(2, 3).bool(), of=of) == 1


@pytest.mark.parametrize("of", ["tokens", "completions"])
def test_the_mean_weight_of_one_token_is_its_own(of):
    weight_BT, mask_BT = torch.tensor([[3.0, 9.0]]), torch.tensor([[True, False]])
    assert correction.mean_weight(weight_BT, mask_BT, of=of) == 3
    assert correction.mean_weight(weight_BT[:, :1], mask_BT[:, :1], of=of) == 3
