"""APMPO's exponent and bound, by hand."""

import math

import pytest
import torch
from torch import tensor

from rlvr_cli.algorithms.terms import adaptive


def f64(*values):
    return tensor(values, dtype=torch.float64)


def test_the_exponent_falls_from_one_as_rewards_grow():
    power_N = adaptive.power(f64(0, 0.5, 1), gamma=0.8, form="exponential")
    assert power_N.tolist() == pytest.approx([1, math.exp(-0.4), math.exp(-0.8)], rel=1e-15)


def test_the_linear_exponent_may_reach_zero():
    assert adaptive.power(f64(0, 0.5, 1), gamma=1.0, form="linear").tolist() == [1, 0.5, 0]


@pytest.mark.parametrize(
    ("score", "stability"),
    [("full", 0.5 / (0.25 + 1e-6)), ("mean", 0.5), ("inverse-std", 1 / (0.25 + 1e-6))],
)
def test_the_bound_follows_each_form_of_the_stability_score(score, stability):
    options = {"low": 0.2, "high": 0.4, "score": score}
    squashed = adaptive.clip_bound(f64(0.5), f64(0.25), squash=True, **options)
    open_ended = adaptive.clip_bound(f64(0.5), f64(0.25), squash=False, **options)
    assert float(squashed) == pytest.approx(0.2 + 0.2 * math.tanh(stability), rel=1e-14)
    assert float(open_ended) == pytest.approx(0.2 + 0.2 * stability, rel=1e-14)


def test_a_deviation_of_zero_is_no_error():
    bound_N = adaptive.clip_bound(f64(1), f64(0), low=0.2, high=0.4, score="full", squash=True)
    assert float(bound_N) == pytest.approx(0.4)


def test_statistics_are_of_the_batch_or_of_each_group_with_ddof_zero():
    reward, group = f64(1, 0, 1, 1), tensor([0, 0, 1, 1])
    mean, std = adaptive.statistics(reward, group, over="group")
    assert (mean.tolist(), std.tolist()) == ([0.5, 0.5, 1, 1], [0.5, 0.5, 0, 0])
    mean, std = adaptive.statistics(reward, group, over="batch")
    assert mean.tolist() == [0.75] * 4
    assert std.tolist() == pytest.approx([math.sqrt(3) / 4] * 4, rel=1e-15)
