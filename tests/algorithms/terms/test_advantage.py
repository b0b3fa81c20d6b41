"""Advantages from rewards, by hand."""

import torch
from torch import tensor

from rlvr_cli.algorithms.terms.advantage import (
    group_mean,
    group_norm,
    inverse_success,
    leave_one_out,
    length_weighted,
    mixed_share,
    nonzero_share,
    over_mean,
    overlong,
    signed,
    whitened,
)

GROUP = tensor([0, 0, 0, 0])


def f64(*values):
    return tensor(values, dtype=torch.float64)


def test_one_right_of_four_is_one_and_a_half_deviations_up():
    # Mean 1/4; squares off it 9/16 + 3/16 = 3/4; deviation sqrt(3/4 / 3) = 1/2.
    advantage_N = group_norm(f64(1, 0, 0, 0), GROUP, eps=0.0)
    torch.testing.assert_close(advantage_N, f64(1.5, -0.5, -0.5, -0.5), rtol=1e-15, atol=0)


def test_ddof_zero_divides_by_the_size():
    # Deviation sqrt(3/4 / 4) = sqrt(3) / 4.
    advantage_N = group_norm(f64(1, 0, 0, 0), GROUP, eps=0.0, ddof=0)
    third = 3**-0.5
    torch.testing.assert_close(
        advantage_N, f64(3 * third, -third, -third, -third), rtol=1e-15, atol=0
    )


def test_eps_is_added_to_the_deviation():
    advantage_N = group_norm(f64(1, 0, 0, 0), GROUP, eps=0.5)
    torch.testing.assert_close(advantage_N, f64(0.75, -0.25, -0.25, -0.25), rtol=1e-15, atol=0)


def test_the_defaults_are_eps_one_millionth_and_ddof_one():
    advantage_N = group_norm(f64(1, 0, 0, 0), GROUP)
    torch.testing.assert_close(advantage_N[0], f64(0.75 / 0.500001)[0], rtol=1e-15, atol=0)


def test_a_constant_added_to_the_rewards_changes_no_advantage():
    reward, group = f64(0.2, 0.9, 0.4, 1.0, 0.0), tensor([0, 0, 0, 1, 1])
    result, shifted = group_norm(reward, group), group_norm(reward + 7, group)
    torch.testing.assert_close(shifted, result, rtol=1e-13, atol=0)


def test_groups_do_not_see_each_other():
    reward, group = f64(1, 5, 0, 9, 7), tensor([0, 1, 0, 1, 1])
    advantage_N = group_norm(reward, group)
    alone = group_norm(reward[group == 0], tensor([0, 0]))
    torch.testing.assert_close(advantage_N[group == 0], alone, rtol=0, atol=0)


def test_the_mean_alone_leaves_the_scale():
    advantage_N = group_mean(f64(1, 0, 0, 0), GROUP)
    assert advantage_N.tolist() == [0.75, -0.25, -0.25, -0.25]


def test_leaving_one_out_scales_the_mean_centred_advantage_by_size_over_size_less_one():
    advantage_N = leave_one_out(f64(1, 0, 0.5, 0, 1, 0), tensor([0, 0, 0, 0, 1, 1]))
    expected = f64(1 - 0.5 / 3, 0 - 1.5 / 3, 0.5 - 1 / 3, 0 - 1.5 / 3, 1, -1)
    torch.testing.assert_close(advantage_N, expected, rtol=1e-15, atol=1e-16)


def test_leaving_one_out_of_a_group_of_one_is_zero():
    assert leave_one_out(f64(0.7), tensor([0])).tolist() == [0]


def test_the_mixed_share_counts_completions_of_groups_that_differ():
    # Seven completions, four of them in the mixed group: alpha = 7 / 4, though one reward of it
    # and three in all are not 0.
    advantage_N = mixed_share(f64(1, 0, 0, 0, 1, 1, 0), tensor([0, 0, 0, 0, 1, 1, 2]))
    assert advantage_N.tolist() == [7 / 4 * 0.75, *[7 / 4 * -0.25] * 3, 0, 0, 0]


def test_the_mixed_share_of_nothing_mixed_is_zero():
    assert mixed_share(f64(1, 1, 0, 0), tensor([0, 0, 1, 1])).tolist() == [0] * 4


