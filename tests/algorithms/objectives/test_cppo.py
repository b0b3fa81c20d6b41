"""CPPO from Algorithm 1 and its equations (arXiv:2606.10968, eq. 8 to 11 and 22)."""

import math

import numpy as np
import pytest

from rlvr_cli.algorithms import objective
from rlvr_cli.errors import UsageError

DEFAULTS = "cppo:delta=0.15,delta_b=0.02,growth=2.0,w_min=0.8,aggregation=constant,eps=1e-06,ddof=1"


def estimate(batch, *, eps=1e-6, ddof=1):
    return batch.by_group(lambda R: (R - np.mean(R)) / (np.std(R, ddof=ddof) + eps))


def is_kept(p, q, advantage, *, delta, least, most, w_min):
    """Algorithm 1, token after token."""
    kept, spent, weights = [], 0.0, 0.0
    budget = min(max(np.quantile(abs(p - q), 0.9), least), most)
    for t in range(len(p)):
        w = 1 - (1 - w_min) * t / (len(p) - 1) if len(p) > 1 else 1.0
        z = w * abs(p[t] - q[t])
        limit = min(delta, delta + budget * weights - spent)
        kept.append(advantage * (p[t] / q[t] - 1) <= 0 or z <= limit)
        spent, weights = spent + z, weights + w
    return np.array(kept)


def cost(row, batch, *, weight, **region):
    p, q = np.exp(row.logp), np.exp(row.old_logp)
    kept = is_kept(p, q, row.advantage, **region)
    gain = kept * p / q * row.advantage * weight(row, batch)
    return -gain.sum(), -gain


def constant(row, batch):
    return 1 / (batch.sequences * batch.max_length)


def token_mean(row, batch):
    return 1 / batch.tokens


REGION = {"delta": 0.15, "least": 0.02, "most": 0.04, "w_min": 0.8}


@pytest.mark.parametrize(
    "spec, weight, change",
    [
        ("cppo", constant, {}),
        ("cppo:delta=0.05,delta_b=0.005,w_min=0.3", constant,
         {"delta": 0.05, "least": 0.005, "most": 0.01, "w_min": 0.3}),
        ("cppo:delta_b=0.015,growth=1,aggregation=token-mean", token_mean,
         {"least": 0.015, "most": 0.015}),
        ("cppo:delta_b=0.01,growth=20", constant, {"least": 0.01, "most": 0.2}),
    ],
)  # fmt: skip
def test_cppo_is_its_algorithm(matches, spec, weight, change):
    region = REGION | change
    matches(spec, estimate, lambda row, batch: cost(row, batch, weight=weight, **region))


def test_its_advantage_is_that_of_grpo(matches):
    matches(
        "cppo:eps=0.1,ddof=0",
        lambda batch: estimate(batch, eps=0.1, ddof=0),
        lambda row, batch: cost(row, batch, weight=constant, **REGION),
    )


def kept(gains, spec, p, q, advantage=1.0):
    """Which tokens of one completion keep a gradient."""
    p, q = np.array([p]), np.array([q])
    slope = gains(spec, p / q, [advantage], logp=np.log(p)).slope
    return (slope.ravel() != 0).tolist()


def test_what_is_too_far_at_the_beginning_is_not_at_the_end(gains):
    p, q = [0.6, 0.5, 0.5, 0.6], [0.5, 0.5, 0.5, 0.5]
    spec = "cppo:delta=0.09,delta_b=1"
    assert kept(gains, spec, p, q) == [False, True, True, True]  # 0.09 / 0.8 is 0.1125


def test_a_drifted_prefix_leaves_less_to_those_after_it(gains):
    spec = "cppo:delta=0.2,delta_b=0.01,growth=1,w_min=1"
    drifted, still = [0.65, 0.65, 0.55, 0.5, 0.45], [0.5, 0.5, 0.55, 0.5, 0.45]
    q = [0.5] * 5
    assert kept(gains, spec, still, q) == [True] * 5
    assert kept(gains, spec, drifted, q) == [True, False, False, True, True]
    assert kept(gains, spec, drifted, q, -1.0) == [True, True, True, True, False]


def test_a_completion_that_drifts_as_a_whole_has_the_larger_budget(gains):
    p, q = [0.55] * 20, [0.5] * 20
    one, two = (f"cppo:delta=0.155,growth={growth},w_min=1" for growth in (1, 2))
    # Each token spends 0.05, and adds 0.02 or 0.04; what is left is delta at first.
    assert kept(gains, one, p, q).index(False) == 4  # 0.155 - 4 * 0.03 is 0.035
    assert kept(gains, two, p, q).index(False) == 11  # 0.155 - 11 * 0.01 is 0.045


def test_without_weights_and_with_a_budget_that_never_binds_it_is_dppo(gains):
    rng = np.random.default_rng(0)
    p, q = rng.uniform(0.05, 0.95, (2, 5, 8))
    advantages = [1.0, -1.0, 0.5, -0.5, 2.0]
    made, dppo = (
        gains(spec, p / q, advantages, logp=np.log(p)).slope
        for spec in ("cppo:w_min=1,delta_b=1", "dppo-tv")
    )
    assert made == pytest.approx(dppo, rel=1e-12)
    assert 0 < np.count_nonzero(made) < made.size


def test_a_completion_of_one_token_has_the_whole_of_delta(gains):
    assert kept(gains, "cppo:delta=0.13", [0.625], [0.5]) == [True]
    assert kept(gains, "cppo:delta=0.12", [0.625], [0.5]) == [False]


@pytest.mark.parametrize(
    "option, said",
    [
        *[(f"{name}={value}", "delta and delta_b")
          for name in ("delta", "delta_b") for value in ("-0.1", "inf")],
        *[(f"growth={value}", "growth must be at least 1") for value in ("0.9", "inf")],
        *[(f"w_min={value}", "w_min must be above 0") for value in ("0", "1.1")],
    ],
)  # fmt: skip
def test_a_region_that_is_none_is_refused(option, said):
    with pytest.raises(UsageError, match=said):
        objective.build(f"cppo:{option}")


@pytest.mark.parametrize("options", ["delta=0,delta_b=0", "growth=1,w_min=1", "w_min=0.01"])
def test_a_region_at_its_edge_is_built(options):
    objective.build(f"cppo:{options}")


def test_a_budget_of_the_completions_own_percentile_is_between_two_ranks(gains):
    # Of D = 0, 0.01, 0.02, ..., the 90th percentile of 8 tokens is at rank 6.3: 0.063.
    q = np.full((1, 8), 0.5)
    p = q + np.arange(8) / 100
    spec = "cppo:delta=0.05,delta_b=0,w_min=1"
    assert math.isclose(np.quantile((p - q)[0], 0.9), 0.063)
    assert kept(gains, spec, p[0], q[0]) == [True] * 3 + [False] * 5
