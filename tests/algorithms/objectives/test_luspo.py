"""LUSPO from its equation (arXiv:2602.05261)."""

import numpy as np
import pytest

DEFAULTS = "luspo:clip_low=0.002,clip_high=0.0025,eps=1e-06,ddof=1"


def estimate(batch, *, eps, ddof):
    return batch.by_group(lambda R: (R - np.mean(R)) / (np.std(R, ddof=ddof) + eps))


def cost(row, batch, *, low, high):
    """GSPO's, times the length of the completion."""
    s, a = np.exp(np.mean(row.log_ratio)), row.advantage
    free, clipped = s * a, np.clip(s, 1 - low, 1 + high) * a
    slope = free if free <= clipped else 0.0
    loss = -row.length * min(free, clipped) / batch.sequences
    return loss, np.full(row.length, -slope / batch.sequences)


@pytest.mark.parametrize(
    "spec, low, high, eps, ddof",
    [
        ("luspo", 2e-3, 2.5e-3, 1e-6, 1),
        ("luspo:clip_low=0.2,clip_high=0.3,eps=0.1,ddof=0", 0.2, 0.3, 0.1, 0),
    ],
)
def test_luspo_is_its_equation(matches, spec, low, high, eps, ddof):
    matches(
        spec,
        lambda batch: estimate(batch, eps=eps, ddof=ddof),
        lambda row, batch: cost(row, batch, low=low, high=high),
    )


def test_the_gradient_is_that_of_gspo_times_the_length(gains):
    ratios, advantages = [[1.1, 1.0, 0.95], [0.9, 1.0, 1.05]], [1.0, -2.0]
    luspo, gspo = (
        gains(f"{name}:clip_low=0.2,clip_high=0.3", ratios, advantages)
        for name in ("luspo", "gspo")
    )
    assert luspo.value == pytest.approx(3 * gspo.value, rel=1e-12)
    assert luspo.slope == pytest.approx(3 * gspo.slope, rel=1e-12)
