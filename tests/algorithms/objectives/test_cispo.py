"""CISPO from its equations (MiniMax-M1, arXiv:2506.13585, eq. 4)."""

import numpy as np
import pytest

from rlvr_cli.algorithms import objective
from rlvr_cli.errors import UsageError

DEFAULTS = "cispo:cap=5.0,floor=0.0,eps=1e-06,ddof=1"


def estimate(batch, *, eps, ddof):
    return batch.by_group(lambda R: (R - np.mean(R)) / (np.std(R, ddof=ddof) + eps))


def cost(row, batch, *, cap, floor):
    """sg(clip(r, floor, cap)) A log pi; no token is dropped."""
    factor = np.clip(np.exp(row.log_ratio), floor, cap) * row.advantage / batch.tokens
    return -np.sum(factor * row.logp), -factor


@pytest.mark.parametrize(
    "spec, cap, floor, eps, ddof",
    [
        ("cispo", 5, 0, 1e-6, 1),
        ("cispo:cap=1.2,eps=0.1,ddof=0", 1.2, 0, 0.1, 0),
        ("cispo:cap=1.2,floor=0.8", 1.2, 0.8, 1e-6, 1),
    ],
)
def test_cispo_is_its_equations(matches, spec, cap, floor, eps, ddof):
    matches(
        spec,
        lambda batch: estimate(batch, eps=eps, ddof=ddof),
        lambda row, batch: cost(row, batch, cap=cap, floor=floor),
    )


def test_a_token_beyond_the_cap_keeps_a_gradient_whatever_the_sign(gains):
    gain = gains("cispo", [9.0, 0.1, 9.0, 0.1], [1.0, 1.0, -1.0, -1.0], logp=[-1.0, -2, -3, -4])
    assert gain.value == pytest.approx((-5 - 0.2 + 15 + 0.4) / 4, rel=1e-12)
    assert gain.slope == pytest.approx([5 / 4, 0.1 / 4, -5 / 4, -0.1 / 4], rel=1e-12)


def test_a_ratio_below_the_floor_weighs_as_much_as_the_floor(gains):
    gain = gains("cispo:cap=1.2,floor=0.8", [0.1, 0.9, 9.0], [1.0, -1.0, 1.0], logp=[-1.0, -2, -3])
    assert gain.slope == pytest.approx([0.8 / 3, -0.9 / 3, 1.2 / 3], rel=1e-12)


@pytest.mark.parametrize("options", ["floor=-0.1", "floor=6", "cap=1,floor=1.1"])
def test_a_floor_outside_0_and_the_cap_is_refused(options):
    with pytest.raises(UsageError, match="floor within 0 and cap"):
        objective.build(f"cispo:{options}")


def test_a_floor_may_meet_the_cap():
    objective.build("cispo:cap=1,floor=1")
