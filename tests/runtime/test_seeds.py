"""Seeds as a hash of what a row is."""

import pytest

from rlvr_cli.runtime.seeds import derive, row_seed


def test_the_seeds_of_today_are_those_of_tomorrow():
    assert derive("row", 0, 0, "expression-002", 0) == row_seed(0, 0, "expression-002", 0)
    assert row_seed(0, 0, "expression-002", 0) == 1824301373495888834
    assert derive() == 8238016292129134938


@pytest.mark.parametrize(
    "other", [(8, 3, "p", 5), (7, 4, "p", 5), (7, 3, "q", 5), (7, 3, "p", 6), (3, 7, "p", 5)]
)
def test_a_seed_depends_on_each_of_its_parts_and_their_order(other):
    assert row_seed(*other) != row_seed(7, 3, "p", 5)


def test_a_number_and_its_digits_are_different_parts():
    assert derive(1) != derive("1")


def test_where_one_part_ends_matters():
    assert derive("ab", "c") != derive("a", "bc") != derive("abc")
    assert derive("a") != derive("a", "")


def test_any_text_has_a_seed():
    assert len({derive(text) for text in ("", "é", "e\u0301", "\ud800", "\n", "😀")}) == 6


def test_a_hundred_thousand_seeds_are_all_different_and_within_63_bits():
    seeds = {
        row_seed(run, step, f"prompt-{prompt}", sample)
        for run in range(2)
        for step in range(10)
        for prompt in range(500)
        for sample in range(10)
    }
    assert len(seeds) == 100_000
    assert min(seeds) >= 0 and max(seeds) < 2**63
    assert max(seeds) > 2**62
