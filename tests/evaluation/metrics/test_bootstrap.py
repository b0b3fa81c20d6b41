import numpy as np
import pytest

from rlvr_cli.errors import DataError
from rlvr_cli.evaluation.metrics import bootstrap
from rlvr_cli.evaluation.metrics.bootstrap import mean_interval


@pytest.mark.parametrize("prompts", [40, 100])
@pytest.mark.parametrize("alpha, beta", [(0.4, 0.6), (0.2, 0.8), (2.0, 2.0)])
def test_the_interval_holds_the_true_mean_95_times_in_100(prompts, alpha, beta):
    # 2,000 draws of the pass rates of all prompts, each from 16 completions, as 2,000 metrics.
    rng = np.random.default_rng(1)
    rates = rng.binomial(16, rng.beta(alpha, beta, size=(prompts, 2000))) / 16
    interval = mean_interval(rates)
    truth = alpha / (alpha + beta)
    held = np.mean((interval.low_M <= truth) & (truth <= interval.high_M))
    assert 0.93 <= held <= 0.97


def test_the_interval_is_that_of_student_for_many_even_values():
    values = np.random.default_rng(0).normal(size=(50, 1))
    interval = mean_interval(values, resamples=50_000)
    half = 2.0096 * values.std(ddof=1) / np.sqrt(50)  # t_49(0.975) = 2.0096
    assert interval.mean_M[0] == pytest.approx(values.mean())
    assert interval.low_M[0] == pytest.approx(values.mean() - half, abs=0.03 * half)
    assert interval.high_M[0] == pytest.approx(values.mean() + half, abs=0.03 * half)


def test_two_prompts_span_their_values():
    interval = mean_interval([[0.0], [1.0]])
    assert (interval.mean_M, interval.low_M, interval.high_M) == (0.5, 0.0, 1.0)


def test_a_lower_level_gives_a_narrower_interval():
    values = np.random.default_rng(0).random((40, 3))
    wide, narrow = mean_interval(values), mean_interval(values, level=0.8)
    assert np.all(wide.low_M < narrow.low_M) and np.all(narrow.high_M < wide.high_M)


def test_the_seed_decides_the_draws():
    values = np.random.default_rng(0).random((40, 2))
    first, again, other = (mean_interval(values, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.low_M, again.low_M)
    assert np.any(first.low_M != other.low_M)


def test_a_metric_has_the_interval_it_has_alone():
    values = np.random.default_rng(0).random((40, 3))
    together, alone = mean_interval(values), mean_interval(values[:, 1:2])
    np.testing.assert_allclose(together.low_M[1], alone.low_M[0], rtol=1e-12)
    np.testing.assert_allclose(together.high_M[1], alone.high_M[0], rtol=1e-12)


def test_chunks_change_nothing(monkeypatch):
    values = np.random.default_rng(0).random((40, 2))
    whole = mean_interval(values, resamples=101)
    monkeypatch.setattr(bootstrap, "CHUNK_PRODUCTS", 400)
    chunked = mean_interval(values, resamples=101)
    np.testing.assert_allclose(whole.low_M, chunked.low_M, rtol=1e-12)
    np.testing.assert_allclose(whole.high_M, chunked.high_M, rtol=1e-12)


def test_one_prompt_has_a_mean_and_no_interval():
    interval = mean_interval([[0.25, 1.0]])
    assert interval.mean_M.tolist() == [0.25, 1.0]
    assert np.isnan(interval.low_M).all() and np.isnan(interval.high_M).all()


def test_no_prompts_are_refused():
    with pytest.raises(DataError, match="no prompts"):
        mean_interval(np.zeros((0, 2)))


def test_a_nan_stays_in_its_metric():
    values = np.random.default_rng(0).random((40, 2))
    values[7, 0] = np.nan
    interval = mean_interval(values)
    assert np.isnan([interval.mean_M[0], interval.low_M[0], interval.high_M[0]]).all()
    assert interval.low_M[1] < interval.mean_M[1] < interval.high_M[1]


@pytest.mark.slow
def test_equal_prompts_drawn_together_give_the_same_interval(monkeypatch):
    values = np.random.default_rng(0).binomial(8, 0.3, size=(2000, 2)) / 8
    together = mean_interval(values, resamples=20_000)
    monkeypatch.setattr(bootstrap, "MANY_PROMPTS", 10_000)
    apart = mean_interval(values, resamples=20_000)
    width = apart.high_M - apart.low_M
    assert np.all(np.abs(together.low_M - apart.low_M) < 0.03 * width)
    assert np.all(np.abs(together.high_M - apart.high_M) < 0.03 * width)
    half = 1.96 * together.error_M
    np.testing.assert_allclose(together.high_M - together.low_M, 2 * half, rtol=0.03)


def test_the_standard_error_is_that_of_prompts():
    made = mean_interval([[0.0], [1.0], [1.0], [0.0]])
    assert made.error_M[0] == pytest.approx(np.sqrt(1 / 3) / 2)


def test_a_nan_among_many_prompts_stays_in_its_metric():
    values = np.random.default_rng(0).integers(0, 3, size=(3000, 2)).astype(float)
    values[7, 0] = np.nan
    made = mean_interval(values, resamples=200)
    assert np.isnan(made.low_M[0]) and made.low_M[1] < made.high_M[1]


def test_the_number_of_cores_changes_nothing(monkeypatch):
    values = np.random.default_rng(0).integers(0, 9, size=(3000, 2)) / 8
    made = []
    for cores in (1, 3):
        monkeypatch.setattr("os.sched_getaffinity", lambda _, cores=cores: set(range(cores)))
        made.append(mean_interval(values, resamples=203))
    np.testing.assert_array_equal(made[0].low_M, made[1].low_M)
    np.testing.assert_array_equal(made[0].high_M, made[1].high_M)
