import numpy as np
import pytest

from rlvr_cli.evaluation.metrics.contrast import crossings, curve, flips, frontier


def test_flips_by_the_buckets_of_the_paper():
    first = [0, 0, 0, 1, 8, 9, 32, 128, 129, 256]  # of 256
    then = [0, 5, 1, 0, 8, 0, 64, 128, 129, 0]
    made = flips([256] * 10, first, [256] * 10, then)
    found = [(b.prompts, b.gained, b.lost) for b in made]
    assert found == [(3, 2, 0), (2, 0, 1), (2, 0, 1), (1, 0, 0), (2, 0, 1)]
    assert made[0].change == pytest.approx(6 / 256 / 3)
    assert [b.upto for b in made] == [0, 8 / 256, 32 / 256, 128 / 256, 1]


def test_an_empty_bucket_has_no_change():
    assert np.isnan(flips([4], [4], [4], [4])[0].change)


def test_runs_with_other_numbers_of_completions_are_compared_by_shares():
    made = flips([4, 4], [0, 2], [8, 8], [8, 4])
    assert (made[0].gained, made[0].change, made[3].change) == (1, 1.0, 0.0)


def test_a_sharp_policy_is_ahead_at_1_and_a_broad_one_later():
    # Sharp solves half of the prompts always, broad all of them a quarter of the time.
    sharp, broad = curve([4, 4], [4, 0], 4), curve([4, 4], [1, 1], 4)
    # sharp 1/2 at every k; broad 1/4, 1/2, 3/4, 1: equal at 2, ahead from 3.
    assert crossings(sharp, broad) == [3]
    assert crossings(broad, sharp) == [3]
    assert crossings(sharp, sharp) == []


def test_the_frontier_holds_what_nothing_beats():
    assert frontier([(0.5, 0.9), (0.6, 0.8), (0.5, 0.8), (0.6, 0.8)]) == [True, True, False, True]
