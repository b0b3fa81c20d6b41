import random
from collections import Counter
from fractions import Fraction
from itertools import combinations
from math import comb

import pytest

from rlvr_cli.evaluation.metrics.answers import maj_at_k
from rlvr_cli.protocols import Verdict
from rlvr_cli.verification.scoring import equality


class Asking:
    """Verdicts by a function of gold and answer; keeps every pair that was asked."""

    def __init__(self, judge):
        self.judge, self.pairs = judge, []

    def __call__(self, pairs):
        self.pairs += pairs
        verdicts = (self.judge(pair.gold, pair.answer) for pair in pairs)
        return [m if isinstance(m, Verdict) else Verdict("ok", float(m), m) for m in verdicts]


def same_value(gold, answer):
    return Fraction(gold) == Fraction(answer)


def random_votes(rng):
    spellings = ["1/2", "2/4", "0.5", "3", "3.0", "6/2", "7", "-1", "0", "-0"]
    return Counter(rng.choices(spellings, k=rng.randint(0, 9)))


@pytest.mark.parametrize("at_once", [1, 7, 8192])
def test_classes_are_those_of_the_equivalence_and_no_pair_is_asked_twice(monkeypatch, at_once):
    monkeypatch.setattr(equality, "ANSWERS_AT_ONCE", at_once)
    rng = random.Random(at_once)
    votes = [random_votes(rng) for _ in range(60)]
    asking, heard = Asking(same_value), []
    result = equality.classes(votes, asking, heard.append)
    for counted, counts in zip(result.votes, votes, strict=True):
        truth = Counter()
        for answer, count in counts.items():
            truth[Fraction(answer)] += count
        assert {Fraction(first): count for first, count in counted.items()} == truth
        assert len(counted) == len(truth)
    pairs = [(p.prompt, frozenset((p.gold, p.answer))) for p in asking.pairs]
    assert len(pairs) == len(set(pairs)) == result.comparisons
    assert sum(heard) == sum(map(len, votes))
    for p, (counted, counts) in enumerate(zip(result.votes, votes, strict=True)):
        assert sum(q == p for q, _ in pairs) <= len(counts) * len(counted)


def test_majorities_of_classes_are_those_of_every_subset_of_values():
    rng = random.Random(1)
    for _ in range(25):
        votes, right = random_votes(rng), rng.randint(1, 3)
        wrong = list(equality.classes([votes], Asking(same_value)).votes[0].values())
        values = ["right"] * right + [Fraction(a) for a in votes.elements()]
        for k in range(1, len(values) + 1):
            won = Fraction(0)
            for drawn in combinations(values, k):
                counts = Counter(drawn)
                best = [v for v in counts if counts[v] == max(counts.values())]
                won += Fraction("right" in best, len(best))
            truth = float(won / comb(len(values), k))
            assert maj_at_k(right, wrong, 0, [k])[0] == pytest.approx(truth, abs=1e-12)


def test_where_equality_is_not_transitive_the_more_frequent_answer_decides():
    def is_near(gold, answer):
        return abs(int(gold) - int(answer)) <= 1

    def of(**votes):
        counts = {name.lstrip("n"): count for name, count in votes.items()}
        return equality.classes([counts], Asking(is_near)).votes[0]

    assert of(n1=1, n2=2, n3=1) == {"2": 4}
    assert of(n1=2, n2=1, n3=1) == of(n3=1, n2=1, n1=2) == {"1": 3, "3": 1}
    assert of(n3=1, n2=1, n1=1) == {"1": 2, "3": 1}  # by their texts where votes are equal


def test_the_more_frequent_answer_is_the_gold():
    asking = Asking(lambda gold, answer: False)
    equality.classes([{"rare": 1, "often": 5}], asking)
    assert [(p.gold, p.answer) for p in asking.pairs] == [("often", "rare")]


@pytest.mark.parametrize("status", ["timeout", "oom", "error"])
def test_a_fault_is_counted_and_after_two_an_answer_is_compared_no_more(status):
    def judge(gold, answer):
        return Verdict(status) if answer == "bomb" else False

    votes = {"a": 9, "b": 8, "c": 7, "d": 6, "bomb": 5, "e": 4}
    asking = Asking(judge)
    result = equality.classes([votes], asking)
    assert result.votes == [votes] and result.failed == {status: 2}
    assert [p.gold for p in asking.pairs if p.answer == "bomb"] == ["a", "b"]
    assert not [p for p in asking.pairs if p.gold == "bomb"]


def test_one_fault_leaves_an_answer_its_other_comparisons():
    def judge(gold, answer):
        return Verdict("timeout") if gold == "bomb" else same_value(gold, answer)

    result = equality.classes([{"bomb": 9, "1/2": 2, "0.5": 1}], Asking(judge))
    assert result.votes == [{"bomb": 9, "1/2": 3}] and result.failed == {"timeout": 2}


def test_an_answer_that_cannot_be_read_stands_for_itself_and_is_counted_once():
    def judge(gold, answer):
        if gold == "??":
            return Verdict("bad_gold")
        return Verdict("no_answer", 0.0, False) if answer == "!!" else same_value(gold, answer)

    votes = {"??": 9, "1": 3, "1.0": 2, "2": 1, "!!": 1}
    result = equality.classes([votes], Asking(judge))
    assert result.votes == [{"??": 9, "1": 5, "2": 1, "!!": 1}]
    assert result.unreadable == 2 and not result.failed


def test_nothing_is_asked_where_there_is_nothing_to_compare():
    asking = Asking(same_value)
    assert equality.classes([{}, {"1": 4}], asking).votes == [{}, {"1": 4}]
    assert equality.classes([], asking).votes == [] and not asking.pairs
