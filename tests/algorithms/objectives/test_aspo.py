"""ASPO from its equations (arXiv:2510.06062, sec. 6, eq. 3 and 12)."""

import math

import numpy as np
import pytest
import torch

from rlvr_cli.algorithms import objective
from rlvr_cli.algorithms.objective import TokenBatch, Totals
from rlvr_cli.errors import UsageError

DEFAULTS = (
    "aspo:clip_low=0.2,clip_high=0.2,dual_clip=3.0,aggregation=seq-mean-token-mean,eps=1e-06,ddof=1"
)


def estimate(batch, *, eps=1e-6, ddof=1):
    return batch.by_group(lambda R: (R - np.mean(R)) / (np.std(R, ddof=ddof) + eps))


def sequence_mean(row, batch):
    return 1 / (batch.sequences * row.length)


def token_mean(row, batch):
    return 1 / batch.tokens


def cost(row, batch, *, low=0.2, high=0.2, c=3.0, weight=sequence_mean):
    """w A: PPO's mask, the flipped ratio, and a cap that keeps the gradient."""
    ratio, a = np.exp(row.log_ratio), row.advantage
    masked = ratio > 1 + high if a > 0 else ratio < 1 - low
    held = np.where(masked, 1 + high if a > 0 else 1 - low, ratio)
    w = np.minimum(1 / held if a > 0 else held, c) * a * weight(row, batch)
    return -w.sum(), np.where(masked, 0, -w)


@pytest.mark.parametrize(
    "spec, of_estimate, of_cost",
    [
        ("aspo", {}, {}),
        ("aspo:clip_low=0.5,clip_high=0.1,dual_clip=1.5", {}, {"low": 0.5, "high": 0.1, "c": 1.5}),
        ("aspo:clip_low=1,clip_high=inf,dual_clip=inf", {}, {"low": 1, "high": 1e9, "c": 1e9}),
        ("aspo:aggregation=token-mean", {}, {"weight": token_mean}),
        ("aspo:eps=0.1,ddof=0", {"eps": 0.1, "ddof": 0}, {}),
    ],
)
def test_aspo_is_its_equations(matches, spec, of_estimate, of_cost):
    matches(
        spec,
        lambda batch: estimate(batch, **of_estimate),
        lambda row, batch: cost(row, batch, **of_cost),
    )


@pytest.mark.parametrize(
    "ratio, advantage, weight",
    [
        pytest.param(0.1, 1.0, 3, id="far behind, A > 0: capped, not flat"),
        pytest.param(0.5, 1.0, 2, id="behind, A > 0: the reciprocal"),
        pytest.param(1.0, 1.0, 1, id="at 1, A > 0"),
        pytest.param(1.1, 1.0, 1 / 1.1, id="ahead, A > 0: less"),
        pytest.param(1.3, 1.0, 0, id="beyond the clip, A > 0: flat"),
        pytest.param(0.7, -1.0, 0, id="beyond the clip, A < 0: flat"),
        pytest.param(0.9, -1.0, 0.9, id="lower, A < 0: the ratio"),
        pytest.param(2.0, -1.0, 2, id="higher, A < 0: the ratio"),
        pytest.param(12.0, -1.0, 3, id="far higher, A < 0: capped, not flat"),
        pytest.param(2.0, 0.0, 0, id="A = 0"),
    ],
)
def test_what_a_token_weighs(gains, ratio, advantage, weight):
    made = gains("aspo", [ratio], [advantage])
    assert made.slope == pytest.approx([weight * advantage], rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("nats, advantage", [(-25.0, 2.0), (25.0, -2.0)])
def test_a_capped_token_keeps_its_gradient_wherever_it_is(gains, nats, advantage):
    slope = gains("aspo", [math.exp(nats)], [advantage]).slope
    assert slope == pytest.approx([3 * advantage], rel=1e-12)


def clipped_share(spec, ratios, advantages):
    log_ratio_BT = torch.tensor(ratios, dtype=torch.float64).log()[:, None]
    batch = TokenBatch(
        logp_BT=log_ratio_BT,
        old_logp_BT=torch.zeros_like(log_ratio_BT),
        mask_BT=torch.ones_like(log_ratio_BT, dtype=torch.bool),
        advantage_B=torch.tensor(advantages, dtype=torch.float64),
        entropy_BT=torch.zeros_like(log_ratio_BT),
    )
    goal, totals = objective.build(spec), Totals(len(ratios), len(ratios), 1)
    made = objective.token_metrics(goal, batch, objective.loss(goal, batch, totals))
    return made["clipped"] / len(ratios)


def test_the_share_of_clipped_tokens_is_that_without_a_gradient():
    assert clipped_share("aspo", [1.3, 1.1, 0.1, 0.7], [1.0] * 4) == 0.25
    assert clipped_share("aspo", [1.3, 0.9, 0.7, 12.0], [-1.0] * 4) == 0.25
    assert clipped_share("aspo:clip_high=0.05", [1.3, 1.1, 0.1, 0.7], [1.0] * 4) == 0.5
    assert clipped_share("aspo", [1.3, 0.7], [0.0] * 2) == 0


@pytest.mark.parametrize(
    "option, reason",
    [
        ("dual_clip=0.9", "dual_clip must be at least 1"),
        ("clip_low=1.1", "clip_low must be from 0 to 1"),
        ("clip_high=-0.1", "clip_high 0 or above"),
    ],
)
def test_a_bound_that_is_none_is_refused(option, reason):
    with pytest.raises(UsageError, match=reason):
        objective.build(f"aspo:{option}")


def test_a_weight_of_one_may_be_the_cap():
    objective.build("aspo:dual_clip=1")


def test_another_dual_clip_is_refused():
    with pytest.raises(UsageError, match="this objective has another surrogate"):
        objective.build("aspo+dual-clip")
