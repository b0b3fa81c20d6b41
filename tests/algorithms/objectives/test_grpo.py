"""GRPO from its equations (arXiv:2402.03300, eq. 3)."""

import numpy as np
import pytest

DEFAULTS = "grpo:clip_low=0.2,clip_high=0.2,eps=1e-06,ddof=1,aggregation=seq-mean-token-mean"


def estimate(batch, *, eps, ddof):
    return batch.by_group(lambda R: (R - np.mean(R)) / (np.std(R, ddof=ddof) + eps))


def cost(row, batch, *, low, high, aggregation):
    weight = {
        "seq-mean-token-mean": 1 / (batch.sequences * row.length),
        "seq-mean-token-sum": 1 / batch.sequences,
        "token-mean": 1 / batch.tokens,
        "constant": 1 / (batch.sequences * batch.max_length),
    }[aggregation]
    ratio, a = np.exp(row.log_ratio), row.advantage
    free, clipped = ratio * a, np.clip(ratio, 1 - low, 1 + high) * a
    gain = np.minimum(free, clipped)
    return -weight * gain.sum(), -weight * np.where(free <= clipped, free, 0)


@pytest.mark.parametrize(
    "spec, low, high, eps, ddof, aggregation",
    [
        ("grpo", 0.2, 0.2, 1e-6, 1, "seq-mean-token-mean"),
        ("grpo:clip_low=0.1,clip_high=0.4", 0.1, 0.4, 1e-6, 1, "seq-mean-token-mean"),
        ("grpo:eps=0.01,ddof=0,aggregation=token-mean", 0.2, 0.2, 0.01, 0, "token-mean"),
        ("grpo:aggregation=seq-mean-token-sum", 0.2, 0.2, 1e-6, 1, "seq-mean-token-sum"),
        ("grpo:aggregation=constant", 0.2, 0.2, 1e-6, 1, "constant"),
    ],
)
def test_grpo_is_its_equations(matches, spec, low, high, eps, ddof, aggregation):
    matches(
        spec,
        lambda batch: estimate(batch, eps=eps, ddof=ddof),
        lambda row, batch: cost(row, batch, low=low, high=high, aggregation=aggregation),
    )


def test_the_four_corners_of_the_clip(gains):
    gain = gains("grpo", [1.5, 0.5, 1.5, 0.5], [1.0, 1.0, -1.0, -1.0])
    assert gain.value == pytest.approx((1.2 + 0.5 - 1.5 - 0.8) / 4, rel=1e-12)
    assert gain.slope == pytest.approx([0, 0.5 / 4, -1.5 / 4, 0], rel=1e-12)


def test_one_right_of_four_is_one_and_a_half_deviations_up(advantages):
    columns = advantages("grpo:eps=1e-15", [1, 0, 0, 0])
    assert columns["advantage"] == pytest.approx([1.5, -0.5, -0.5, -0.5], rel=1e-12)


def test_a_constant_reward_of_three_tenths_is_no_signal(advantages):
    assert advantages("grpo:eps=1e-9", [0.3] * 6)["advantage"] == [0] * 6
