from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pytest

from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.evaluation.metrics.passk import avg_at_k, pass_at_k, pass_at_k_table


def exact(n: int, c: int, k: int) -> float:
    return float(1 - Fraction(comb(n - c, k), comb(n, k)))


def test_pass_at_k_is_the_share_of_all_subsets_with_a_correct_one():
    for n in range(1, 13):
        ks = range(1, n + 1)
        for c in range(n + 1):
            hits = [np.mean([min(drawn) < c for drawn in combinations(range(n), k)]) for k in ks]
            np.testing.assert_allclose(pass_at_k(n, c, ks), hits, rtol=1e-12, atol=0)


def test_pass_at_k_of_hand_worked_draws():
    np.testing.assert_allclose(pass_at_k(4, 1, [1, 2, 3, 4]), [0.25, 0.5, 0.75, 1.0], rtol=1e-15)
    np.testing.assert_allclose(pass_at_k(5, 2, [2]), [1 - 3 / 10], rtol=1e-15)


@pytest.mark.parametrize("n", [256, 2000])
def test_pass_at_k_equals_exact_fractions(n):
    ks = [1, 2, 7, 8, 64, n // 2, n - 1, n]
    for c in [0, 1, 2, 3, n // 3, n - 2, n - 1, n]:
        truth = [exact(n, c, k) for k in ks]
        np.testing.assert_allclose(pass_at_k(n, c, ks), truth, rtol=1e-12, atol=0)


@pytest.mark.parametrize("c", [1, 2, 500, 32_768, 65_535])
def test_pass_at_k_keeps_twelve_digits_of_65536_completions(c):
    n, ks = 65_536, [1, 2, 1000]
    truth = [exact(n, c, k) for k in ks]
    np.testing.assert_allclose(pass_at_k(n, c, ks), truth, rtol=1e-12, atol=0)


@pytest.mark.parametrize("c", [1, 2, 500])
def test_pass_at_k_keeps_twelve_digits_for_thousands_of_draws(c):
    # C(n-c, k) / C(n, k) = C(n-k, c) / C(n, c), which has small binomials.
    n, ks = 65_536, [5000, 32_768, 65_000, 65_535, 65_536]
    truth = [exact(n, k, c) for k in ks]
    np.testing.assert_allclose(pass_at_k(n, c, ks), truth, rtol=1e-12, atol=0)


@pytest.mark.parametrize("n", [65_521, 65_536])
def test_one_correct_completion_passes_in_k_of_n_draws(n):
    ks = np.arange(1, n + 1)
    np.testing.assert_allclose(pass_at_k(n, 1, ks), ks / n, rtol=1e-12, atol=0)


def test_pass_at_k_never_decreases_and_stays_a_probability():
    for c in [0, 1, 40, 99, 100]:
        p = pass_at_k(100, c, range(1, 101))
        assert np.all(np.diff(p) >= 0) and p.min() >= 0 and p.max() <= 1
        assert p[-1] == (c > 0)


def test_no_correct_completion_gives_a_positive_zero():
    assert not np.signbit(pass_at_k(8, 0, [1, 8])).any()


def test_ks_keep_their_order_and_may_repeat():
    p = dict(zip([1, 2, 4, 8], pass_at_k(8, 3, [1, 2, 4, 8]), strict=True))
    assert pass_at_k(8, 3, [4, 1, 8, 4]).tolist() == [p[4], p[1], p[8], p[4]]
    assert pass_at_k(8, 3, []).shape == (0,)


def test_the_table_has_the_pass_at_k_of_each_prompt_in_order():
    n_P, c_P, ks = [8, 16, 8, 10], [3, 0, 3, 10], [1, 4, 8]
    table = pass_at_k_table(n_P, c_P, ks)
    assert table.dtype == np.float64 and table.shape == (4, 3)
    for row, n, c in zip(table, n_P, c_P, strict=True):
        np.testing.assert_array_equal(row, pass_at_k(n, c, ks))
    assert pass_at_k_table([], [], ks).shape == (0, 3)


def test_too_few_completions_are_refused_by_name():
    with pytest.raises(DataError, match=r"`pass@16` needs 16 .* smallest number is 8") as error:
        pass_at_k_table([32, 8], [0, 0], [1, 16])
    assert error.value.hint == "use `--k` up to 8"
    with pytest.raises(DataError, match="`pass@5` needs 5"):
        pass_at_k(2, 0, [5])


def test_a_prompt_without_completions_is_refused():
    with pytest.raises(DataError) as error:
        pass_at_k_table([0], [0], [1])
    assert error.value.hint == "finish the rollouts"
    with pytest.raises(DataError, match="no completions"):
        avg_at_k([4, 0], [1, 0])


def test_k_below_one_is_refused():
    with pytest.raises(UsageError, match="`pass@0`"):
        pass_at_k(4, 1, [0, 1])


@pytest.mark.parametrize("c", [-1, 5])
def test_impossible_correct_counts_are_refused(c):
    with pytest.raises(DataError, match=f"{c} correct completions of 4"):
        pass_at_k(4, c, [1])


def test_unequal_numbers_of_prompts_are_refused():
    with pytest.raises(DataError, match="2 prompts have completions, 1 have correct counts"):
        pass_at_k_table([4, 4], [1], [1])


def test_avg_at_k_is_the_share_of_correct_completions():
    assert avg_at_k([4, 8], [1, 8]).tolist() == [0.25, 1.0]
    assert avg_at_k(4, 3) == 0.75
