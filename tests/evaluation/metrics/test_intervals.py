import numpy as np
import pytest
from scipy import stats

from rlvr_cli.errors import DataError
from rlvr_cli.evaluation.metrics import intervals
from rlvr_cli.evaluation.metrics.intervals import of_differences, of_means


def test_each_metric_has_the_interval_that_holds_for_it():
    rng = np.random.default_rng(0)
    binary, share = rng.integers(0, 2, 40), rng.integers(0, 5, 40) / 4
    values = np.column_stack([binary, share, rng.poisson(2, 40), np.full(40, 3.0)])
    made = of_means(["pass@4", "pass@1", "ucc@4", "length"], values)
    assert made.method_M == ["Clopper-Pearson", "Gaffke", "expanded percentile bootstrap", "none"]
    exact = stats.binomtest(int(binary.sum()), 40).proportion_ci(method="exact")
    assert (made.low_M[0], made.high_M[0]) == pytest.approx((exact.low, exact.high))
    assert np.all(made.low_M[:3] < made.mean_M[:3]) and np.all(made.mean_M[:3] < made.high_M[:3])
    assert made.mean_M[3] == 3 and np.isnan([made.low_M[3], made.high_M[3]]).all()


# Reports of other tools' users: scores that are all 0 or all 1 had intervals without a width.
@pytest.mark.parametrize(
    ("prompts", "right", "low", "high"),
    [(25, 0, 0, 0.1372), (5000, 0, 0, 0.00074), (10, 10, 0.6915, 1), (10, 0, 0, 0.3085),
     (50, 0, 0, 0.0711), (43, 43, 0.9178, 1)],
)  # fmt: skip
def test_scores_that_are_all_0_or_all_1_are_no_certainty(prompts, right, low, high):
    made = of_means(["pass@1"], np.full((prompts, 1), float(right > 0)))
    assert (made.low_M[0], made.high_M[0]) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize("name", ["pass@1", "maj@4", "avg@k", "truncated", "top-8"])
def test_equal_values_of_a_bounded_metric_are_no_certainty(name):
    made = of_means([name], np.full((40, 1), 0.25))
    assert made.low_M[0] < 0.24 and made.high_M[0] > 0.3
    same = of_differences([name], np.full((40, 1), 0.5), np.full((40, 1), 0.25))
    assert same.low_M[0] < 0.25 < same.high_M[0] and same.high_M[0] - same.low_M[0] > 0.05


def test_equal_values_of_an_unbounded_metric_have_no_interval_and_no_chance():
    for made in (
        of_means(["length"], np.full((40, 1), 7.1)),
        of_differences(["length"], np.full((40, 1), 7.3), np.full((40, 1), 7.1)),
    ):
        assert np.isnan([made.low_M, made.high_M, made.chance_M]).all()


@pytest.mark.parametrize(("unlike", "known"), [(9, False), (10, True)])
def test_an_unbounded_metric_needs_ten_prompts_that_differ(unlike, known):
    values = np.append(np.ones(50), 1 + np.arange(1, unlike + 1) / 7)[:, None]
    for made in (of_means(["ucc@8"], values), of_differences(["ucc@8"], values, 0 * values)):
        assert np.isfinite(made.low_M[0]) == known


def test_values_beyond_0_and_1_are_not_taken_for_shares():
    values = np.linspace(-0.2, 0.9, 30)[:, None]
    assert of_means(["top-8"], values).method_M == [intervals.RESAMPLED]


def test_different_solutions_have_one_verdict_as_a_count_and_by_completion():
    rng = np.random.default_rng(0)
    first, more = rng.integers(0, 3, (60, 1)), rng.integers(0, 2, (60, 1))
    names, by_n = ["clusters", "ucr"], np.array([1, 8])
    made = of_differences(names, (first + more) / by_n, first / by_n)
    assert made.chance_M[0] == pytest.approx(made.chance_M[1]) and made.chance_M[0] < 0.001


def test_one_prompt_has_a_mean_and_no_interval():
    made = of_means(["pass@1", "length"], [[0.25, 7.0]])
    assert made.mean_M.tolist() == [0.25, 7.0] and made.method_M == ["none", "none"]
    assert np.isnan([made.low_M, made.high_M, made.error_M]).all()
    assert np.isnan(of_differences(["pass@1"], [[0.0]], [[1.0]]).low_M).all()


def test_no_prompts_are_refused():
    with pytest.raises(DataError, match="no prompts"):
        of_means(["pass@1"], np.zeros((0, 1)))


def test_a_nan_stays_in_its_metric():
    values = np.random.default_rng(0).random((40, 2))
    values[7, 0] = np.nan
    made = of_means(["entropy", "pass@1"], values)
    assert np.isnan([made.mean_M[0], made.low_M[0], made.high_M[0]]).all()
    assert made.low_M[1] < made.mean_M[1] < made.high_M[1]


def test_the_standard_error_is_that_of_prompts():
    made = of_means(["pass@1"], [[0.0], [1.0], [1.0], [0.0]])
    assert made.error_M[0] == pytest.approx(np.sqrt(1 / 3) / 2)


@pytest.mark.parametrize(("prompts", "known"), [(5, False), (6, True)])
def test_prompts_too_few_for_any_difference_have_no_chance(prompts, known):
    made = of_differences(["pass@1"], np.ones((prompts, 1)), np.zeros((prompts, 1)))
    assert made.mean_M[0] == 1 and (made.low_M[0] > 0) == known
    assert np.isfinite(made.chance_M[0]) == known
    assert not known or made.chance_M[0] == pytest.approx(2 * 0.5**6, rel=0.03)


def test_paired_lengths_have_the_interval_of_student():
    rng = np.random.default_rng(0)
    a, b = rng.normal(30, 9, size=(2, 40, 1))
    made, exact = of_differences(["length"], a, b), stats.ttest_rel(a[:, 0], b[:, 0])
    low, high = exact.confidence_interval()
    assert (made.low_M[0], made.high_M[0]) == pytest.approx((low, high))
    assert made.chance_M[0] == pytest.approx(exact.pvalue)


def test_pairing_removes_what_the_prompts_share():
    rng = np.random.default_rng(0)
    hardness = rng.random((600, 1)) * 0.8
    made = of_differences(["pass@1"], hardness + 0.1, hardness)
    alone = of_means(["pass@1"], hardness)
    assert made.high_M[0] - made.low_M[0] < (alone.high_M[0] - alone.low_M[0]) / 2
    assert made.low_M[0] > 0
    other = of_differences(["pass@1"], hardness, hardness + 0.1)
    assert (other.low_M[0], other.high_M[0]) == pytest.approx((-made.high_M[0], -made.low_M[0]))


def test_different_prompts_are_not_paired():
    with pytest.raises(DataError, match=r"\(3, 1\) on one side, \(2, 1\) on the other"):
        of_differences(["pass@1"], np.zeros((3, 1)), np.zeros((2, 1)))
