"""Drops by the gap between sampler and trainer (a geometric mask, verl's k1, k2 and k3)."""

import math

import numpy as np
import pytest
import torch

from rlvr_cli.algorithms import objective
from rlvr_cli.errors import UsageError

DEFAULTS = "reject:by=k3,over=mean,above=0.01,below=0.0"


def estimate(batch):
    return batch.by_group(lambda R: (R - np.mean(R)) / (np.std(R, ddof=1) + 1e-6))


def kept(row, *, by, over, above, below=None):
    """1 where a token counts, from w_t = exp(old_logp - behaviour_logp)."""
    w = np.exp(row.old_logp - row.behaviour_logp)
    gaps = {"k1": np.log(w), "k2": np.log(w) ** 2 / 2, "k3": w - 1 - np.log(w)}[by]
    below = above if below is None else below
    each = [gaps.mean()] if over == "mean" else [gaps.sum()] if over == "sum" else gaps
    inside = np.array([-below <= gap <= above for gap in each])
    if over == "token":
        return inside.astype(float)
    return np.full(row.length, float(inside.all()))


def token_cost(row, batch, *, cap=None, beta=0.0, **options):
    """GRPO's gain where it is kept, beside a penalty that is not dropped; `cap` is of TIS."""
    ratio, a, x = np.exp(row.log_ratio), row.advantage, row.logp - row.ref_logp
    free, clipped = ratio * a, np.clip(ratio, 0.8, 1.2) * a
    gain, slope = np.minimum(free, clipped), np.where(free <= clipped, free, 0)
    share = 1 / (batch.sequences * row.length)
    keep = kept(row, **options)
    if cap is not None:
        keep = keep * np.minimum(np.exp(row.old_logp - row.behaviour_logp), cap)
    return share * np.sum(-keep * gain + beta * x**2 / 2), share * (-keep * slope + beta * x)


CASES = [
    ("reject", {"by": "k3", "over": "mean", "above": 0.01}),
    # The geometric mean of the weights, from 0.98 to 1.01.
    (
        f"reject:by=k1,above={math.log(1.01)!r},below={-math.log(0.98)!r}",
        {"by": "k1", "over": "mean", "above": math.log(1.01), "below": -math.log(0.98)},
    ),
    *(
        (f"reject:by={by},over={over},above={above}", {"by": by, "over": over, "above": above})
        for by, over, above in (
            ("k1", "token", 0.05),
            ("k2", "sum", 0.6),
            ("k3", "max", 0.2),
        )
    ),
]


@pytest.mark.parametrize("spec, options", CASES)
def test_reject_is_its_equation(matches, spec, options):
    matches(f"grpo+{spec}", estimate, lambda row, batch: token_cost(row, batch, **options))


@pytest.mark.parametrize(
    "modifiers",
    ["is-correction+reject:by=k1,above=0.02", "reject:by=k1,above=0.02+is-correction"],
)
def test_a_geometric_mask_goes_with_token_weights_in_either_order(matches, modifiers):
    options = {"by": "k1", "over": "mean", "above": 0.02, "cap": 2.0, "beta": 0.3}
    spec = f"grpo+{modifiers}+kl:beta=0.3,estimator=k2"
    matches(spec, estimate, lambda row, batch: token_cost(row, batch, **options))


def test_the_bounds_of_a_geometric_mask_are_those_of_the_weight_and_not_of_its_inverse(gains):
    # Geometric means 1.02, 1.005, 1 / 1.005 and 1 / 1.02; the bounds are from 0.985 to 1.01.
    logs = np.log([1.02, 1.005, 1 / 1.005, 1 / 1.02])
    spec = f"gpg+reject:by=k1,above={math.log(1.01)!r},below={-math.log(0.985)!r}"
    gain = gains(spec, [1.0] * 4, [1.0] * 4, behaviour_logp=-1 - logs)
    assert gain.slope == pytest.approx([0, 1 / 4, 1 / 4, 0], rel=1e-12)


def test_what_is_dropped_stays_in_the_denominators_and_is_counted():
    old_BT = torch.zeros(2, 2, dtype=torch.float64, requires_grad=True)
    batch = objective.TokenBatch(
        logp_BT=old_BT,
        old_logp_BT=old_BT.detach(),
        mask_BT=torch.tensor([[True, True], [True, False]]),
        advantage_B=torch.ones(2, dtype=torch.float64),
        entropy_BT=torch.zeros(2, 2),
        behaviour_logp_BT=torch.tensor([[1.0, 0.0], [0.1, 9.0]], dtype=torch.float64),
    )
    algo = objective.build("gpg+reject:by=k1,over=max,above=0.5")
    result = objective.loss(algo, batch, objective.Totals(tokens=3, sequences=2, max_length=2))
    result.value.backward()
    assert old_BT.grad.tolist() == [[0, 0], [-1 / 3, 0]]
    metrics = objective.token_metrics(algo, batch, result)
    assert (metrics["rejected"], metrics["rejected_among"]) == (2, 3)


@pytest.mark.parametrize(
    "spec, message",
    [
        ("above=0", "above must be above 0"),
        ("above=inf", "finite"),
        ("by=k1,below=-1", "below must be at 0 or above"),
        ("by=k1,below=inf", "finite"),
        ("below=0.1", "below is for k1"),
        ("by=k2,below=0.1", "below is for k1"),
    ],
)
def test_bounds_without_a_meaning_are_refused(spec, message):
    with pytest.raises(UsageError, match=message):
        objective.build(f"grpo+reject:{spec}")
