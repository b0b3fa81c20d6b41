"""CISPO from its equations (MiniMax-M1, arXiv:2506.13585, eq. 4)."""

import numpy as np
import pytest

DEFAULTS = "cispo:cap=5.0,eps=1e-06,ddof=1"


def estimate(batch, *, eps, ddof):
    return batch.by_group(lambda R: (R - np.mean(R)) / (np.std(R, ddof=ddof) + eps))


def cost(row, batch, *, cap):
    """sg(min(r, cap)) A log pi; no token is dropped."""
    factor = np.minimum(np.exp(row.log_ratio), cap) * row.advantage / batch.tokens
    return -np.sum(factor * row.logp), -factor


@pytest.mark.parametrize(
    "spec, cap, eps, ddof",
    [("cispo", 5, 1e-6, 1), ("cispo:cap=1.2,eps=0.1,ddof=0", 1.2, 0.1, 0)],
)
def test_cispo_is_its_equations(matches, spec, cap, eps, ddof):
    matches(
        spec,
        lambda batch: estimate(batch, eps=eps, ddof=ddof),
        lambda row, batch: cost(row, batch, cap=cap),
    )


def test_a_token_beyond_the_cap_keeps_a_gradient_whatever_the_sign(gains):
    gain = gains("cispo", [9.0, 0.1, 9.0, 0.1], [1.0, 1.0, -1.0, -1.0], logp=[-1.0, -2, -3, -4])
    assert gain.value == pytest.approx((-5 - 0.2 + 15 + 0.4) / 4, rel=1e-12)
    assert gain.slope == pytest.approx([5 / 4, 0.1 / 4, -5 / 4, -0.1 / 4], rel=1e-12)
