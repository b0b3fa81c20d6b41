import numpy as np
import pytest

from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.evaluation import power
from rlvr_cli.evaluation.metrics import intervals
from rlvr_cli.evaluation.tallies import Tally


def tally(n: list[int], correct: list[int]) -> Tally:
    names, nothing = [f"p{i}" for i in range(len(n))], np.zeros(len(n), dtype=int)
    return Tally(names, np.array(n), np.array(correct), nothing, None, [])


def rates(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Pass rates from 0.1 to 0.7, of variance 0.03."""
    return 0.1 + 0.6 * rng.random(shape)


def share_shown(
    difference: float, n: int, correlation: float, prompts: int, draws: int = 600
) -> float:
    """How many of paired comparisons of two runs have an interval above 0."""
    rng, shape = np.random.default_rng(0), (prompts, draws)
    first = rates(rng, shape)
    second = np.where(rng.random(shape) < correlation, first, rates(rng, shape)) + difference
    a, b = (rng.binomial(n, rate) / n for rate in (first, second))
    return float(np.mean(intervals.of_differences(["pass@1"] * draws, b, a).low_M > 0))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("difference", "n", "correlation"),
    [(0.2, 1, 1.0), (0.1, 4, 0.8), (0.05, 16, 0.8), (0.05, 4, 0.5), (0.05, 64, 1.0)],
)
def test_the_prompts_that_are_named_show_the_difference_80_times_in_100(difference, n, correlation):
    rng = np.random.default_rng(1)
    right = rng.binomial(16, rates(rng, (100_000, 1)))[:, 0]
    variance = power.spread(tally([16] * 100_000, right.tolist())).of_difference(n, correlation)
    prompts = power.prompts_needed(difference, variance)
    assert 0.75 < share_shown(difference, n, correlation, prompts) < 0.9
    assert share_shown(difference, n, correlation, prompts // 2) < 0.65
    shown = power.smallest_shown(variance, prompts)
    assert difference * 0.95 < shown <= difference + 1e-5


def test_both_variances_are_found_without_bias():
    rng = np.random.default_rng(0)
    rate = rates(rng, (200_000, 1))[:, 0]
    for n in (2, 8):
        found = power.spread(tally([n] * len(rate), rng.binomial(n, rate).tolist()))
        assert found.between == pytest.approx(0.03, rel=0.03)
        assert found.within == pytest.approx(np.mean(rate * (1 - rate)), rel=0.02)


def test_many_prompts_need_no_more_than_the_usual_formula_says():
    variance = 0.3
    usual = (1.95996 + 0.84162) ** 2 * variance / 0.01**2
    assert power.prompts_needed(0.01, variance) == pytest.approx(usual, rel=0.03)


def test_without_any_variance_the_worst_unseen_prompt_still_counts():
    assert power.prompts_needed(0.1, 0.0) == pytest.approx(3.7 / 0.1, rel=0.2)
    assert power.smallest_shown(0.0, 3) is None


@pytest.mark.parametrize(("n", "correct"), [([4], [2]), ([1, 4], [1, 2]), ([1, 1], [0, 1])])
def test_one_prompt_or_one_completion_tells_no_variance(n, correct):
    with pytest.raises(DataError, match="two prompts or more, and two completions or more"):
        power.of_tally(tally(n, correct), 0.1)


@pytest.mark.parametrize("difference", [0.0, -0.1, 2.0, float("nan")])
def test_a_difference_that_cannot_be_is_refused(difference):
    with pytest.raises(UsageError, match="a difference of Pass@1 is between 0 and 1"):
        power.of_tally(tally([4, 4], [2, 3]), difference)
