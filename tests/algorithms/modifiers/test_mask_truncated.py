"""Truncated completions leave the batch (DAPO, arXiv:2503.14476, sec. 3.4)."""

import numpy as np
import pytest

from rlvr_cli.algorithms import objective

DEFAULTS = "mask-truncated"


def group_norm(batch, reward):
    return batch.by_group(lambda R: (R - np.mean(R)) / (np.std(R, ddof=1) + 1e-6), reward)


def signed(batch, reward):
    return np.where(batch.correct, 1.0, -1.0)


def cost(row, batch, *, high, c):
    """The clipped token ratio of DAPO and NSR, mean of the tokens that are left."""
    ratio, a = np.exp(row.log_ratio), row.advantage
    free, clipped = ratio * a, np.clip(ratio, 0.8, 1 + high) * a
    gain, slope = np.minimum(free, clipped), np.where(free <= clipped, free, 0)
    if a < 0:
        gain, slope = np.maximum(gain, c * a), np.where(gain >= c * a, slope, 0)
    return -gain.sum() / batch.tokens, -slope / batch.tokens


def test_the_loss_is_of_the_others_and_the_statistics_are_of_all(matches):
    def estimate(batch):
        return {"advantage": group_norm(batch, batch.reward), "keep": ~batch.truncated}

    matches("dapo+mask-truncated", estimate, lambda row, batch: cost(row, batch, high=0.28, c=10))


def test_an_objective_that_leaves_rows_out_itself_leaves_those_out_too(matches):
    def estimate(batch):
        keep = ~batch.truncated & ~batch.correct
        return {"advantage": signed(batch, batch.reward), "keep": keep}

    matches("nsr+mask-truncated", estimate, lambda row, batch: cost(row, batch, high=0.2, c=np.inf))


def test_the_reward_of_a_truncated_completion_stays_in_its_groups_mean(advantages):
    columns = advantages(
        "dr-grpo+mask-truncated", [1, 0, 0, 0], truncated=[False, True, True, False]
    )
    assert columns["advantage"] == pytest.approx([0.75, -0.25, -0.25, -0.25])
    assert columns["keep"] == [True, False, False, True]
    assert columns["group_size"] == [4] * 4


@pytest.mark.parametrize("modifiers", ["overlong:buffer=10+mask-truncated", "mask-truncated+iac"])
def test_it_goes_with_what_shapes_rewards_and_advantages(advantages, modifiers):
    columns = advantages(f"grpo+{modifiers}", [1, 0, 1], truncated=[False, False, True])
    assert columns["keep"] == [True, True, False]


def test_it_says_that_it_needs_to_know_why_completions_ended():
    assert objective.build("grpo+mask-truncated").needs == {"truncated"}
