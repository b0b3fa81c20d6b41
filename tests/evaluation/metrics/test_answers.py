import random
from fractions import Fraction
from itertools import combinations
from math import comb, log

import numpy as np
import pytest

from rlvr_cli.errors import DataError
from rlvr_cli.evaluation.metrics.answers import entropy, maj_at_k
from rlvr_cli.evaluation.metrics.passk import pass_at_k


def votes_of_all_subsets(c, wrong, silent, k):
    """The mean over all subsets of k of whether the commonest answer is correct, ties shared."""
    answers = ["right"] * c + [i for i, size in enumerate(wrong) for _ in range(size)]
    answers += [None] * silent
    won = Fraction(0)
    for drawn in combinations(answers, k):
        counts = {a: drawn.count(a) for a in drawn if a is not None}
        best = [a for a in counts if counts[a] == max(counts.values())]
        won += Fraction(int("right" in best), len(best) or 1)
    return float(won / comb(len(answers), k))


def cases():
    rng = random.Random(0)
    for _ in range(40):
        wrong = [rng.randint(1, 4) for _ in range(rng.randint(0, 4))]
        c, silent = rng.randint(0, 5), rng.randint(0, 2)
        if 0 < c + sum(wrong) + silent <= 11:
            yield c, wrong, silent


def test_maj_at_k_is_the_mean_over_all_subsets():
    for c, wrong, silent in cases():
        ks = range(1, c + sum(wrong) + silent + 1)
        truth = [votes_of_all_subsets(c, wrong, silent, k) for k in ks]
        np.testing.assert_allclose(maj_at_k(c, wrong, silent, ks), truth, rtol=0, atol=1e-12)


def test_maj_at_k_of_hand_worked_draws():
    # 2 right, 1 wrong, 1 silent. k=2: of 6 pairs 1 is right-right, 2 are ties, 2 have one vote.
    assert maj_at_k(2, [1], 1, [1, 2, 4]) == pytest.approx([2 / 4, (1 + 2 / 2 + 2) / 6, 1])


@pytest.mark.parametrize("n", [256, 2000])
def test_one_vote_and_all_votes_are_known_for_large_groups(n):
    half = n // 2
    assert maj_at_k(half, [half], 0, [1, n]) == pytest.approx([0.5, 0.5])
    assert maj_at_k(half, [1] * half, 0, [n])[0] == 1
    # Against silence alone the majority is right as soon as one is.
    assert maj_at_k(3, [], n - 3, [1, 8]) == pytest.approx(pass_at_k(n, 3, [1, 8]), rel=1e-9)


def test_the_vote_of_two_answers_is_a_binomial_tail_without_replacement():
    n, c, k = 256, 150, 33
    tail = sum(Fraction(comb(c, t) * comb(n - c, k - t), comb(n, k)) for t in range(17, k + 1))
    assert maj_at_k(c, [n - c], 0, [k])[0] == pytest.approx(float(tail), rel=1e-11)


def test_all_right_all_wrong_and_all_silent():
    assert maj_at_k(4, [], 0, [1, 3, 4]).tolist() == pytest.approx([1, 1, 1])
    assert maj_at_k(0, [4], 0, [1, 4]).tolist() == [0, 0]
    assert maj_at_k(0, [], 4, [1, 4]).tolist() == [0, 0]


def test_too_few_completions_are_refused():
    with pytest.raises(DataError, match="`maj@5` needs 5"):
        maj_at_k(2, [1], 1, [5])
    with pytest.raises(DataError, match="are not sizes"):
        maj_at_k(-1, [3], 0, [1])


def test_entropy_of_answers_in_nats():
    assert entropy(4, [], 0) == 0 and not np.signbit(entropy(4, [], 0))
    assert entropy(2, [1], 1) == pytest.approx(1.5 * log(2))
    assert entropy(0, [1] * 8, 0) == pytest.approx(log(8))
    with pytest.raises(DataError, match="no completions"):
        entropy(0, [], 0)