def test_whitening_counts_a_completion_once_a_token():
    # Off the mean +-1/2, at 3 tokens and 1: mean 1/4, variance 3/16.
    advantage_N = whitened(f64(1, 0), tensor([0, 0]), tensor([3, 1]), zero_equal=False)
    torch.testing.assert_close(advantage_N, f64(0.25, -0.75) / 0.1875**0.5, rtol=1e-15, atol=0)


def test_whitening_keeps_constant_groups_in_its_statistics_and_gives_them_zero():
    advantage_N = whitened(
        f64(1, 0, 1, 1), tensor([0, 0, 1, 1]), tensor([1, 1, 1, 1]), zero_equal=False
    )
    torch.testing.assert_close(advantage_N[:2], f64(0.5, -0.5) / 0.125**0.5, rtol=1e-15, atol=0)
    assert advantage_N[2:].tolist() == [0, 0]


def test_whitening_divides_by_no_less_than_the_root_of_the_least_variance():
    advantage_N = whitened(f64(1e-6, 0), tensor([0, 0]), tensor([1, 1]), zero_equal=False)
    torch.testing.assert_close(advantage_N, f64(5e-7, -5e-7) / 1e-4, rtol=1e-12, atol=0)


def test_whitening_completions_without_a_token_is_finite():
    advantage_N = whitened(f64(1, 0), tensor([0, 0]), tensor([0, 0]), zero_equal=False)
    assert bool(advantage_N.isfinite().all())


def test_a_sign_is_one_number_for_right_and_one_for_wrong():
    advantage_N = signed(tensor([True, False]), positive=0.1, negative=-1.0)
    assert advantage_N.tolist() == [0.1, -1] and advantage_N.dtype == torch.float64


def test_one_success_of_eight_counts_seven_times_and_failures_stay():
    advantage = f64(2, *[-0.5] * 7)
    advantage_N = inverse_success(advantage, tensor([0] * 8), alpha=1.0)
    assert advantage_N.tolist() == [14, *[-0.5] * 7]


def test_the_power_of_a_group_of_successes_is_zero_but_for_a_power_of_zero():
    # Advantages of exactly 0 are no successes.
    advantage, group = f64(1, 1, 0, 1, -1), tensor([0, 0, 1, 1, 1])
    assert inverse_success(advantage, group, alpha=2.0).tolist() == [0, 0, 0, 4, -1]
    assert inverse_success(advantage, group, alpha=0.0).tolist() == advantage.tolist()


def test_the_last_tokens_before_the_limit_cost_up_to_one():
    penalty_N = overlong(tensor([0, 16, 17, 18, 20]), longest=20, buffer=4)
    assert penalty_N.tolist() == [0, 0, -0.25, -0.5, -1]


def test_equal_rewards_give_exactly_zero_however_they_round():
    reward, group = f64(*[0.1] * 10, 1, 0), tensor([0] * 10 + [1, 1])
    for result in (
        group_norm(reward, group, eps=1e-12),
        group_mean(reward, group),
        leave_one_out(reward, group),
        mixed_share(reward, group),
        nonzero_share(reward, group),
        whitened(reward, group, torch.arange(12), zero_equal=True),
    ):
        assert result[:10].tolist() == [0] * 10 and bool((result[10:] != 0).all())


def test_a_batch_of_one_token_gives_that_token_its_whole_share():
    # m = 0.5 and v = 0, so A = (B - m) / 1e-4.
    advantage_N = whitened(f64(1, 0), tensor([0, 0]), tensor([1, 0]), zero_equal=False)
    torch.testing.assert_close(advantage_N, f64(0, -1e4), rtol=1e-12, atol=0)


def test_over_the_mean_one_success_of_four_is_three():
    advantage_N = over_mean(f64(1, 0, 0, 0, 0, 0), tensor([0, 0, 0, 0, 1, 1]), eps=0.0)
    assert advantage_N.tolist() == [3, -1, -1, -1, 0, 0]
    assert over_mean(f64(1, 0), GROUP[:2], eps=0.5).tolist() == [0.5, -0.5]


def test_weighted_by_length_the_baseline_is_the_mean_over_tokens():
    reward, group, length = f64(1, 0, 1, 1, 0), tensor([0, 0, 1, 1, 1]), tensor([3, 1, 2, 2, 4])
    assert length_weighted(reward, group, length).tolist() == [0.25, -0.75, 0.5, 0.5, -0.5]


def test_completions_without_a_token_leave_their_reward_as_it_is():
    assert length_weighted(f64(1, 0), GROUP[:2], tensor([0, 0])).tolist() == [1, 0]
