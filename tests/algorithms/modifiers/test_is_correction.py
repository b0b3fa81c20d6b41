"""Corrects for the gap between the engine's and the trainer's log-probs (TIS, IcePop)."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from rlvr_cli.algorithms import objective
from rlvr_cli.errors import UsageError

DEFAULTS = "is-correction:kind=tis,cap=2.0,low=0.0,normalize=false"


def refuses(objective):
    """Whether it says of an objective that they do not go together."""
    return objective.against == "behaviour"


def estimate(batch):
    return batch.by_group(lambda R: (R - np.mean(R)) / (np.std(R, ddof=1) + 1e-6))


def factors(row, kind, cap, low=0.0):
    """The constant weight of each token, from w_t = exp(old_logp - behaviour_logp)."""
    w = np.exp(row.old_logp - row.behaviour_logp)
    if kind == "tis":
        return np.maximum(np.minimum(w, cap), low)
    if kind == "icepop":
        return np.where((w >= (low if low else 1 / cap)) & (w <= cap), w, 0)
    product = np.prod(w)
    if kind == "sequence-tis":
        return np.full(row.length, max(min(product, cap), low))
    return np.full(row.length, product if low <= product <= cap else 0)


def mean_factor(batch, kind, cap, low):
    """Of the batch's tokens, or of its completions; 1 where all are 0."""
    each = [factors(row, kind, cap, low) for row in batch.rows]
    is_sequence = kind.startswith("sequence")
    mean = np.mean([w[0] for w in each] if is_sequence else np.concatenate(each))
    return mean if mean else 1.0


def token_cost(row, batch, *, kind, cap=2, low=0.0, normalize=False, c=math.inf, beta=0.0):
    """GRPO's gain, its dual clip first, times the weight; beta k2 is not weighted."""
    ratio, a, x = np.exp(row.log_ratio), row.advantage, row.logp - row.ref_logp
    free, clipped = ratio * a, np.clip(ratio, 0.8, 1.2) * a
    gain, slope = np.minimum(free, clipped), np.where(free <= clipped, free, 0)
    if a < 0:
        gain, slope = np.maximum(gain, c * a), np.where(gain >= c * a, slope, 0)
    w, share = factors(row, kind, cap, low), 1 / (batch.sequences * row.length)
    w = w / mean_factor(batch, kind, cap, low) if normalize else w
    return share * np.sum(-w * gain + beta * x**2 / 2), share * (-w * slope + beta * x)


