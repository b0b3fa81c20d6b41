"""Clip-Cov from its equations (arXiv:2505.22617, sec. 4.2)."""

import math

import numpy as np
import pytest
import torch
from torch import tensor

from rlvr_cli.algorithms import objective
from rlvr_cli.algorithms.objective import Tokens
from rlvr_cli.errors import UsageError

DEFAULTS = "clip-cov:share=0.0002,low=1.0,high=5.0,seed=0"


def trained(batch):
    """The tokens that get a gradient from the surrogate."""
    return batch.mask_BT & (batch.token_columns["cov_clipped"] == 0)


def estimate(batch):
    return batch.by_group(lambda R: (R - np.mean(R)) / (np.std(R, ddof=1) + 1e-6))


def covariances(batch):
    """(log pi_old - its mean) (A - its mean) of every token of the batch, in order."""
    logp = np.concatenate([row.old_logp for row in batch.rows])
    advantage = np.repeat(batch.columns["advantage"], batch.length)
    return (logp - logp.mean()) * (advantage - advantage.mean())


def clipped(batch, *, share, low, high, seed):
    """A flag for each token of each row: whether it is drawn."""
    cov = covariances(batch)
    within = [k for k, value in enumerate(cov) if low <= value <= high]
    count = max(1, math.floor(share * len(cov) + 1e-9))
    order = torch.randperm(len(within), generator=torch.Generator().manual_seed(seed)).tolist()
    flags = np.zeros(len(cov))
    flags[[within[place] for place in order[:count]]] = 1
    return np.split(flags, np.cumsum(batch.length)[:-1])


def cost(row, batch, **options):
    """GRPO's gain but at tokens that are drawn, and 0.3 k2 at all of them."""
    if not batch.whole:
        batch.whole["flags"] = clipped(batch, **options)
    flags = batch.whole["flags"][row.i]
    weight, x = 1 / (batch.sequences * row.length), row.logp - row.ref_logp
    ratio, a = np.exp(row.log_ratio), row.advantage
    free, bound = ratio * a, np.clip(ratio, 0.8, 1.2) * a
    gain = np.minimum(free, bound) * (1 - flags)
    slope = np.where(free <= bound, free, 0) * (1 - flags)
    return weight * np.sum(-gain + 0.15 * x**2), weight * (-slope + 0.3 * x)


@pytest.mark.parametrize(
    "option, values",
    [
        ("share=0.1,low=0.05,high=0.9,seed=3", {"share": 0.1, "low": 0.05, "high": 0.9, "seed": 3}),
        ("share=1,low=0", {"share": 1, "low": 0, "high": 5, "seed": 0}),
    ],
)
def test_clip_cov_is_its_equation(matches, option, values):
    spec = f"grpo+clip-cov:{option}+kl:beta=0.3,estimator=k2"
    matches(spec, estimate, lambda row, batch: cost(row, batch, **values))


def tokens(logp, advantage, **stored):
    count = len(logp)
    every, zero = torch.arange(count), torch.zeros(count, dtype=torch.int64)
    columns = {"old_logp": logp, **stored}
    return Tokens(
        row_K=every,
        group_K=zero,
        place_K=zero,
        advantage_K=tensor(advantage, dtype=torch.float64),
        stored={name: tensor(value, dtype=torch.float64) for name, value in columns.items()},
    )


def test_likely_right_and_unlikely_wrong_tokens_are_drawn():
    # Means -2 and 0: products 1, -1, 1, -1.
    made = objective.token_values(
        objective.build("grpo+clip-cov:share=1,low=0.5"),
        tokens([-1, -3, -3, -1], [1, 1, -1, -1]),
    )
    assert made["cov_clipped"].tolist() == [1, 0, 1, 0]


def test_both_bounds_belong_to_the_range():
    seen = tokens([-1, -3, -3, -1], [1, 1, -1, -1])
    for bounds, count in [("low=1,high=2", 2), ("low=0,high=1", 2), ("low=1.1,high=2", 0)]:
        goal = objective.build(f"grpo+clip-cov:share=1,{bounds}")
        assert objective.token_values(goal, seen)["cov_clipped"].sum() == count


@pytest.mark.parametrize("share, count", [(0.2, 2), (0.29, 2), (0.3, 3), (1e-9, 1)])
def test_a_share_of_all_tokens_is_drawn_rounded_down_and_one_at_least(share, count):
    seen = tokens([-1, -3] * 5, [1, -1] * 5)
    goal = objective.build(f"grpo+clip-cov:share={share},low=0")
    assert objective.token_values(goal, seen)["cov_clipped"].sum() == count


def test_another_seed_draws_others():
    seen = tokens([-1, -3] * 50, [1, -1] * 50)
    one, other = (
        objective.token_values(objective.build(f"grpo+clip-cov:share=0.1,seed={n}"), seen)
        for n in (0, 1)
    )
    assert one["cov_clipped"].tolist() != other["cov_clipped"].tolist()


def test_the_share_of_tokens_that_are_drawn_is_counted(counted):
    assert counted("grpo+clip-cov", "cov_clipped") == (1, 2)


@pytest.mark.parametrize("option", ["share=0", "share=1.1", "low=5", "low=nan"])
def test_a_range_or_a_share_that_is_none_is_refused(option):
    with pytest.raises(UsageError, match=r"share|low"):
        objective.build(f"grpo+clip-cov:{option}")
