"""APO's anchor on other objectives (Anchored Policy Optimization, eq. 8, 9 and 23)."""

import math

import numpy as np
import pytest

from rlvr_cli.errors import UserError

DEFAULTS = "anchor:k=8,lam=1.05,beta=0.1,z_floor=1e-06"


def refuses(objective):
    """Whether it says of an objective that they do not go together."""
    has_numbers = objective.clip and all(isinstance(bound, float) for bound in objective.clip)
    has_anchor = "anchor_flat" in dict(objective.shares)
    has_flat_clip = has_numbers and not objective.preserves_clipped
    return objective.ratio != "token" or not has_flat_clip or objective.sign > 0 or has_anchor


def group_norm(batch):
    return batch.by_group(lambda R: (R - np.mean(R)) / (np.std(R, ddof=1) + 1e-6))


def group_mean(batch):
    return batch.by_group(lambda R: R - np.mean(R))


def wrong_only(batch):
    return {"advantage": np.full(batch.sequences, -1.0), "keep": ~batch.correct}


DEFAULT = {"lam": 1.05, "beta": 0.1, "z_floor": 1e-6, "low": 0.2, "high": 0.2, "c": math.inf}


def cost(row, batch, weight, *, lam, beta, z_floor, low, high, c):
    """For A < 0 the ratio is lam r - beta mass / Z, in the objective's own clip and dual clip."""
    ratio, a = np.exp(row.log_ratio), row.advantage
    push, pull = ratio, np.zeros(row.length)
    if a < 0:
        push = lam * ratio
        pull = beta * np.exp(row.anchor_logp) / np.maximum(np.exp(row.anchor_ref_logp), z_floor)
    free, clipped = (push - pull) * a, np.clip(push - pull, 1 - low, 1 + high) * a
    gain, slope = np.minimum(free, clipped), np.where(free <= clipped, a, 0)
    if a < 0:
        gain, slope = np.maximum(gain, c * a), np.where(gain >= c * a, slope, 0)
    w = weight(row, batch)
    return -w * gain.sum(), {"logp": -w * slope * push, "anchor_logp": w * slope * pull}


def sequence_mean(row, batch):
    return 1 / (batch.sequences * row.length)


def token_mean(row, batch):
    return 1 / batch.tokens


def constant(row, batch):
    return 1 / (batch.sequences * batch.max_length)


@pytest.mark.parametrize(
    "spec, estimate, weight, change",
    [
        ("dapo+anchor", group_norm, token_mean, {"high": 0.28, "c": 10}),
        ("grpo+anchor:lam=1.5,beta=0.02", group_norm, sequence_mean, {"lam": 1.5, "beta": 0.02}),
        (
            "dr-grpo:clip_low=0.5,clip_high=0.1+anchor:z_floor=0.01",
            group_mean,
            constant,
            {"low": 0.5, "high": 0.1, "z_floor": 0.01},
        ),
        ("nsr:clip_low=0.2+anchor", wrong_only, token_mean, {}),
        ("grpo+anchor:k=4+dual-clip:c=1.5", group_norm, sequence_mean, {"c": 1.5}),
        ("grpo+dual-clip:c=1.5+anchor", group_norm, sequence_mean, {"c": 1.5}),
    ],
)
def test_the_anchor_is_its_equation(matches, spec, estimate, weight, change):
    options = DEFAULT | change
    matches(spec, estimate, lambda row, batch: cost(row, batch, weight, **options))


def test_apo_is_grpo_in_the_mean_of_tokens_with_an_anchor(gains):
    masses = {"anchor_logp": [-1.0, -2, -3, -1], "anchor_ref_logp": [-1.5, -1, -3, -2]}
    ratios, advantages = [1.5, 0.7, 1.1, 1.3], [1.0, -1.0, -2.0, -0.5]
    specs = ("apo", "grpo:aggregation=token-mean+anchor")
    one, other = (gains(spec, ratios, advantages, **masses) for spec in specs)
    assert one.value == other.value
    for leaf in ("logp", "anchor_logp"):
        assert one.by[leaf] == pytest.approx(other.by[leaf], rel=1e-15)


def test_the_four_corners_of_the_clip(gains):
    # At an anchor ratio of 1: 1.05 r - 0.1 is 1.475 and 0.425 for A < 0.
    gain = gains("grpo+anchor", [1.5, 0.5, 1.5, 0.5], [1.0, 1.0, -1.0, -1.0])
    assert gain.value == pytest.approx((1.2 + 0.5 - 1.475 - 0.8) / 4, rel=1e-12)
    assert gain.slope == pytest.approx([0, 0.5 / 4, -1.575 / 4, 0], rel=1e-12)
    assert gain.by["anchor_logp"] == pytest.approx([0, 0, 0.1 / 4, 0], rel=1e-12)


@pytest.mark.parametrize("base", ["gspo", "gmpo", "gpg", "cispo", "quatro"])
def test_an_objective_without_a_clipped_token_ratio_is_refused(gains, base):
    with pytest.raises(UserError, match="anchor"):
        gains(f"{base}+anchor", [1.0], [-1.0])
