"""PSR from its equations (arXiv:2506.01347, eq. 3)."""

import numpy as np
import pytest

DEFAULTS = "psr:clip_low=0.2,clip_high=0.2"


def estimate(batch):
    """+1 on correct completions, no baseline; the others leave the batch and its counts."""
    return {"advantage": np.full(batch.sequences, 1.0), "keep": batch.correct}


def cost(row, batch, *, low, high):
    ratio, a = np.exp(row.log_ratio), row.advantage
    free, clipped = ratio * a, np.clip(ratio, 1 - low, 1 + high) * a
    gain = np.minimum(free, clipped)
    return -gain.sum() / batch.tokens, -np.where(free <= clipped, free, 0) / batch.tokens


@pytest.mark.parametrize(
    "spec, low, high", [("psr", 0.2, 0.2), ("psr:clip_low=0.05,clip_high=0.6", 0.05, 0.6)]
)
def test_psr_is_its_equations(matches, spec, low, high):
    matches(spec, estimate, lambda row, batch: cost(row, batch, low=low, high=high))


def test_what_the_verifier_said_decides_and_not_the_reward(advantages):
    columns = advantages("psr", [1, 1, 0, 0], correct=[True, False, True, False])
    assert columns["keep"] == [True, False, True, False]


def test_an_all_correct_group_trains(advantages):
    columns = advantages("psr", [1, 1, 0, 0], 2, 2)
    assert (columns["advantage"][:2], columns["keep"]) == ([1, 1], [True, True, False, False])


def test_the_two_corners_of_the_clip(gains):
    gain = gains("psr", [1.5, 0.5], [1.0, 1.0])
    assert gain.value == pytest.approx((1.2 + 0.5) / 2, rel=1e-12)
    assert gain.slope == pytest.approx([0, 0.5 / 2], rel=1e-12)
