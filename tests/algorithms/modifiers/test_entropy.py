"""The bonus on the policy's token entropy (in arXiv:2510.04028, C.2)."""

import numpy as np
import pytest

DEFAULTS = "entropy:coef=0.0001"


def estimate(batch):
    return batch.by_group(lambda R: R - np.mean(R))


def cost(row, batch, *, coef):
    """Dr. GRPO less coef H at each token, each of the weight 1 / (sequences L_max)."""
    ratio, a, weight = np.exp(row.log_ratio), row.advantage, 1 / batch.sequences / batch.max_length
    free, clipped = ratio * a, np.clip(ratio, 0.8, 1.2) * a
    loss = -np.minimum(free, clipped) - coef * row.entropy
    by_logp = -weight * np.where(free <= clipped, free, 0)
    by_entropy = np.full(row.length, -weight * coef)
    return weight * loss.sum(), {"logp": by_logp, "entropy": by_entropy}


@pytest.mark.parametrize(
    "spec, coef", [("dr-grpo+entropy", 1e-4), ("dr-grpo+entropy:coef=0.5", 0.5)]
)
def test_the_entropy_bonus_is_its_equation(matches, spec, coef):
    matches(spec, estimate, lambda row, batch: cost(row, batch, coef=coef))


def gpg_cost(row, batch):
    """GPG's log-likelihood and the bonus, token mean."""
    weight = 1 / batch.tokens
    loss = -weight * np.sum(row.advantage * row.logp + 0.5 * row.entropy)
    flat = np.full(row.length, -weight)
    return loss, {"logp": flat * row.advantage, "entropy": flat * 0.5}


def gpg_estimate(batch):
    mixed = batch.by_group(lambda R: np.ones(len(R))).sum()
    return batch.by_group(lambda R: batch.sequences / mixed * (R - np.mean(R)))


def test_the_bonus_has_the_weights_of_its_objective(matches):
    matches("gpg+entropy:coef=0.5", gpg_estimate, gpg_cost)


def test_a_nat_of_entropy_is_worth_the_coefficient(gains):
    gain = gains("grpo+entropy:coef=0.1", [1.0, 1.0], [1.0, -1.0], entropy=[3.0, 0.5])
    assert gain.value == pytest.approx(0.1 * 3.5 / 2, rel=1e-12)
    assert gain.by["entropy"] == pytest.approx([0.05, 0.05], rel=1e-12)
