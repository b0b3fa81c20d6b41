"""REINFORCE: raw rewards as advantages, and the clipped token ratio (PPO, arXiv:1707.06347)."""

import numpy as np
import pytest

from rlvr_cli.algorithms import objective

DEFAULTS = "reinforce:clip_low=0.2,clip_high=0.2,whiten=false"


def estimate(batch):
    return batch.reward


def whitened(batch):
    """Rewards standardised over all tokens of the batch (REINFORCE++, arXiv:2501.03262)."""
    every = np.repeat(batch.reward, batch.length)
    if every.max() == every.min():
        return np.zeros(len(batch.reward))
    return (batch.reward - np.mean(every)) / np.sqrt(max(np.var(every), 1e-8))


def cost(row, batch, *, low, high):
    ratio, a = np.exp(row.log_ratio), row.advantage
    free, clipped = ratio * a, np.clip(ratio, 1 - low, 1 + high) * a
    gain = np.minimum(free, clipped)
    return -gain.sum() / batch.tokens, -np.where(free <= clipped, free, 0) / batch.tokens


@pytest.mark.parametrize(
    "spec, low, high",
    [("reinforce", 0.2, 0.2), ("reinforce:clip_low=0.5,clip_high=0.1", 0.5, 0.1)],
)
def test_reinforce_is_its_equations(matches, spec, low, high):
    matches(spec, estimate, lambda row, batch: cost(row, batch, low=low, high=high))


def test_whitened_rewards_are_standardised_over_the_tokens_of_the_batch(matches):
    matches(
        "reinforce:whiten=true",
        whitened,
        lambda row, batch: cost(row, batch, low=0.2, high=0.2),
    )


def test_whitening_equal_rewards_leaves_exactly_zero(advantages):
    made = advantages("reinforce:whiten=true", [0.3] * 3, 3, lengths=[2, 1, 4])["advantage"]
    assert made == [0] * 3  # 0.3 less the mean over tokens is 6e-17


def test_a_group_of_equal_rewards_keeps_them(advantages):
    assert advantages("reinforce", [0.3, 0.3, -1, -1], 2, 2)["advantage"] == [0.3, 0.3, -1, -1]


def test_the_four_corners_of_the_clip(gains):
    gain = gains("reinforce", [1.5, 0.5, 1.5, 0.5], [1.0, 1.0, -1.0, -1.0])
    assert gain.value == pytest.approx((1.2 + 0.5 - 1.5 - 0.8) / 4, rel=1e-12)
    assert gain.slope == pytest.approx([0, 0.5 / 4, -1.5 / 4, 0], rel=1e-12)


def test_what_an_earlier_version_stored_is_not_whitened():
    made_by = "reinforce:clip_low=0.2,clip_high=0.2"
    assert objective.canonical(made_by, made_by) == f"{made_by},whiten=false"


def test_only_whitening_counts_tokens():
    assert objective.build("reinforce:whiten=true").needs == {"length"}
    assert not objective.build("reinforce").needs
