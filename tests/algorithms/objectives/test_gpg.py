"""GPG from its equations (arXiv:2504.02546, eq. 5 and 8)."""

import numpy as np
import pytest

DEFAULTS = "gpg:alpha=mixed"


def ignores_shifts(spec):
    """Whether a constant added to all rewards changes no advantage; verl's alpha counts zeros."""
    return "alpha=nonzero" not in spec


def estimate(batch):
    """alpha (R - mean), alpha = B / (samples in groups whose rewards are not all equal)."""
    mixed = batch.by_group(lambda R: np.ones(len(R))).sum()
    return batch.by_group(lambda R: batch.sequences / mixed * (R - np.mean(R)))


def estimate_by_nonzero(batch):
    """alpha (R - mean), alpha = B / (samples whose reward is not 0), at least one."""
    nonzero = max(sum(reward != 0 for reward in batch.reward), 1)
    return batch.by_group(lambda R: batch.sequences / nonzero * (R - np.mean(R)))


def cost(row, batch):
    weight = row.advantage / batch.tokens
    return -weight * row.logp.sum(), np.full(row.length, -weight)


def test_gpg_is_its_equations(matches):
    matches("gpg", estimate, cost)


def test_gpg_with_verls_alpha_is_its_equations(matches):
    matches("gpg:alpha=nonzero", estimate_by_nonzero, cost)


def test_verls_alpha_counts_rewards_that_are_not_zero(advantages):
    # 12 samples, 5 of them with a reward: 12/5, where those of mixed groups give 3.
    rewards = [1, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0]
    values = advantages("gpg:alpha=nonzero", rewards, 4, 4, 4)["advantage"]
    assert values == pytest.approx([1.8, -0.6, -0.6, -0.6] + [0] * 8, rel=1e-12)
    assert advantages("gpg:alpha=nonzero", [1, 0], 2)["advantage"] == [1, -1]
    assert advantages("gpg:alpha=nonzero", [0, 0, 0], 3)["advantage"] == [0] * 3


def test_alpha_counts_the_samples_of_mixed_groups(advantages):
    # 12 samples, 4 of them in the one mixed group: alpha 3. By rewards that are not 0 it is 12/5.
    columns = advantages("gpg", [1, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0], 4, 4, 4)
    assert columns["advantage"] == pytest.approx([2.25, -0.75, -0.75, -0.75] + [0] * 8, rel=1e-12)


def test_a_batch_of_constant_groups_has_advantage_zero(advantages):
    assert advantages("gpg", [1, 1, 0, 0, 0], 2, 3)["advantage"] == [0] * 5


def test_there_is_no_ratio_and_no_clip(gains):
    gain = gains("gpg", [0.1, 9.0, 0.1, 9.0], [1.0, 1.0, -2.0, -2.0], logp=[-3.0, -1, -2, -5])
    assert gain.value == pytest.approx((-3 - 1 + 4 + 10) / 4, rel=1e-12)
    assert gain.slope == pytest.approx([1 / 4, 1 / 4, -2 / 4, -2 / 4], rel=1e-12)
