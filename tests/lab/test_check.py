import math

import numpy as np
import pytest

from rlvr_cli.lab import check


def test_an_interval_decides_only_if_all_of_it_lies_on_one_side():
    made = check.mean("x", [1.0, 2.0, 3.0], above=0.0, level=0.95)
    half = 4.3027 / math.sqrt(3)  # t_2(0.975) times the standard error
    assert (made.mean, made.low, made.high) == pytest.approx((2, 2 - half, 2 + half), abs=1e-3)
    assert made.state == "open"  # from -0.48
    assert check.mean("x", [1.9, 2.0, 2.1], above=0.0).state == "holds"
    assert check.mean("x", [-1.9, -2.0, -2.1], above=0.0).state == "fails"
    assert check.mean("x", [0.0, 0.0], above=0.0).state == "fails"


@pytest.mark.parametrize(
    ("values", "state"),
    [([0.0, 0.01, -0.01], "open"), ([0.001, 0.0011], "holds"), ([0.5, 0.501, 0.502], "fails")],
)
def test_equality_within_a_margin_needs_the_whole_interval(values, state):
    assert check.mean("x", values, above=-0.02, below=0.02).state == state


def test_what_is_not_finite_or_single_decides_nothing():
    assert check.mean("x", [math.inf, 1.0], above=0.0).state == "open"
    assert check.mean("x", [5.0], above=0.0).state == "open"


def test_shares_have_exact_intervals():
    made = check.share("x", np.ones(500, dtype=bool), above=0.95)
    assert made.high == 1 and made.low == pytest.approx(0.005 ** (1 / 500)) and made.n == 500
    assert made.state == "holds"
    assert check.share("x", np.ones(40, dtype=bool), above=0.95).state == "open"  # too few


def test_numbers_and_bounds_read_well():
    made = check.share("x", [True] * 9 + [False], above=0.5, below=0.95)
    assert made.number.startswith("0.9 [0.4") and made.bounds == "between 0.5 and 0.95"
    assert check.exact("x", 1e-12, below=1e-9).number == "1e-12"
    assert check.exact("x", 3, above=2).bounds == "above 2"


def test_the_interval_of_means_is_right_in_99_of_100_cases():
    rng = np.random.default_rng(0)
    missed = sum(
        check.mean("x", rng.exponential(size=200), above=1.0).state == "holds" for _ in range(2000)
    )
    assert missed <= 2000 * 0.005 * 2.5  # one side of 99%, and skewness
