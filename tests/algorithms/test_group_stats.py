"""Statistics of groups, by hand."""

import torch
from torch import tensor

from rlvr_cli.algorithms import group_stats

VALUE = tensor([1.0, 10.0, 2.0, 20.0, 6.0], dtype=torch.float64)
GROUP = tensor([0, 1, 0, 1, 0])


def f64(*values):
    return tensor(values, dtype=torch.float64)


def test_a_row_gets_the_total_of_its_group():
    assert group_stats.total(VALUE, GROUP).tolist() == [9, 30, 9, 30, 9]


def test_a_row_gets_the_mean_of_its_group():
    assert group_stats.mean(VALUE, GROUP).tolist() == [3, 15, 3, 15, 3]


def test_a_row_gets_the_extremes_of_its_group():
    low, high = group_stats.extremes(-VALUE, GROUP)
    assert low.tolist() == [-6, -20, -6, -20, -6]
    assert high.tolist() == [-1, -10, -1, -10, -1]


def test_the_deviation_divides_by_the_size_less_ddof():
    # Squares off the mean: 4 + 1 + 9 = 14 of three, 25 + 25 = 50 of two.
    of_three, of_two = (14 / 2) ** 0.5, 50**0.5
    expected = f64(of_three, of_two, of_three, of_two, of_three)
    torch.testing.assert_close(group_stats.std(VALUE, GROUP, ddof=1), expected, rtol=1e-15, atol=0)
    of_three, of_two = (14 / 3) ** 0.5, 5.0
    expected = f64(of_three, of_two, of_three, of_two, of_three)
    torch.testing.assert_close(group_stats.std(VALUE, GROUP, ddof=0), expected, rtol=1e-15, atol=0)


def test_the_deviation_of_a_group_of_one_is_zero():
    assert group_stats.std(f64(0.7), tensor([0]), ddof=1).tolist() == [0]


def test_a_missing_reward_leaves_size_mean_and_deviation():
    reward, present = f64(1, 0, 3, 0, 0), tensor([True, False, True, True, True])
    size, mean, std = group_stats.statistics(reward, tensor([0, 0, 0, 1, 1]), present)
    assert size.tolist() == [2, 2, 2, 2, 2]
    assert mean.tolist() == [2, 2, 2, 0, 0]
    torch.testing.assert_close(std, f64(2**0.5, 2**0.5, 2**0.5, 0, 0), rtol=1e-15, atol=0)


def test_a_group_of_one_reward_has_deviation_zero_and_a_group_of_none_has_nan():
    reward, present = f64(5, 0, 0), tensor([True, False, False])
    size, mean, std = group_stats.statistics(reward, tensor([0, 0, 1]), present)
    assert size.tolist() == [1, 1, 0]
    assert mean[:2].tolist() == [5, 5] and bool(mean[2].isnan())
    assert std[:2].tolist() == [0, 0] and bool(std[2].isnan())


def test_a_group_is_constant_only_if_its_present_rewards_are_equal_to_the_last_bit():
    reward = f64(0.3, 0.3, 0.0, 0.3, 0.1 + 0.2, 7.0)
    present = tensor([True, True, False, True, True, True])
    constant = group_stats.is_constant(reward, tensor([0, 0, 0, 1, 1, 2]), present)
    assert constant.tolist() == [True, True, True, False, False, True]


def test_a_group_without_a_reward_is_constant():
    assert group_stats.is_constant(f64(0, 0), tensor([0, 0]), tensor([False, False])).tolist() == [
        True,
        True,
    ]


def test_no_rows_have_no_statistics():
    none, no_groups = f64(), tensor([], dtype=torch.int64)
    assert len(group_stats.mean(none, no_groups)) == 0
    assert [len(value) for value in group_stats.extremes(none, no_groups)] == [0, 0]
    statistics = group_stats.statistics(none, no_groups, no_groups.bool())
    assert [len(value) for value in statistics] == [0, 0, 0]
