"""Inverse-success calibration (When Sharpening Becomes Collapse, sec. 3.1)."""

import numpy as np
import pytest

DEFAULTS = "iac:alpha=1.0"


def refuses(objective):
    """Whether it says of an objective that they do not go together."""
    return objective.sign < 0 or "advantage" in dict(objective.token_columns)


def group_norm(batch):
    return batch.by_group(lambda R: (R - np.mean(R)) / (np.std(R, ddof=1) + 1e-6))


def right_or_wrong(batch):
    return np.where(batch.correct, 0.1, -1.0)


def estimate(batch, *, alpha, base):
    """A > 0 times (G - |S+|)^alpha, |S+| of the G samples have A > 0, 0^0 = 1."""
    advantage = base(batch)
    result = advantage.copy()
    for i, group in enumerate(batch.group):
        members = advantage[batch.group == group]
        if advantage[i] > 0:
            result[i] *= float(len(members) - np.sum(members > 0)) ** alpha
    return result


def cost(row, batch, *, weight):
    ratio, a = np.exp(row.log_ratio), row.advantage
    free, clipped = ratio * a, np.clip(ratio, 0.8, 1.2) * a
    gain, slope = np.minimum(free, clipped), np.where(free <= clipped, free, 0)
    return -weight(row, batch) * gain.sum(), -weight(row, batch) * slope


def sequence_mean(row, batch):
    return 1 / (batch.sequences * row.length)


def token_mean(row, batch):
    return 1 / batch.tokens


@pytest.mark.parametrize(
    "spec, alpha, base, weight",
    [
        ("grpo+iac", 1, group_norm, sequence_mean),
        ("grpo+iac:alpha=0.5", 0.5, group_norm, sequence_mean),
        ("w-reinforce+iac:alpha=2", 2, right_or_wrong, token_mean),
        ("w-reinforce+iac:alpha=0", 0, right_or_wrong, token_mean),
        ("reinforce+iac:alpha=1", 1, lambda batch: batch.reward, token_mean),
    ],
)
def test_iac_is_its_equation(matches, spec, alpha, base, weight):
    matches(
        spec,
        lambda batch: estimate(batch, alpha=alpha, base=base),
        lambda row, batch: cost(row, batch, weight=weight),
    )


def test_one_success_of_eight_counts_seven_times_and_failures_as_before(advantages):
    reward = [1] + [0] * 7
    plain, result = (advantages(s, reward)["advantage"] for s in ("grpo", "grpo+iac"))
    assert result == pytest.approx([7 * plain[0], *plain[1:]], rel=1e-12)


def test_every_group_counts_its_own_successes(advantages):
    values = advantages("dr-grpo+iac", [1, 0, 0, 0, 1, 1, 1, 0], 4, 4)["advantage"]
    assert values == pytest.approx([2.25] + [-0.25] * 3 + [0.25] * 3 + [-0.75], rel=1e-12)


def test_a_zero_is_neither_a_success_nor_changed(advantages):
    values = advantages("dr-grpo+iac", [1, 0.5, 0])["advantage"]
    assert values == pytest.approx([1.0, 0, -0.5], abs=1e-12)


@pytest.mark.parametrize("alpha, expected", [(0, 0.1), (1, 0.0)])
def test_zero_to_the_zero_is_one(advantages, alpha, expected):
    values = advantages(f"w-reinforce+iac:alpha={alpha}", [1, 1, 1])["advantage"]
    assert values == pytest.approx([expected] * 3, rel=1e-12)
