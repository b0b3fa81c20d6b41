import numpy as np
import pytest
from scipy import stats

from rlvr_cli.evaluation.metrics import gaffke


def binary(prompts: int, right: list[int]) -> np.ndarray:
    return (np.arange(prompts)[:, None] < np.array(right)).astype(float)


@pytest.mark.parametrize("prompts", [2, 5, 10, 43, 500, 20_000])
def test_of_binary_values_it_is_the_interval_of_clopper_and_pearson(prompts):
    right = sorted({0, 1, prompts // 2, prompts - 1, prompts})
    low, high = gaffke.interval(binary(prompts, right))
    for at, count in enumerate(right):
        exact = stats.binomtest(count, prompts).proportion_ci(method="exact")
        # A saddlepoint is within some hundredths of the chance it gives.
        assert low[at] == pytest.approx(exact.low, abs=0.02 / prompts, rel=0.01)
        assert 1 - high[at] == pytest.approx(1 - exact.high, abs=0.02 / prompts, rel=0.01)


def test_it_is_the_quantile_of_means_weighted_at_random():
    rng = np.random.default_rng(0)
    values = rng.beta(0.4, 0.8, size=(17, 2)).round(2)
    low, high = gaffke.interval(values)
    weights = rng.dirichlet(np.ones(18), size=400_000)
    for m in range(2):
        drawn_low = np.quantile(weights @ np.append(values[:, m], 0.0), 0.025)
        drawn_high = np.quantile(weights @ np.append(values[:, m], 1.0), 0.975)
        assert (low[m], high[m]) == pytest.approx((drawn_low, drawn_high), abs=0.002)


def test_it_leaves_0_out_just_where_the_exact_test_of_mcnemar_does():
    for discordant in range(60):
        gained = np.arange(discordant + 1)
        row = np.arange(discordant + 12)[:, None]
        gaps = np.where(row < gained, 1.0, np.where(row < discordant, -1.0, 0.0))
        low, high = gaffke.interval((gaps + 1) / 2)
        chance = gaffke.chance_of_none(gaps)
        for at, count in enumerate(gained.tolist()):
            exact = stats.binomtest(count, discordant).pvalue if discordant else 1.0
            assert (chance[at] < 0.05) == (exact < 0.05) == (low[at] > 0.5 or high[at] < 0.5)
            assert exact < 1e-4 or chance[at] == pytest.approx(exact, rel=0.07)


@pytest.mark.parametrize("value", [0.0, 0.25, 1.0])
def test_equal_values_are_no_certainty(value):
    low, high = gaffke.interval(np.full((50, 1), value))
    assert low[0] <= value <= high[0] and high[0] - low[0] > 0.05


def test_it_mirrors_and_takes_each_metric_alone():
    values = np.random.default_rng(1).binomial(4, 0.9, size=(30, 3)) / 4
    low, high = gaffke.interval(values)
    mirrored_low, mirrored_high = gaffke.interval(1 - values[:, 1:2])
    assert (mirrored_low[0], mirrored_high[0]) == pytest.approx((1 - high[1], 1 - low[1]))


def test_a_lower_level_gives_a_narrower_interval():
    values = np.random.default_rng(0).random((40, 3))
    (low, high), (above, below) = gaffke.interval(values), gaffke.interval(values, level=0.8)
    assert np.all(low < above) and np.all(below < high)


def test_of_many_prompts_it_is_that_of_the_normal_distribution():
    values = np.random.default_rng(0).binomial(8, 0.3, size=(200_000, 1)) / 8
    low, high = gaffke.interval(values)
    half = 1.96 * values.std() / np.sqrt(200_000)
    assert (low[0], high[0]) == pytest.approx(
        (values.mean() - half, values.mean() + half), abs=0.05 * half
    )


def test_differences_of_fractions_have_a_chance_below_a_twentieth_just_where_0_is_left_out():
    rng = np.random.default_rng(3)
    gaps = (rng.binomial(16, 0.5, size=(60, 400)) - rng.binomial(16, 0.44, size=(60, 400))) / 16
    low, high = gaffke.interval((gaps + 1) / 2)
    outside = (low > 0.5) | (high < 0.5)
    assert 40 < outside.sum() < 360
    np.testing.assert_array_equal(gaffke.chance_of_none(gaps) < 0.05, outside)
