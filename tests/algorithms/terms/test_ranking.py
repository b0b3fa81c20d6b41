"""Which tokens are chosen by their rank, where values are equal."""

import torch

from rlvr_cli.algorithms.terms import ranking


def dropped(values, mean):
    value_K = torch.tensor(values, dtype=torch.float64)
    return ranking.outliers(value_K, torch.ones(len(values), dtype=torch.bool), mean=mean).tolist()


def test_of_equal_outliers_those_that_come_last_are_dropped():
    """125 of 500 ones and 500 zeros have a mean of 0.2."""
    ones = [1.0, 0.0] * 500
    expected = [0.0] * 250 + [1.0, 0.0] * 375
    assert dropped(ones, 0.2) == expected


def test_a_bound_of_zero_keeps_the_zeros():
    assert dropped([0.0, 1.0, 0.0], 0.0) == [0, 1, 0]
