"""GRPO-N and GSPO-N (arXiv:2510.04028, B.5)."""

import numpy as np
import pytest

from rlvr_cli.algorithms import objective
from rlvr_cli.errors import UsageError

DEFAULTS = "negative-only"


def refuses(objective):
    """Whether it says of an objective that they do not go together."""
    return objective.sign != 0


def trained(batch):
    """The tokens that get a gradient from the surrogate."""
    return batch.mask_BT & (batch.advantage_BT < 0)


def estimate(batch):
    return batch.by_group(lambda R: (R - np.mean(R)) / (np.std(R, ddof=1) + 1e-6))


def grpo_cost(row, batch, *, beta=0.0):
    """GRPO's gain where A < 0, and beta k2 everywhere, over the denominators of the whole batch."""
    weight = 1 / (batch.sequences * row.length)
    ratio, a, x = np.exp(row.log_ratio), row.advantage, row.logp - row.ref_logp
    free, clipped = ratio * a, np.clip(ratio, 0.8, 1.2) * a
    counts = 1.0 if a < 0 else 0.0
    loss = -counts * np.minimum(free, clipped) + beta * x**2 / 2
    return weight * loss.sum(), weight * (-counts * np.where(free <= clipped, free, 0) + beta * x)


def gspo_cost(row, batch):
    s, a = np.exp(np.mean(row.log_ratio)), row.advantage
    counts = (a < 0) / batch.sequences
    free, clipped = s * a, np.clip(s, 1 - 3e-4, 1 + 4e-4) * a
    slope = free / row.length if free <= clipped else 0.0
    return -counts * min(free, clipped), np.full(row.length, -counts * slope)


@pytest.mark.parametrize(
    "spec, cost",
    [
        ("grpo+negative-only", grpo_cost),
        ("gspo+negative-only", gspo_cost),
        (
            "grpo+negative-only+kl:beta=0.3,estimator=k2",
            lambda row, batch: grpo_cost(row, batch, beta=0.3),
        ),
        (
            "grpo+kl:beta=0.3,estimator=k2+negative-only",
            lambda row, batch: grpo_cost(row, batch, beta=0.3),
        ),
    ],
)
def test_negative_only_is_its_equation(matches, spec, cost):
    matches(spec, estimate, cost)


def test_positive_completions_stay_in_the_denominators(gains):
    gain = gains("grpo+negative-only", [1.0, 1.0, 1.0, 1.0], [1.5, -0.5, -0.5, -0.5])
    assert gain.value == pytest.approx(-1.5 / 4, rel=1e-12)
    assert gain.slope == pytest.approx([0, -0.5 / 4, -0.5 / 4, -0.5 / 4], rel=1e-12)


def test_an_all_wrong_group_gives_nothing(advantages):
    assert advantages("grpo+negative-only", [0, 0, 0, 0])["advantage"] == [0] * 4


@pytest.mark.parametrize("base, kept", [("psr", "above"), ("nsr", "below")])
def test_an_objective_of_one_sign_is_refused_by_that_sign(base, kept):
    with pytest.raises(UsageError, match=f"only has advantages {kept} 0"):
        objective.build(f"{base}+negative-only")
