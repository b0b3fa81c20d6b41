"""VESPO from its equation (arXiv:2602.10693, eq. 20)."""

import numpy as np
import pytest

from rlvr_cli.algorithms import objective
from rlvr_cli.errors import UsageError

DEFAULTS = "vespo:k_pos=2.0,lambda_pos=3.0,k_neg=3.0,lambda_neg=2.0,eps=1e-06,ddof=1"


def estimate(batch, *, eps, ddof):
    return batch.by_group(lambda R: (R - np.mean(R)) / (np.std(R, ddof=ddof) + eps))


def cost(row, batch, *, pos, neg):
    """The log-prob's gain times W^k exp(lambda (1 - W)), W of the whole completion; token mean."""
    w, a = np.exp(np.sum(row.log_ratio)), row.advantage
    k, rate = pos if a >= 0 else neg
    factor = w**k * np.exp(rate * (1 - w)) * a / batch.tokens
    return -factor * np.sum(row.logp), np.full(row.length, -factor)


@pytest.mark.parametrize(
    "spec, pos, neg, eps, ddof",
    [
        ("vespo", (2, 3), (3, 2), 1e-6, 1),
        ("vespo:k_pos=0.5,lambda_pos=0.1,k_neg=1,lambda_neg=0", (0.5, 0.1), (1, 0), 1e-6, 1),
        ("vespo:eps=0.1,ddof=0", (2, 3), (3, 2), 0.1, 0),
    ],
)
def test_vespo_is_its_equation(matches, spec, pos, neg, eps, ddof):
    matches(
        spec,
        lambda batch: estimate(batch, eps=eps, ddof=ddof),
        lambda row, batch: cost(row, batch, pos=pos, neg=neg),
    )


def weight(gains, w, advantage):
    """What scales the gradient of a completion of two tokens, whose ratio is w."""
    return gains("vespo", [[w, 1.0]], [advantage]).slope[0] / (advantage / 2)


@pytest.mark.parametrize("advantage, top", [(1.0, 2 / 3), (-1.0, 3 / 2)])
def test_the_weight_is_one_at_a_ratio_of_one_and_greatest_at_k_over_lambda(gains, advantage, top):
    assert weight(gains, 1.0, advantage) == pytest.approx([1, 1], rel=1e-12)
    most = weight(gains, top, advantage)[0]
    assert most > max(weight(gains, top * f, advantage)[0] for f in (0.5, 0.9, 1.1, 2))


def test_a_completion_far_from_what_sampled_has_no_gradient(gains):
    for w in (1e-6, 20.0):
        assert max(abs(weight(gains, w, 1.0)).max(), abs(weight(gains, w, -1.0)).max()) < 1e-10


@pytest.mark.parametrize("option", ["k_pos=-1", "lambda_pos=inf", "k_neg=-2", "lambda_neg=-0.1"])
def test_a_kernel_that_is_none_is_refused(option):
    with pytest.raises(UsageError, match="at 0 or above"):
        objective.build(f"vespo:{option}")


@pytest.mark.parametrize("option", ["k_pos=0", "lambda_pos=0", "k_neg=0", "lambda_neg=0"])
def test_a_kernel_at_its_edge_is_built(option):
    objective.build(f"vespo:{option}")
