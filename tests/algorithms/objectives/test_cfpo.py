"""CFPO from its equation (arXiv:2601.22801)."""

import numpy as np
import pytest

from rlvr_cli.algorithms import objective
from rlvr_cli.errors import UsageError

DEFAULTS = "cfpo:width=0.2,aggregation=seq-mean-token-mean,eps=1e-06,ddof=1"


def estimate(batch, *, eps=1e-6, ddof=1):
    return batch.by_group(lambda R: (R - np.mean(R)) / (np.std(R, ddof=ddof) + eps))


def cost(row, batch, *, width=0.2, tokens=False):
    """r A less the square, which counts by how large the advantage is."""
    r, a = np.exp(row.log_ratio), row.advantage
    share = 1 / batch.tokens if tokens else 1 / (batch.sequences * row.length)
    gain = r * a - abs(a) / (2 * width) * (r - 1) ** 2
    return -share * gain, -share * (r * a - abs(a) / width * (r - 1) * r)


@pytest.mark.parametrize(
    "spec, of_estimate, of_cost",
    [
        ("cfpo", {}, {}),
        ("cfpo:width=0.5,aggregation=token-mean", {}, {"width": 0.5, "tokens": True}),
        ("cfpo:eps=0.1,ddof=0", {"eps": 0.1, "ddof": 0}, {}),
    ],
)
def test_cfpo_is_its_equation(matches, spec, of_estimate, of_cost):
    matches(
        spec,
        lambda batch: estimate(batch, **of_estimate),
        lambda row, batch: cost(row, batch, **of_cost),
    )


def test_a_token_rests_at_the_width_and_is_brought_back_from_beyond(gains):
    spec = "cfpo:width=0.25"
    up = gains(spec, [1.0, 1.25, 1.5, 0.5], [1.0] * 4).slope * 4
    assert up == pytest.approx([1, 0, -1.5, 1.5], abs=1e-12)  # 0.5: r (1 + 0.5 / 0.25)
    down = gains(spec, [1.0, 0.75, 0.5, 1.5], [-1.0] * 4).slope * 4
    assert down == pytest.approx([-1, 0, 0.5, -4.5], abs=1e-12)


def test_the_value_by_hand(gains):
    # 1.5 * 2 - 2 * 0.25 / 0.5 and 0.5 * -1 - 1 * 0.25 / 0.5, of two completions.
    value = gains("cfpo:width=0.25", [1.5, 0.5], [2.0, -1.0]).value
    assert value == pytest.approx((2 - 1) / 2, rel=1e-12)


@pytest.mark.parametrize("option", ["width=0", "width=-0.1", "width=inf"])
def test_a_width_that_is_none_is_refused(option):
    with pytest.raises(UsageError, match="width must be above 0"):
        objective.build(f"cfpo:{option}")
