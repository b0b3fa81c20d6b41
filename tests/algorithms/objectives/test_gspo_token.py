"""GSPO-token from its equations (arXiv:2507.18071, eq. 13 and 14)."""

import math

import numpy as np
import pytest

DEFAULTS = "gspo-token:clip_low=0.0003,clip_high=0.0004,eps=1e-06,ddof=1"
WIDE = "clip_low=0.2,clip_high=0.3"


def estimate(batch, *, eps, ddof):
    return batch.by_group(lambda R: (R - np.mean(R)) / (np.std(R, ddof=ddof) + eps))


def cost(row, batch, *, low, high, factor=lambda row: 1.0):
    """Each token's ratio has the value of the completion's and a gradient of its own."""
    s, a = np.exp(np.mean(row.log_ratio)), row.advantage
    free, clipped = s * a, np.clip(s, 1 - low, 1 + high) * a
    weight = factor(row) * np.ones(row.length) / (batch.sequences * row.length)
    return -np.sum(weight) * min(free, clipped), -weight * (free if free <= clipped else 0.0)


@pytest.mark.parametrize(
    "spec, low, high, eps, ddof",
    [
        ("gspo-token", 3e-4, 4e-4, 1e-6, 1),
        ("gspo-token:clip_low=0.2,clip_high=0.3,eps=0.1,ddof=0", 0.2, 0.3, 0.1, 0),
    ],
)
def test_gspo_token_is_its_equations(matches, spec, low, high, eps, ddof):
    matches(
        spec,
        lambda batch: estimate(batch, eps=eps, ddof=ddof),
        lambda row, batch: cost(row, batch, low=low, high=high),
    )


def truncated(row):
    return np.minimum(np.exp(row.old_logp - row.behaviour_logp), 2)


def test_a_weight_of_tokens_stays_with_its_token(matches):
    matches(
        f"gspo-token:{WIDE}+is-correction:kind=tis",
        lambda batch: estimate(batch, eps=1e-6, ddof=1),
        lambda row, batch: cost(row, batch, low=0.2, high=0.3, factor=truncated),
    )


RATIOS = [[1.5, 0.9, 1.0], [0.7, 0.7, 0.6], [1.2, 0.9, 1.1], [0.99, 1.02, 1.0]]
ADVANTAGES = [1.0, -2.0, 0.5, -0.3]


def test_it_is_gspo_where_all_tokens_weigh_the_same(gains):
    made, gspo = (gains(f"{name}:{WIDE}", RATIOS, ADVANTAGES) for name in ("gspo-token", "gspo"))
    assert made.value == pytest.approx(gspo.value, rel=1e-12)
    assert made.slope == pytest.approx(gspo.slope, rel=1e-12)


def test_with_a_weight_of_tokens_gspo_averages_and_gspo_token_does_not(gains):
    behaviour = -1 - np.log(RATIOS) - np.log([[2.0, 1.0, 0.5]])  # w of 2, 1 and 1/2
    specs = (f"{name}:{WIDE}+is-correction" for name in ("gspo-token", "gspo"))
    made, gspo = (gains(s, RATIOS, ADVANTAGES, behaviour_logp=behaviour) for s in specs)
    assert made.slope[2] / made.slope[2][1] == pytest.approx([2, 1, 0.5], rel=1e-12)
    assert gspo.slope[2] == pytest.approx([made.slope[2].mean()] * 3, rel=1e-12)


def test_the_four_corners_of_the_clip(gains):
    low, high = math.log(0.9996), math.log(1.0005)
    ratios = np.exp([[2 * high, 0], [2 * low, 0], [2 * high, 0], [2 * low, 0]])
    gain = gains("gspo-token", ratios, [1.0, 1.0, -1.0, -1.0])
    assert gain.value == pytest.approx((1.0004 + 0.9996 - 1.0005 - 0.9997) / 4, abs=1e-15)
    expected = np.array([[0, 0], [0.9996 / 8] * 2, [-1.0005 / 8] * 2, [0, 0]])
    assert gain.slope == pytest.approx(expected, rel=1e-12)
