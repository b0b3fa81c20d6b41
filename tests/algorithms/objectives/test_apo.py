"""APO from its equations (Anchored Policy Optimization, eq. 8, 9 and 23)."""

import math

import numpy as np
import pytest
import torch

DEFAULTS = "apo:k=8,lam=1.05,beta=0.1,z_floor=1e-06,clip_low=0.2,clip_high=0.2,eps=1e-06,ddof=1"


def undrifted(spec, batch, weight_BT):
    """Weight and advantage of each token's gradient where the policy has not moved."""
    advantage_B1 = batch.advantage_B[:, None]
    return weight_BT, torch.where(advantage_B1 < 0, 1.05 * advantage_B1, advantage_B1)


def estimate(batch, *, eps, ddof):
    return batch.by_group(lambda R: (R - np.mean(R)) / (np.std(R, ddof=ddof) + eps))


def cost(row, batch, *, lam, beta, z_floor, low, high):
    """GRPO's for A >= 0; for A < 0 the ratio is lam r - beta mass / Z. Token mean."""
    ratio, a = np.exp(row.log_ratio), row.advantage
    push, pull = ratio, np.zeros(row.length)
    if a < 0:
        push = lam * ratio
        pull = beta * np.exp(row.anchor_logp) / np.maximum(np.exp(row.anchor_ref_logp), z_floor)
    rectified = push - pull
    free, clipped = rectified * a, np.clip(rectified, 1 - low, 1 + high) * a
    loss = -np.minimum(free, clipped).sum() / batch.tokens
    weight = np.where(free <= clipped, a, 0) / batch.tokens
    return loss, {"logp": -weight * push, "anchor_logp": weight * pull}


@pytest.mark.parametrize(
    "spec, lam, beta, z_floor, low, high, eps, ddof",
    [
        ("apo", 1.05, 0.1, 1e-6, 0.2, 0.2, 1e-6, 1),
        ("apo:lam=1.5,beta=0.02,z_floor=0.01", 1.5, 0.02, 0.01, 0.2, 0.2, 1e-6, 1),
        ("apo:clip_low=0.9,clip_high=0.4,eps=0.1,ddof=0", 1.05, 0.1, 1e-6, 0.9, 0.4, 0.1, 0),
        ("apo:beta=0,lam=1", 1, 0, 1e-6, 0.2, 0.2, 1e-6, 1),
    ],
)
def test_apo_is_its_equations(matches, spec, lam, beta, z_floor, low, high, eps, ddof):
    options = {"lam": lam, "beta": beta, "z_floor": z_floor, "low": low, "high": high}
    matches(
        spec,
        lambda batch: estimate(batch, eps=eps, ddof=ddof),
        lambda row, batch: cost(row, batch, **options),
    )


def test_the_four_corners_of_the_clip_far_from_the_anchor(gains):
    # lam r is 1.575 and 0.525; an empty anchor set pulls nothing.
    empty = {"anchor_logp": [-math.inf] * 4, "anchor_ref_logp": [-math.inf] * 4}
    gain = gains("apo", [1.5, 0.5, 1.5, 0.5], [1.0, 1.0, -1.0, -1.0], **empty)
    assert gain.value == pytest.approx((1.2 + 0.5 - 1.575 - 0.8) / 4, rel=1e-12)
    assert gain.slope == pytest.approx([0, 0.5 / 4, -1.575 / 4, 0], rel=1e-12)
    assert not gain.by["anchor_logp"].any()


@pytest.mark.parametrize("mass", [0.01, 0.4, 0.99])
def test_at_the_start_the_ratio_is_lam_less_beta(gains, mass):
    same = {"anchor_logp": [math.log(mass)], "anchor_ref_logp": [math.log(mass)]}
    gain = gains("apo", [1.0], [-2.0], **same)
    assert gain.value == pytest.approx(-2 * (1.05 - 0.1), rel=1e-12)
    assert gain.slope == pytest.approx([-2 * 1.05], rel=1e-12)
    assert gain.by["anchor_logp"] == pytest.approx([2 * 0.1], rel=1e-12)


def test_a_token_above_the_upper_bound_is_not_flat(gains):
    # Eq. 24 would make it so; eq. 23 governs.
    gain = gains("apo", [3.0], [-1.0], anchor_logp=[-2.0], anchor_ref_logp=[-2.0])
    assert gain.value == pytest.approx(-(3.15 - 0.1), rel=1e-12)
    assert gain.slope == pytest.approx([-3.15], rel=1e-12)


def test_a_token_on_policy_is_flat_once_the_anchor_ratio_exceeds_two_and_a_half(gains):
    log_ratios = np.log([2.4999, 2.5001, 1000.0])
    gain = gains(
        "apo", [1.0] * 3, [-1.0] * 3, anchor_logp=-5 + log_ratios, anchor_ref_logp=[-5.0] * 3
    )
    assert gain.value == pytest.approx(-(0.80001 + 0.8 + 0.8) / 3, rel=1e-12)
    assert gain.slope == pytest.approx([-1.05 / 3, 0, 0], rel=1e-12)
    assert gain.by["anchor_logp"] == pytest.approx([0.24999 / 3, 0, 0], rel=1e-12)


def test_the_floor_keeps_a_token_that_the_reference_is_sure_of_from_being_flat(gains):
    # Z = 1e-9 and mass 2e-6: r_anchor is 2 over the floor of 1e-6, 2000 over Z.
    masses = {"anchor_logp": [math.log(2e-6)], "anchor_ref_logp": [math.log(1e-9)]}
    floored, bare = (gains(s, [1.0], [-1.0], **masses) for s in ("apo", "apo:z_floor=1e-9"))
    assert floored.value == pytest.approx(-(1.05 - 0.2), rel=1e-9)
    assert floored.by["anchor_logp"] == pytest.approx([0.2], rel=1e-9)
    assert (bare.value, bare.slope.tolist()) == (pytest.approx(-0.8), [0])


def test_the_anchor_does_not_touch_completions_that_are_not_negative(gains):
    gain = gains("apo", [1.1, 1.1], [1.0, 0.0], anchor_logp=[-1.0, -1.0])
    assert gain.value == pytest.approx(1.1 / 2, rel=1e-12)
    assert gain.slope == pytest.approx([1.1 / 2, 0], rel=1e-12)
    assert not gain.by["anchor_logp"].any()
