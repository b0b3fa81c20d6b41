"""CE-GPPO from its equations (arXiv:2509.20712)."""

import math

import numpy as np
import pytest

from rlvr_cli.algorithms import objective
from rlvr_cli.errors import UsageError

DEFAULTS = "ce-gppo:clip_low=0.2,clip_high=0.2,beta1=0.75,beta2=1.0,eps=1e-06,ddof=1"


def estimate(batch, *, eps, ddof):
    return batch.by_group(lambda R: (R - np.mean(R)) / (np.std(R, ddof=ddof) + eps))


def cost(row, batch, *, low, high, beta1, beta2):
    """r A, and on the clipped side of each bound the bound times beta; token mean."""
    ratio, a = np.exp(row.log_ratio), row.advantage
    gain = ratio * a
    if a < 0:
        gain = np.where(ratio < 1 - low, beta1 * (1 - low) * a, gain)
    if a > 0:
        gain = np.where(ratio > 1 + high, beta2 * (1 + high) * a, gain)
    return -gain.sum() / batch.tokens, -gain / batch.tokens  # the slope of each is its value


@pytest.mark.parametrize(
    "spec, low, high, beta1, beta2, eps, ddof",
    [
        ("ce-gppo", 0.2, 0.2, 0.75, 1, 1e-6, 1),
        ("ce-gppo:clip_low=0.1,clip_high=0.5,beta1=0.5,beta2=2", 0.1, 0.5, 0.5, 2, 1e-6, 1),
        ("ce-gppo:beta1=0,beta2=0,eps=0.1,ddof=0", 0.2, 0.2, 0, 0, 0.1, 0),
    ],
)
def test_ce_gppo_is_its_equations(matches, spec, low, high, beta1, beta2, eps, ddof):
    matches(
        spec,
        lambda batch: estimate(batch, eps=eps, ddof=ddof),
        lambda row, batch: cost(row, batch, low=low, high=high, beta1=beta1, beta2=beta2),
    )


def test_the_four_corners_of_the_clip(gains):
    gain = gains("ce-gppo:clip_high=0.3", [1.5, 0.5, 1.5, 0.5], [1.0, 1.0, -1.0, -1.0])
    assert gain.value == pytest.approx((1.3 + 0.5 - 1.5 - 0.75 * 0.8) / 4, rel=1e-12)
    assert gain.slope == pytest.approx(np.array([1.3, 0.5, -1.5, -0.6]) / 4, rel=1e-12)


def test_a_clipped_token_keeps_its_gradient_at_any_distance(gains):
    far = math.exp(30)
    gain = gains("ce-gppo", [far, 1 / far], [1.0, -1.0])
    assert gain.slope == pytest.approx([1.2 / 2, -0.6 / 2], rel=1e-9)


def test_without_betas_its_gradient_is_that_of_a_clip(gains):
    ratios, advantages = [1.5, 0.5, 1.5, 0.5, 1.1, 0.9], [1.0, 1.0, -1.0, -1.0, 2.0, -2.0]
    made = gains("ce-gppo:beta1=0,beta2=0", ratios, advantages)
    clip = gains("grpo:aggregation=token-mean", ratios, advantages)
    assert made.slope == pytest.approx(clip.slope, rel=1e-12)


@pytest.mark.parametrize("option", ["beta1=-0.1", "beta2=-1", "beta1=inf"])
def test_a_beta_that_is_none_is_refused(option):
    with pytest.raises(UsageError, match="beta"):
        objective.build(f"ce-gppo:{option}")
