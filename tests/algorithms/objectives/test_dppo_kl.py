"""DPPO with the binary KL divergence from its equations (arXiv:2602.04879, eq. 14)."""

import numpy as np
import pytest

from rlvr_cli.algorithms import objective
from rlvr_cli.errors import UsageError

DEFAULTS = "dppo-kl:low=0.05,high=0.05,aggregation=constant"


def estimate(batch):
    return batch.by_group(lambda R: R - np.mean(R))


def divergence(p, q):
    p, q = np.minimum(p, 1), np.minimum(q, 1)  # chance makes log-probs above 0 here
    with np.errstate(invalid="ignore", divide="ignore"):
        rest = (1 - q) * np.log((1 - q) / (1 - p))
    return q * np.log(q / p) + np.where(q == 1, 0, rest)


def cost(row, batch, *, low, high, weight):
    """r A of the tokens that are not both beyond the region and pushed on."""
    p, q, a = np.exp(row.logp), np.exp(row.old_logp), row.advantage
    moved = divergence(p, q)
    is_out = (p > q) & (moved > high) if a > 0 else (p < q) & (moved > low)
    gain = np.where(is_out, 0, p / q * a) * weight(row, batch)
    return -gain.sum(), -gain


def constant(row, batch):
    return 1 / (batch.sequences * batch.max_length)


def token_mean(row, batch):
    return 1 / batch.tokens


@pytest.mark.parametrize(
    "spec, low, high, weight",
    [
        ("dppo-kl", 0.05, 0.05, constant),
        ("dppo-kl:low=0.02,high=0.3,aggregation=token-mean", 0.02, 0.3, token_mean),
    ],
)
def test_dppo_is_its_equations(matches, spec, low, high, weight):
    matches(spec, estimate, lambda row, batch: cost(row, batch, low=low, high=high, weight=weight))


def slopes(gains, p, q, advantage):
    """What is left of the gradients at these probabilities, of one token a completion each."""
    p, q = np.array(p), np.array(q)
    made = gains("dppo-kl:aggregation=token-mean", p / q, [advantage] * len(p), logp=np.log(p))
    return made.slope * len(p)


def test_the_same_step_weighs_more_where_a_token_is_rare(gains):
    # 0.1 in probability: 0.0201 nats from a half, 0.0646 from a hundredth.
    assert slopes(gains, [0.6, 0.11], [0.5, 0.01], 1.0) == pytest.approx([1.2, 0], rel=1e-9)


def test_a_token_that_comes_back_keeps_its_gradient(gains):
    p, q = [0.9, 0.2, 0.6, 0.5], [0.6, 0.5, 0.5, 0.6]
    assert slopes(gains, p, q, 1.0) == pytest.approx([0, 0.4, 1.2, 5 / 6], rel=1e-9)
    assert slopes(gains, p, q, -1.0) == pytest.approx([-1.5, 0, -1.2, -5 / 6], rel=1e-9)


def test_a_policy_that_is_sure_has_left_the_region_unless_the_old_one_was_sure_too(gains):
    made = gains("dppo-kl", [1.25, 1.0], [1.0, 1.0], logp=[0.0, 0.0], max_length=1)
    assert made.slope == pytest.approx([0, 0.5], rel=1e-9)


@pytest.mark.parametrize("option", ["low=-0.1", "high=-1"])
def test_a_region_that_is_none_is_refused(option):
    with pytest.raises(UsageError, match="low and high"):
        objective.build(f"dppo-kl:{option}")


def test_a_region_without_extent_is_built():
    objective.build("dppo-kl:low=0,high=0")
