"""Pass@k Training from its equations (arXiv:2508.10751, sec. 2), by enumeration of subsets."""

import functools
from itertools import combinations
from math import comb

import numpy as np
import pytest
import torch

from rlvr_cli.algorithms import objective
from rlvr_cli.errors import UsageError

DEFAULTS = "pass-at-k:k=4,form=analytic,subsets=0,seed=0,clip_low=0.2,clip_high=0.28,eps=1e-06"
SHORT = "pass-at-k:k=1,subsets=64"  # the property tests have groups of two completions


def of_subsets(rewards, subsets, eps):
    """The mean of the group-normalised best rewards of the subsets that hold a completion."""
    best = np.max(rewards[subsets], 1)
    value = np.zeros(len(best))
    if np.ptp(best):
        value = (best - np.mean(best)) / (np.std(best) + eps)
    held = (subsets[:, :, None] == np.arange(len(rewards))).any(1)
    with np.errstate(invalid="ignore"):
        return (value @ held) / held.sum(0)


@functools.cache
def chosen(size, k, form, count, seed):
    """The subsets of a form: all, by chance, or in order."""
    if form == "analytic":
        return np.array(list(combinations(range(size), k)))
    if form == "full":
        return np.arange(size // k * k).reshape(-1, k)
    generator = torch.Generator().manual_seed(seed)
    chance = torch.rand(count or size, size, generator=generator, dtype=torch.float64)
    return np.array([row.argsort()[:k].tolist() for row in chance])


def estimate(batch, *, k, form="analytic", count=0, seed=0, eps=1e-6):
    advantage, keep = np.zeros(batch.sequences), np.ones(batch.sequences, dtype=bool)
    for group in np.unique(batch.group):
        which = np.flatnonzero(batch.group == group)
        if len(which) < k:
            continue
        rewards = batch.reward[which]
        values = of_subsets(rewards, chosen(len(which), k, form, count, seed), eps)
        keep[which] = ~np.isnan(values)
        advantage[which] = np.nan_to_num(values) if np.ptp(rewards) else 0
    return {"advantage": advantage, "keep": keep}


def cost(row, batch, *, low=0.2, high=0.28):
    ratio, a = np.exp(row.log_ratio), row.advantage
    free, clipped = ratio * a, np.clip(ratio, 1 - low, 1 + high) * a
    gain, slope = np.minimum(free, clipped), np.where(free <= clipped, free, 0)
    return -gain.sum() / batch.tokens, -slope / batch.tokens


@pytest.mark.parametrize(
    "spec, options",
    [
        ("pass-at-k:k=2", {"k": 2}),
        ("pass-at-k:k=3,eps=0.1", {"k": 3, "eps": 0.1}),
        ("pass-at-k:k=1", {"k": 1}),
        ("pass-at-k:k=3,form=full", {"k": 3, "form": "full"}),
        ("pass-at-k:k=2,form=bootstrap", {"k": 2, "form": "bootstrap"}),
        (
            "pass-at-k:k=3,form=bootstrap,subsets=3,seed=7",
            {"k": 3, "form": "bootstrap", "count": 3, "seed": 7},
        ),
    ],
)
def test_pass_at_k_is_the_mean_over_subsets(matches, spec, options):
    matches(spec, lambda batch: estimate(batch, **options), cost)


def test_the_clip_is_an_option(matches):
    matches(
        "pass-at-k:k=2,clip_low=0.1,clip_high=0.4",
        lambda batch: estimate(batch, k=2),
        lambda row, batch: cost(row, batch, low=0.1, high=0.4),
    )


@pytest.mark.parametrize("size, correct, k", [(8, 1, 4), (8, 3, 4), (16, 5, 8), (32, 31, 2)])
def test_of_right_and_wrong_it_is_the_closed_form_of_the_paper(advantages, size, correct, k):
    # arXiv:2508.10751, sec. 2.4, with the paper's eps of 1e-6 beside the deviation.
    wrong = size - correct
    mean = 1 - comb(wrong, k) / comb(size, k)
    deviation = (mean * (1 - mean)) ** 0.5 + 1e-6
    right = (1 - mean) / deviation
    other = (1 - mean - comb(wrong - 1, k - 1) / comb(size - 1, k - 1)) / deviation
    columns = advantages(f"pass-at-k:k={k}", [1] * correct + [0] * wrong)
    expected = [right] * correct + [other] * wrong
    assert columns["advantage"] == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_pass_at_one_is_the_group_norm_without_correction(advantages):
    reward = [1, 0, 0.5, 0.25, 1, 0]
    one, other = (advantages(s, reward)["advantage"] for s in ("pass-at-k:k=1", "grpo:ddof=0"))
    assert one == pytest.approx(other, rel=1e-12)


def test_many_drawn_subsets_come_near_the_closed_form(advantages):
    reward = [1, 1, 0, 0, 0, 0, 0, 0]
    exact, near = (
        np.array(advantages(spec, reward)["advantage"])
        for spec in ("pass-at-k:k=3", "pass-at-k:k=3,form=bootstrap,subsets=40000")
    )
    assert np.abs(near - exact).max() < 0.02


def test_completions_beyond_the_last_whole_subset_leave_the_batch(advantages):
    columns = advantages("pass-at-k:k=2,form=full,eps=1e-15", [1, 0, 0, 0, 1])
    assert columns["keep"] == [True] * 4 + [False]
    assert columns["advantage"][:4] == pytest.approx([1, 1, -1, -1], rel=1e-12)


def test_a_group_as_large_as_the_subset_has_no_signal(advantages):
    assert advantages("pass-at-k:k=4", [1, 0, 0, 0.3])["advantage"] == [0] * 4
    assert objective.build("pass-at-k:k=4").least_group == 5


@pytest.mark.parametrize("option", ["k=0", "subsets=-1"])
def test_a_subset_that_is_none_is_refused(option):
    with pytest.raises(UsageError, match="must be"):
        objective.build(f"pass-at-k:{option}")


@pytest.mark.parametrize("form, is_alike", [("analytic", True), ("full", False)])
def test_only_the_closed_form_gives_equal_rewards_equal_advantages(advantages, form, is_alike):
    assert objective.build(f"pass-at-k:form={form}").is_alike == is_alike
    wrong, _, beside, _ = advantages(f"pass-at-k:k=2,form={form}", [0, 0, 0, 1], 4)["advantage"]
    assert (wrong == beside) == is_alike
