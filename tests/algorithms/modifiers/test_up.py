"""UP on a clipped objective (arXiv:2607.06987; an author's page has the loss and its code)."""

import math

import numpy as np
import pytest

from rlvr_cli.algorithms import objective
from rlvr_cli.errors import UsageError

DEFAULTS = "up"


def refuses(objective):
    """Whether it says of an objective that they do not go together."""
    return objective.clip is None or objective.sign < 0


def estimate(batch):
    return batch.by_group(lambda R: (R - np.mean(R)) / (np.std(R, ddof=1) + 1e-6))


def cost(row, batch, *, weight, low=0.2, c=1e9):
    """-A log pi where A > 0, else PPO's clip, at least c A."""
    a, w = row.advantage, weight(row, batch)
    if a > 0:
        return -w * a * row.logp.sum(), np.full(row.length, -w * a)
    ratio = np.exp(row.log_ratio)
    gain = np.maximum(np.maximum(ratio, 1 - low) * a, c * a)
    slope = np.where((ratio >= 1 - low) & (ratio < c), ratio * a, 0)
    return -w * gain.sum(), -w * slope


def sequence_mean(row, batch):
    return 1 / (batch.sequences * row.length)


def token_mean(row, batch):
    return 1 / batch.tokens


@pytest.mark.parametrize(
    "spec, options",
    [
        ("grpo+up", {"weight": sequence_mean}),
        ("dapo+up", {"weight": token_mean, "c": 10}),
        (
            "grpo:clip_low=0.4,clip_high=0,aggregation=token-mean+up",
            {"weight": token_mean, "low": 0.4},
        ),
        ("grpo+up+dual-clip:c=1.5", {"weight": sequence_mean, "c": 1.5}),
        ("grpo+dual-clip:c=1.5+up", {"weight": sequence_mean, "c": 1.5}),
    ],
)
def test_up_is_its_equation(matches, spec, options):
    matches(spec, estimate, lambda row, batch: cost(row, batch, **options))


def gspo_cost(row, batch):
    """A mean log pi where A > 0, else GSPO's clip: eq. 16."""
    s, a = np.exp(np.mean(row.log_ratio)), row.advantage
    if a > 0:
        gain, slope = a * np.mean(row.logp), a / row.length
    else:
        gain = max(s, 1 - 3e-4) * a
        slope = s * a / row.length if s >= 1 - 3e-4 else 0.0
    return -gain / batch.sequences, np.full(row.length, -slope / batch.sequences)


def test_up_gspo_averages_the_log_probs_of_a_success(matches):
    matches("gspo+up", estimate, gspo_cost)


def test_a_success_pushes_alike_at_every_ratio_and_an_error_as_before(gains):
    ratios = [0.1, 1.0, 1.5, 50.0, 0.5, 1.5]
    gain = gains("grpo+up", ratios, [1.0, 2.0, 1.0, 1.0, -1.0, -1.0], logp=[-1.0] * 6)
    assert gain.value == pytest.approx((-1 - 2 - 1 - 1 - 0.8 - 1.5) / 6, rel=1e-12)
    assert gain.slope == pytest.approx(np.array([1, 2, 1, 1, 0, -1.5]) / 6, rel=1e-12)


def test_an_advantage_of_0_gives_nothing(gains):
    gain = gains("grpo+up", [0.5, 3.0], [0.0, 0.0])
    assert (gain.value, gain.slope.tolist()) == (0, [0, 0])


def test_the_anchor_is_on_errors_alone_in_either_order(gains):
    masses = {"anchor_logp": [-1.0, -2, -3, -1], "anchor_ref_logp": [-1.5, -1, -3, -2]}
    ratios, advantages = [1.5, 0.7, 1.1, 1.3], [1.0, -1.0, -2.0, -0.5]
    one, other = (gains(f"dapo+{two}", ratios, advantages, **masses)
                  for two in ("anchor+up", "up+anchor"))  # fmt: skip
    assert one.value == other.value and one.slope.tolist() == other.slope.tolist()
    assert one.slope[0] == 1 / 4


@pytest.mark.parametrize("spec", ["grpo+up+negative-only", "grpo+negative-only+up"])
def test_it_has_nothing_to_change_where_errors_alone_push(spec):
    with pytest.raises(UsageError, match="gains of A > 0") as caught:
        objective.build(spec)
    assert caught.value.hint == "leave one of the two out"


def test_its_upper_bound_is_none():
    assert objective.build("dapo:clip_low=0.1+up").clip == (0.1, math.inf)
