"""NSR from its equations (arXiv:2506.01347, eq. 4)."""

import numpy as np
import pytest

DEFAULTS = "nsr:clip_low=0.2,clip_high=0.2"


def estimate(batch):
    """-1 on wrong completions, no baseline; the others leave the batch and its counts."""
    return {"advantage": np.full(batch.sequences, -1.0), "keep": ~batch.correct}


def cost(row, batch, *, low, high):
    ratio, a = np.exp(row.log_ratio), row.advantage
    free, clipped = ratio * a, np.clip(ratio, 1 - low, 1 + high) * a
    gain = np.minimum(free, clipped)
    return -gain.sum() / batch.tokens, -np.where(free <= clipped, free, 0) / batch.tokens


@pytest.mark.parametrize(
    "spec, low, high", [("nsr", 0.2, 0.2), ("nsr:clip_low=0.05,clip_high=0.6", 0.05, 0.6)]
)
def test_nsr_is_its_equations(matches, spec, low, high):
    matches(spec, estimate, lambda row, batch: cost(row, batch, low=low, high=high))


def test_what_the_verifier_said_decides_and_not_the_reward(advantages):
    columns = advantages("nsr", [1, 1, 0, 0], correct=[True, False, True, False])
    assert columns["keep"] == [False, True, False, True]


def test_an_all_wrong_group_trains_and_under_negative_only_it_does_not(advantages, gains):
    wrong = [0, 0, 0]
    assert advantages("nsr", wrong)["advantage"] == [-1, -1, -1]
    assert all(advantages("nsr", wrong)["keep"])
    assert gains("nsr", [1.0, 1.0, 1.0], [-1.0, -1.0, -1.0]).slope == pytest.approx([-1 / 3] * 3)
    relative = advantages("grpo+negative-only", wrong)["advantage"]
    assert relative == [0, 0, 0]
    assert not gains("grpo+negative-only", [1.0, 1.0, 1.0], relative).slope.any()


def test_the_two_corners_of_the_clip(gains):
    gain = gains("nsr", [1.5, 0.5], [-1.0, -1.0])
    assert gain.value == pytest.approx((-1.5 - 0.8) / 2, rel=1e-12)
    assert gain.slope == pytest.approx([-1.5 / 2, 0], rel=1e-12)
