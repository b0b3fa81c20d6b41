"""TOPR from its equations (arXiv:2503.14286, eq. 7 and 8, and sec. 4.3 on the baseline)."""

import numpy as np
import pytest

from rlvr_cli.algorithms import objective
from rlvr_cli.errors import UsageError

DEFAULTS = (
    "topr:ratio=sequence,advantage=signed,baseline=0.0,aggregation=seq-mean-token-mean,"
    "eps=1e-06,ddof=1"
)
RATIOS = {
    "sequence": lambda d: np.exp(np.sum(d)) * np.ones(len(d)),
    "length-normalized": lambda d: np.exp(np.mean(d)) * np.ones(len(d)),
    "token": np.exp,
}


def signed(baseline=0.0):
    """1 for what is correct and -1 for what is not, less a constant."""
    return lambda batch: np.where(batch.correct, 1.0, -1.0) - baseline


def group_norm(eps=1e-6, ddof=1):
    return lambda batch: batch.by_group(lambda R: (R - np.mean(R)) / (np.std(R, ddof=ddof) + eps))


def sequence_mean(row, batch):
    return 1 / (batch.sequences * row.length)


def token_mean(row, batch):
    return 1 / batch.tokens


def cost(row, batch, *, ratio="sequence", weight=sequence_mean):
    """A log pi, times the ratio within 0 and 1 for an error; the ratio has no gradient."""
    tapered = np.clip(RATIOS[ratio](row.log_ratio), 0, 1)
    factor = row.advantage * (tapered if row.advantage < 0 else np.ones(row.length))
    factor = factor * weight(row, batch)
    return -np.sum(factor * row.logp), -factor


@pytest.mark.parametrize(
    "spec, estimate, options",
    [
        ("topr", signed(), {}),
        ("topr:ratio=length-normalized", signed(), {"ratio": "length-normalized"}),
        ("topr:ratio=token", signed(), {"ratio": "token"}),
        ("topr:baseline=0.4", signed(0.4), {}),
        ("topr:baseline=-0.9", signed(-0.9), {}),
        ("topr:aggregation=token-mean", signed(), {"weight": token_mean}),
        ("topr:advantage=group-norm", group_norm(), {}),
        ("topr:advantage=group-norm,eps=0.1,ddof=0", group_norm(0.1, 0), {}),
    ],
)
def test_topr_is_its_equations(matches, spec, estimate, options):
    matches(spec, estimate, lambda row, batch: cost(row, batch, **options))


@pytest.mark.parametrize("ratio, weights", [
    ("sequence", [[0.5, 0.5], [1, 1]]),
    ("length-normalized", [[0.5**0.5] * 2, [1, 1]]),
    ("token", [[0.25, 1], [1, 0.5]]),
])  # fmt: skip
def test_an_error_weighs_its_ratio_and_one_at_most(gains, ratio, weights):
    slope = gains(f"topr:ratio={ratio}", [[0.25, 2], [4, 0.5]], [-1.0, -1.0]).slope
    assert -4 * slope == pytest.approx(np.array(weights), rel=1e-12)


@pytest.mark.parametrize("ratio", RATIOS)
def test_a_success_weighs_one_wherever_the_policy_is(gains, ratio):
    slope = gains(f"topr:ratio={ratio}", [[0.25, 0.5], [4, 2]], [2.0, 0.5]).slope
    assert 4 * slope == pytest.approx(np.array([[2, 2], [0.5, 0.5]]), rel=1e-12)


def test_an_error_that_the_policy_has_left_gives_next_to_nothing(gains):
    left = gains("topr", [[1e-4, 1e-4]], [-1.0]).slope
    assert 0 < -left.max() < 1e-8


def test_what_is_wrong_counts_minus_one_though_its_reward_is_zero(advantages):
    made = advantages("topr", [1, 0, 0.5, 0, 0], 3, 2, correct=[1, 0, 0, 0, 0])["advantage"]
    assert made == [1, -1, -1, -1, -1]


@pytest.mark.parametrize("baseline", [-0.5, 0.0, 0.3])
def test_the_baseline_sets_the_share_of_successes(advantages, baseline):
    """p (1 - c) / (1 + c (1 - 2 p)) of all that is learned is learned from successes."""
    made = np.array(advantages(f"topr:baseline={baseline}", [1, 0, 0, 0])["advantage"])
    share = made[made > 0].sum() / np.abs(made).sum()
    assert share == pytest.approx(0.25 * (1 - baseline) / (1 + baseline * 0.5), rel=1e-12)


@pytest.mark.parametrize("baseline", ["1", "-1", "1.5"])
def test_a_baseline_that_leaves_out_one_side_is_refused(baseline):
    with pytest.raises(UsageError, match="between -1 and 1; psr and nsr"):
        objective.build(f"topr:baseline={baseline}")


def test_a_second_baseline_is_refused():
    with pytest.raises(UsageError, match="leave baseline at 0"):
        objective.build("topr:advantage=group-norm,baseline=0.1")


def test_what_it_reads_and_over_what_its_ratio_spans():
    goals = {
        name: objective.build(f"topr:{name}")
        for name in ("ratio=sequence", "ratio=length-normalized", "ratio=token")
    }
    assert [goal.ratio for goal in goals.values()] == ["sequence", "sequence", "token"]
    assert objective.build("topr").needs == {"correct"}
    assert not objective.build("topr:advantage=group-norm").needs


def test_a_charge_in_the_reward_needs_advantages_of_rewards():
    with pytest.raises(UsageError, match="reads only verdicts"):
        objective.build("topr+overlong:buffer=4")
    objective.build("topr:advantage=group-norm+overlong:buffer=4")
