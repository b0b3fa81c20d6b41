"""A token's share of the loss, by hand."""

import pytest
import torch
from torch import tensor

from rlvr_cli.algorithms.objective import Totals
from rlvr_cli.algorithms.terms import weight

MASK = tensor([[True, True, False, False], [True, True, True, True], [False] * 4])
TOTALS = Totals(tokens=6, sequences=3, max_length=5)


def rows(*values):
    """A weight for each row, at its trained tokens."""
    return torch.where(MASK, tensor(values)[:, None], 0.0)


@pytest.mark.parametrize(
    "share, expected",
    [
        (weight.token_mean, rows(1 / 6, 1 / 6, 0.0)),
        (weight.seq_mean_token_mean, rows(1 / 6, 1 / 12, 0.0)),
        (weight.seq_mean_token_sum, rows(1 / 3, 1 / 3, 0.0)),
        (weight.constant, rows(1 / 15, 1 / 15, 0.0)),
    ],
)
def test_the_weights_are(share, expected):
    torch.testing.assert_close(share(MASK, TOTALS), expected)


def test_token_means_add_up_to_one_over_the_batch():
    full = tensor([[True, False], [True, True]])
    totals = Totals(tokens=3, sequences=2, max_length=2)
    assert float(weight.token_mean(full, totals).sum()) == pytest.approx(1)
    assert float(weight.seq_mean_token_mean(full, totals).sum()) == pytest.approx(1)
    assert float(weight.seq_mean_token_sum(full, totals).sum()) == pytest.approx(3 / 2)
    assert float(weight.constant(full, totals).sum()) == pytest.approx(3 / 4)


def test_the_counts_are_those_of_the_whole_batch_not_of_the_rows_at_hand():
    totals = Totals(tokens=60, sequences=30, max_length=10)
    shares = [
        weight.token_mean,
        weight.seq_mean_token_mean,
        weight.seq_mean_token_sum,
        weight.constant,
    ]
    expected = [1 / 60, 1 / 60, 1 / 30, 1 / 300]
    results = [float(share(MASK[:1], totals)[0, 0]) for share in shares]
    assert results == pytest.approx(expected)


def test_an_empty_batch_weighs_nothing():
    totals = Totals(tokens=0, sequences=0, max_length=0)
    for share in (
        weight.token_mean,
        weight.seq_mean_token_mean,
        weight.seq_mean_token_sum,
        weight.constant,
    ):
        assert share(MASK[2:], totals).tolist() == [[0, 0, 0, 0]]
        assert share(MASK[:0], totals).shape == (0, 4)


@pytest.mark.parametrize("share", weight.BY_NAME.values(), ids=weight.BY_NAME)
def test_one_token_alone_carries_the_whole_loss(share):
    result = share(tensor([[True]]), Totals(tokens=1, sequences=1, max_length=1))
    assert result.tolist() == [[1.0]]
