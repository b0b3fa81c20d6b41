"""SAPO from its equations (arXiv:2511.20347, eq. 5 and 6)."""

import numpy as np
import pytest
from scipy.special import expit

from rlvr_cli.algorithms import objective
from rlvr_cli.errors import UsageError

DEFAULTS = "sapo:tau_pos=1.0,tau_neg=1.05,eps=1e-06,ddof=1"


def estimate(batch, *, eps, ddof):
    return batch.by_group(lambda R: (R - np.mean(R)) / (np.std(R, ddof=ddof) + eps))


def cost(row, batch, *, pos, neg):
    """A times 4 / tau sigmoid(tau (r - 1)), sequence mean."""
    ratio, a = np.exp(row.log_ratio), row.advantage
    tau = pos if a > 0 else neg
    x = tau * (ratio - 1)
    weight = a / (batch.sequences * row.length)
    return -weight * np.sum(4 / tau * expit(x)), -weight * 4 * expit(x) * expit(-x) * ratio


@pytest.mark.parametrize(
    "spec, pos, neg, eps, ddof",
    [
        ("sapo", 1, 1.05, 1e-6, 1),
        ("sapo:tau_pos=0.3,tau_neg=4", 0.3, 4, 1e-6, 1),
        ("sapo:eps=0.1,ddof=0", 1, 1.05, 0.1, 0),
    ],
)
def test_sapo_is_its_equations(matches, spec, pos, neg, eps, ddof):
    matches(
        spec,
        lambda batch: estimate(batch, eps=eps, ddof=ddof),
        lambda row, batch: cost(row, batch, pos=pos, neg=neg),
    )


def test_no_token_is_without_a_gradient_and_each_has_less_the_further_it_has_moved(gains):
    ratios = [0.5, 0.8, 1.0, 1.25, 2.0, 4.0]
    for advantage in (1.0, -1.0):
        slope = gains("sapo", ratios, [advantage] * 6).slope * 6 * advantage
        share = slope / ratios  # of the gradient without a gate
        assert bool((slope > 0).all()) and share[2] == pytest.approx(1, rel=1e-12)
        assert share[0] < share[1] < share[2] > share[3] > share[4] > share[5]


def test_errors_lose_gradient_sooner_than_successes(gains):
    slope = gains("sapo", [1.5, 1.5], [1.0, -1.0]).slope
    assert 0 < -slope[1] < slope[0]


@pytest.mark.parametrize("option", ["tau_pos=0", "tau_neg=-1", "tau_pos=inf"])
def test_a_temperature_that_is_none_is_refused(option):
    with pytest.raises(UsageError, match="tau"):
        objective.build(f"sapo:{option}")


@pytest.mark.parametrize("option", ["tau_pos=0.01", "tau_neg=0.01"])
def test_a_temperature_just_above_0_is_built(option):
    objective.build(f"sapo:{option}")
