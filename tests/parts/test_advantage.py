"""Advantages from rewards, by hand."""

import torch
from torch import tensor

from rlvr_cli.parts.advantage import group_norm

GROUP = tensor([0, 0, 0, 0])


def f64(*values):
    return tensor(values, dtype=torch.float64)


def test_one_right_of_four_is_one_and_a_half_deviations_up():
    # Mean 1/4; squares off it 9/16 + 3/16 = 3/4; deviation sqrt(3/4 / 3) = 1/2.
    made = group_norm(f64(1, 0, 0, 0), GROUP, eps=0.0)
    torch.testing.assert_close(made, f64(1.5, -0.5, -0.5, -0.5), rtol=1e-15, atol=0)


def test_ddof_zero_divides_by_the_size():
    # Deviation sqrt(3/4 / 4) = sqrt(3) / 4.
    made = group_norm(f64(1, 0, 0, 0), GROUP, eps=0.0, ddof=0)
    third = 3**-0.5
    torch.testing.assert_close(made, f64(3 * third, -third, -third, -third), rtol=1e-15, atol=0)


def test_eps_is_added_to_the_deviation():
    made = group_norm(f64(1, 0, 0, 0), GROUP, eps=0.5)
    torch.testing.assert_close(made, f64(0.75, -0.25, -0.25, -0.25), rtol=1e-15, atol=0)


def test_the_defaults_are_eps_one_millionth_and_ddof_one():
    made = group_norm(f64(1, 0, 0, 0), GROUP)
    torch.testing.assert_close(made[0], f64(0.75 / 0.500001)[0], rtol=1e-15, atol=0)


def test_a_constant_added_to_the_rewards_changes_no_advantage():
    reward, group = f64(0.2, 0.9, 0.4, 1.0, 0.0), tensor([0, 0, 0, 1, 1])
    made, shifted = group_norm(reward, group), group_norm(reward + 7, group)
    torch.testing.assert_close(shifted, made, rtol=1e-13, atol=0)


def test_groups_do_not_see_each_other():
    reward, group = f64(1, 5, 0, 9, 7), tensor([0, 1, 0, 1, 1])
    made = group_norm(reward, group)
    alone = group_norm(reward[group == 0], tensor([0, 0]))
    torch.testing.assert_close(made[group == 0], alone, rtol=0, atol=0)