@pytest.mark.parametrize(
    "spec, options",
    [
        ("grpo+is-correction", {"kind": "tis", "cap": 2}),
        ("grpo+is-correction:cap=1.1", {"kind": "tis", "cap": 1.1}),
        ("grpo+is-correction:kind=icepop", {"kind": "icepop", "cap": 2}),
        ("grpo+is-correction:kind=icepop,cap=5", {"kind": "icepop", "cap": 5}),
        ("grpo+is-correction:kind=sequence-mask", {"kind": "sequence-mask", "cap": 2}),
        ("grpo+is-correction:kind=sequence-tis,cap=3", {"kind": "sequence-tis", "cap": 3}),
        ("grpo+is-correction:kind=sequence-mask,low=0.7", {"kind": "sequence-mask", "low": 0.7}),
        *(
            (
                f"grpo+is-correction:kind={kind},low={low},normalize=true",
                {"kind": kind, "low": low, "normalize": True},
            )
            for kind, low in (
                ("tis", 0.7),
                ("icepop", 0.7),
                ("sequence-tis", 0.7),
                ("sequence-mask", 0),
            )
        ),
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


@pytest.mark.parametrize("kind", ["tis", "icepop", "sequence-tis", "sequence-mask"])
def test_the_gain_of_a_completion_has_the_mean_weight_of_its_tokens(matches, kind):
    spec = f"gspo+is-correction:kind={kind}"
    matches(spec, estimate, lambda row, batch: sequence_cost(row, batch, kind=kind))


@pytest.mark.parametrize(
    "kind, expected",
    [
        ("tis", [2, 2, 1.5, 0.4, 0.5]),
        ("icepop", [0, 2, 1.5, 0, 0.5]),
        ("sequence-tis", [2, 2, 1.5, 0.4, 0.5]),
        ("sequence-mask", [0, 2, 1.5, 0.4, 0.5]),
        ("tis,low=0.45", [2, 2, 1.5, 0.45, 0.5]),
        ("icepop,low=0.3", [0, 2, 1.5, 0.4, 0.5]),
        ("sequence-tis,low=0.45", [2, 2, 1.5, 0.45, 0.5]),
        ("sequence-mask,low=0.45", [0, 2, 1.5, 0, 0.5]),
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


def test_normalised_weights_that_are_all_alike_change_nothing():
    goal = objective.build("grpo+is-correction:normalize=true")
    ((name, number),) = goal.batch_columns
    old_BT = torch.tensor([[-1.0, -2.0, -3.0], [-0.5, 9.0, 9.0]], dtype=torch.float64)
    mask_BT = torch.tensor([[True, True, True], [True, False, False]])
    batch = objective.TokenBatch(
        logp_BT=old_BT,
        old_logp_BT=old_BT,
        mask_BT=mask_BT,
        advantage_B=torch.tensor([1.0, -0.5], dtype=torch.float64),
        entropy_BT=torch.zeros(2, 3),
        behaviour_logp_BT=old_BT - math.log(1.5),
    )
    assert number(batch) == pytest.approx(1.5, rel=1e-12)
    numbered = replace(batch, columns={name: torch.full((2,), number(batch))})
    totals = objective.Totals(tokens=4, sequences=2, max_length=3)
    plain = objective.loss(objective.build("grpo"), batch, totals)
    assert float(objective.loss(goal, numbered, totals).value) == pytest.approx(float(plain.value))


@pytest.mark.parametrize(
    "spec, message",
    [
        ("cap=0.5", "cap must be at least 1"),
        ("cap=inf", "finite"),
        ("low=1.5", "low must be from 0 to 1"),
        ("low=-0.1", "low must be from 0 to 1"),
    ],
)
def test_bounds_that_would_cut_a_weight_of_one_are_refused(spec, message):
    with pytest.raises(UsageError, match=message):
        objective.build(f"grpo+is-correction:{spec}")
    objective.build("grpo+is-correction:cap=1,low=1")


@pytest.mark.parametrize(
    "kind, cut",
    [("tis", 1), ("icepop", 2), ("sequence-tis", 0), ("sequence-mask", 0), ("tis,low=0.5", 2)],
)
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


@pytest.mark.parametrize(
    "kind, lost",
    [("tis", 1), ("tis,low=0.01", 0), ("icepop", 3), ("icepop,cap=4", 2), ("sequence-tis", 3)],
)
def test_the_share_of_tokens_that_weigh_next_to_nothing_is_counted(kind, lost):
    """Weights 3, 1/8 and 1/150, of product 1/400; where masked nothing is counted."""
    old_BT = torch.tensor([[3.0, 0.125, 1 / 150, 1e-9]], dtype=torch.float64).log()
    batch = objective.TokenBatch(
        logp_BT=old_BT,
        old_logp_BT=old_BT,
        mask_BT=torch.tensor([[True, True, True, False]]),
        advantage_B=torch.ones(1),
        entropy_BT=torch.zeros(1, 4),
        behaviour_logp_BT=torch.zeros(1, 4, dtype=torch.float64),
    )
    algo = objective.build(f"gpg+is-correction:kind={kind}")
    result = objective.loss(algo, batch, objective.Totals(tokens=3, sequences=1, max_length=4))
    metrics = objective.token_metrics(algo, batch, result)
    assert (metrics["correction_lost"], metrics["correction_lost_among"]) == (lost, 3)


def test_what_an_earlier_version_stored_has_no_lower_bound_and_is_not_normalised():
    made_by = "grpo+is-correction:kind=tis,cap=2.0"
    whole = "+is-correction:kind=tis,cap=2.0,low=0.0,normalize=false"
    assert objective.canonical(made_by, made_by).endswith(whole)
