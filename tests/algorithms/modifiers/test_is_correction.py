"""Corrects for the gap between the engine's and the trainer's log-probs (TIS, IcePop)."""

import math

import numpy as np
import pytest
import torch

from rlvr_cli.algorithms import objective

DEFAULTS = "is-correction:kind=tis,cap=2.0"


def estimate(batch):
    return batch.by_group(lambda R: (R - np.mean(R)) / (np.std(R, ddof=1) + 1e-6))


def factors(row, kind, cap):
    """The constant weight of each token, from w_t = exp(old_logp - behaviour_logp)."""
    w = np.exp(row.old_logp - row.behaviour_logp)
    if kind == "tis":
        return np.minimum(w, cap)
    if kind == "icepop":
        return np.where((w >= 1 / cap) & (w <= cap), w, 0)
    product = np.prod(w)
    return np.full(row.length, product if product <= cap else 0)


def token_cost(row, batch, *, kind, cap, c=math.inf, beta=0.0):
    """GRPO's gain, its dual clip first, times the weight; beta k2 is not weighted."""
    ratio, a, x = np.exp(row.log_ratio), row.advantage, row.logp - row.ref_logp
    free, clipped = ratio * a, np.clip(ratio, 0.8, 1.2) * a
    gain, slope = np.minimum(free, clipped), np.where(free <= clipped, free, 0)
    if a < 0:
        gain, slope = np.maximum(gain, c * a), np.where(gain >= c * a, slope, 0)
    w, share = factors(row, kind, cap), 1 / (batch.sequences * row.length)
    return share * np.sum(-w * gain + beta * x**2 / 2), share * (-w * slope + beta * x)


@pytest.mark.parametrize(
    "spec, options",
    [
        ("grpo+is-correction", {"kind": "tis", "cap": 2}),
        ("grpo+is-correction:cap=1.1", {"kind": "tis", "cap": 1.1}),
        ("grpo+is-correction:kind=icepop", {"kind": "icepop", "cap": 2}),
        ("grpo+is-correction:kind=icepop,cap=5", {"kind": "icepop", "cap": 5}),
        ("grpo+is-correction:kind=sequence-mask", {"kind": "sequence-mask", "cap": 2}),
        (
            "grpo+is-correction:cap=3+dual-clip:c=2+kl:beta=0.3,estimator=k2",
            {"kind": "tis", "cap": 3, "c": 2, "beta": 0.3},
        ),
    ],
)
def test_is_correction_is_its_equation(matches, spec, options):
    matches(spec, estimate, lambda row, batch: token_cost(row, batch, **options))


def sequence_cost(row, batch, *, kind):
    """GSPO: the gain of a completion stands at each token, and each has its weight."""
    s, a = np.exp(np.mean(row.log_ratio)), row.advantage
    free, clipped = s * a, np.clip(s, 1 - 3e-4, 1 + 4e-4) * a
    w = np.mean(factors(row, kind, 2)) / batch.sequences
    slope = free / row.length if free <= clipped else 0.0
    return -w * min(free, clipped), np.full(row.length, -w * slope)


@pytest.mark.parametrize("kind", ["tis", "icepop", "sequence-mask"])
def test_the_gain_of_a_completion_has_the_mean_weight_of_its_tokens(matches, kind):
    spec = f"gspo+is-correction:kind={kind}"
    matches(spec, estimate, lambda row, batch: sequence_cost(row, batch, kind=kind))


@pytest.mark.parametrize(
    "kind, expected",
    [
        ("tis", [2, 2, 1.5, 0.4, 0.5]),
        ("icepop", [0, 2, 1.5, 0, 0.5]),
        ("sequence-mask", [0, 2, 1.5, 0.4, 0.5]),
    ],
)
def test_the_weights_within_and_beyond_the_cap(gains, kind, expected):
    # Weights as near to the cap and its inverse as doubles are, on the side that counts.
    logs = np.log([2.5, 2 - 1e-12, 1.5, 0.4, 0.5 + 1e-12])
    gain = gains(
        f"gpg+is-correction:kind={kind}",
        [1.0] * 5,
        [1.0] * 5,
        behaviour_logp=-1 - logs,
    )
    assert gain.slope == pytest.approx([w / 5 for w in expected], rel=1e-9)


def test_a_masked_completion_stays_in_the_denominators(gains):
    # Products 4/3 and 4: the second is masked at both tokens.
    logs = np.log([[2, 2 / 3], [2, 2]])
    gain = gains(
        "grpo+is-correction:kind=sequence-mask",
        [[1.0, 1.0], [1.0, 1.0]],
        [1.0, 1.0],
        behaviour_logp=-1 - logs,
    )
    assert gain.slope == pytest.approx(np.array([[1 / 3, 1 / 3], [0, 0]]), rel=1e-12)


@pytest.mark.parametrize("kind, cut", [("tis", 1), ("icepop", 2), ("sequence-mask", 0)])
def test_the_share_of_tokens_whose_weight_is_cut_is_counted(kind, cut):
    old_BT = torch.tensor([[3.0, 1.0, 0.3]], dtype=torch.float64).log()
    batch = objective.TokenBatch(
        logp_BT=old_BT,
        old_logp_BT=old_BT,
        mask_BT=torch.ones(1, 3, dtype=torch.bool),
        advantage_B=torch.ones(1),
        entropy_BT=torch.zeros(1, 3),
        behaviour_logp_BT=torch.zeros(1, 3, dtype=torch.float64),
    )
    algo = objective.build(f"grpo+is-correction:kind={kind},cap=2")
    result = objective.loss(algo, batch, objective.Totals(tokens=3, sequences=1, max_length=3))
    metrics = objective.token_metrics(algo, batch, result)
    assert (metrics["correction_cut"], metrics["correction_cut_among"]) == (cut, 3)
