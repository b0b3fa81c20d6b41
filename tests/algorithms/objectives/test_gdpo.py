"""GDPO from its equations (arXiv:2601.05242)."""

import numpy as np
import pytest

DEFAULTS = "gdpo:clip_low=0.2,clip_high=0.2,eps=0.0001,ddof=1,aggregation=seq-mean-token-mean"
WEIGHTS = (0.7, -1.3)  # of the harness


def normed(value, eps, ddof):
    known = value[~np.isnan(value)]
    if len(known) == 0 or not np.ptp(known):
        return np.zeros(len(value))
    return np.nan_to_num((value - np.mean(known)) / (np.std(known, ddof=ddof) + eps))


def estimate(batch, *, eps=1e-4, ddof=1):
    total = np.zeros(batch.sequences)
    for weight, part in zip(WEIGHTS, batch.parts.T, strict=True):
        for group in np.unique(batch.group):
            which = batch.group == group
            total[which] += weight * normed(part[which], eps, ddof)
    spread = np.std(total, ddof=ddof) if len(total) > ddof and np.ptp(total) else 0
    advantage = (total - np.mean(total)) / (spread + eps)
    for group in np.unique(batch.group):
        if not total[batch.group == group].any():
            advantage[batch.group == group] = 0
    return advantage


def cost(row, batch, *, low=0.2, high=0.2, token_mean=False):
    weight = 1 / batch.tokens if token_mean else 1 / (batch.sequences * row.length)
    ratio, a = np.exp(row.log_ratio), row.advantage
    free, clipped = ratio * a, np.clip(ratio, 1 - low, 1 + high) * a
    gain, slope = np.minimum(free, clipped), np.where(free <= clipped, free, 0)
    return -weight * gain.sum(), -weight * slope


def test_gdpo_is_its_equations(matches):
    matches("gdpo", estimate, cost)


def test_gdpo_is_its_equations_with_options(matches):
    matches(
        "gdpo:eps=0.05,ddof=0,aggregation=token-mean,clip_low=0.1,clip_high=0.3",
        lambda batch: estimate(batch, eps=0.05, ddof=0),
        lambda row, batch: cost(row, batch, low=0.1, high=0.3, token_mean=True),
    )


def test_of_one_reward_it_is_the_group_norm_standardised_over_the_batch(advantages):
    reward = [1, 0, 0, 0, 1, 1, 0, 1]
    plain = np.array(advantages("grpo:eps=1e-12", reward, 4, 4)["advantage"])
    made = advantages("gdpo:eps=1e-12", reward, 4, 4)["advantage"]
    assert made == pytest.approx((plain / plain.std(ddof=1)).tolist(), rel=1e-9)


def test_one_reward_weighs_one(advantages):
    # (1/2) / (1/sqrt 2 + 1), and that over its deviation, sqrt 2 times as much, plus 1.
    made = advantages("gdpo:eps=1", [1, 0], 2)["advantage"]
    part = 0.5 / (0.5**0.5 + 1)
    assert made == pytest.approx([part / (part * 2**0.5 + 1), -part / (part * 2**0.5 + 1)])
