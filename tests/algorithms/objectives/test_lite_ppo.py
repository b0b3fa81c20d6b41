"""Lite PPO from its equations (arXiv:2508.08221; Magistral, arXiv:2506.10910, sec. 2.1)."""

import numpy as np
import pytest

DEFAULTS = "lite-ppo:clip_low=0.2,clip_high=0.2,deviation=rewards,eps=1e-06,ddof=1"


def estimate(batch, *, deviation, eps, ddof):
    off = batch.by_group(lambda R: R - np.mean(R))
    value = batch.reward if deviation == "rewards" else off
    spread = np.std(value, ddof=ddof) if len(value) > ddof and np.ptp(value) else 0
    return off / (spread + eps)


def cost(row, batch, *, low, high):
    ratio, a = np.exp(row.log_ratio), row.advantage
    free, clipped = ratio * a, np.clip(ratio, 1 - low, 1 + high) * a
    gain, slope = np.minimum(free, clipped), np.where(free <= clipped, free, 0)
    return -gain.sum() / batch.tokens, -slope / batch.tokens


@pytest.mark.parametrize(
    "spec, deviation, eps, ddof, low, high",
    [
        ("lite-ppo", "rewards", 1e-6, 1, 0.2, 0.2),
        ("lite-ppo:deviation=advantages,clip_high=0.28", "advantages", 1e-6, 1, 0.2, 0.28),
        ("lite-ppo:eps=0.1,ddof=0,clip_low=0.1", "rewards", 0.1, 0, 0.1, 0.2),
    ],
)
def test_lite_ppo_is_its_equations(matches, spec, deviation, eps, ddof, low, high):
    matches(
        spec,
        lambda batch: estimate(batch, deviation=deviation, eps=eps, ddof=ddof),
        lambda row, batch: cost(row, batch, low=low, high=high),
    )


@pytest.mark.parametrize(
    "deviation, square", [("rewards", 12 / 7), ("advantages", (3 / 4 + 3 / 4) / 7)]
)
def test_a_prompt_of_few_answers_weighs_as_one_of_many(advantages, deviation, square):
    # Group means 1/4 and 9/4. Of the rewards: mean 5/4, squares off it
    # (1/16 + 3 25/16 + 49/16 + 3 9/16) = 152/16. Of the advantages: 3/4 in each group.
    square = 152 / 16 / 7 if deviation == "rewards" else square
    values = advantages(
        f"lite-ppo:eps=1e-15,deviation={deviation}", [1, 0, 0, 0, 3, 2, 2, 2], 4, 4
    )["advantage"]
    expected = np.array([0.75, -0.25, -0.25, -0.25] * 2) / square**0.5
    assert values == pytest.approx(expected.tolist(), rel=1e-12)


def test_a_batch_of_one_reward_is_no_signal(advantages):
    assert advantages("lite-ppo:eps=1e-12", [0.3] * 6, 3, 3)["advantage"] == [0] * 6
