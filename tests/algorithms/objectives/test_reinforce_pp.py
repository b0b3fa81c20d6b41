"""REINFORCE++ with baseline from its equations (arXiv:2501.03262)."""

import math

import numpy as np
import pytest

from rlvr_cli.algorithms import objective

DEFAULTS = "reinforce-pp:clip_low=0.2,clip_high=0.2,kl=1e-05,zero_equal=false"


def zeroes_equal(spec):
    """Whether a group of equal rewards has advantage 0, whatever else the batch holds."""
    return "zero_equal=true" in spec


def estimate(batch, zero_equal=False):
    """R minus the group's mean, whitened over all tokens of the batch, constant groups too."""
    centred = batch.by_group(lambda R: R - np.mean(R))
    tokens = np.concatenate([np.full(n, a) for a, n in zip(centred, batch.length, strict=True)])
    mean, variance = np.mean(tokens), max(np.var(tokens, ddof=0), 1e-8)
    whitened = (centred - mean) / np.sqrt(variance)
    if zero_equal:
        whitened[batch.by_group(lambda R: np.ones(len(R))) == 0] = 0
    alone = [np.sum(batch.group == group) == 1 for group in batch.group]
    return np.where(alone, 0, whitened)


def cost(row, batch, *, low, high, kl):
    """Clipped token ratio and k2 = x^2 / 2 of x = log pi - log pi_ref, token mean."""
    ratio, a = np.exp(row.log_ratio), row.advantage
    free, clipped = ratio * a, np.clip(ratio, 1 - low, 1 + high) * a
    x = row.logp - row.ref_logp
    loss = -np.minimum(free, clipped) + kl * x**2 / 2
    slope = -np.where(free <= clipped, free, 0) + kl * x
    return loss.sum() / batch.tokens, slope / batch.tokens


@pytest.mark.parametrize(
    "spec, low, high, kl",
    [
        ("reinforce-pp", 0.2, 0.2, 1e-5),
        ("reinforce-pp:clip_low=0.1,clip_high=0.4,kl=0.3", 0.1, 0.4, 0.3),
        ("reinforce-pp:kl=0", 0.2, 0.2, 0.0),
    ],
)
def test_reinforce_pp_is_its_equations(matches, spec, low, high, kl):
    matches(spec, estimate, lambda row, batch: cost(row, batch, low=low, high=high, kl=kl))


def test_with_zero_equal_the_same_but_for_groups_of_equal_rewards(matches):
    options = {"low": 0.2, "high": 0.2, "kl": 1e-5}
    matches(
        "reinforce-pp:zero_equal=true",
        lambda batch: estimate(batch, zero_equal=True),
        lambda row, batch: cost(row, batch, **options),
    )


def test_the_statistics_weigh_tokens_and_count_constant_groups(advantages):
    # Centred: 1/2, -1/2, 0, 0. Over 3, 1, 2, 2 tokens: mean 1/8, variance 1/8 - 1/64 = 7/64.
    root = math.sqrt(7)
    for spec, equal in [("reinforce-pp", -1 / root), ("reinforce-pp:zero_equal=true", 0)]:
        columns = advantages(spec, [1, 0, 1, 1], 2, 2, lengths=[3, 1, 2, 2])
        expected = [3 / root, -5 / root, equal, equal]
        assert columns["advantage"] == pytest.approx(expected, rel=1e-12, abs=0)


def test_the_advantages_of_all_tokens_sum_to_zero(advantages):
    """What whitening is for; forcing groups of equal rewards to 0 loses it."""
    lengths = np.array([3, 1, 2, 7, 5, 4])
    sums = {}
    for spec in ("reinforce-pp", "reinforce-pp:zero_equal=true"):
        values = advantages(spec, [1, 0, 1, 1, 0, 0], 2, 2, 2, lengths=lengths)["advantage"]
        sums[spec] = np.dot(lengths, values)
    assert sums["reinforce-pp"] == pytest.approx(0, abs=1e-12)
    # m = 1/22 and v = 1/22 - 1/22^2 = 21/22^2; 18 tokens of -m / sqrt(v) are left out.
    assert sums["reinforce-pp:zero_equal=true"] == pytest.approx(18 / math.sqrt(21), rel=1e-12)


def test_a_group_of_one_has_advantage_zero_and_counts_in_the_statistics(advantages):
    values = advantages("reinforce-pp", [1, 0, 1], 2, 1, lengths=[3, 1, 4])["advantage"]
    root = math.sqrt(7)
    assert values == pytest.approx([3 / root, -5 / root, 0], rel=1e-12)
    assert values[2] == 0


def test_what_an_earlier_version_stored_keeps_groups_of_equal_rewards_at_zero():
    made_by = "reinforce-pp:clip_low=0.2,clip_high=0.2,kl=1e-05"
    assert objective.canonical(made_by, made_by) == f"{made_by},zero_equal=true"
    assert objective.canonical("reinforce-pp", made_by) == f"{made_by},zero_equal=true"
    assert objective.canonical("reinforce-pp") == f"{made_by},zero_equal=false"


def test_the_variance_is_at_least_a_hundred_millionth(advantages):
    values = advantages("reinforce-pp", [0.5 + 2**-20, 0.5])["advantage"]
    assert values == pytest.approx([2**-21 * 1e4, -(2**-21) * 1e4], rel=1e-9)


def test_a_batch_of_constant_groups_has_advantage_zero(advantages):
    assert advantages("reinforce-pp", [0.3] * 5 + [1, 1], 5, 2)["advantage"] == [0] * 7


def test_the_four_corners_of_the_clip(gains):
    gain = gains("reinforce-pp:kl=0", [1.5, 0.5, 1.5, 0.5], [1.0, 1.0, -1.0, -1.0])
    assert gain.value == pytest.approx((1.2 + 0.5 - 1.5 - 0.8) / 4, rel=1e-12)
    assert gain.slope == pytest.approx([0, 0.5 / 4, -1.5 / 4, 0], rel=1e-12)
