import math
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from rlvr_cli.errors import DataError
from rlvr_cli.evaluation.metrics.ngrams import distinct, self_bleu

TEXTS = st.lists(st.text("ab. ", max_size=14), min_size=2, max_size=6)


def words(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text.lower())


def grams(tokens: list[str], n: int) -> Counter:
    return Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))


def bleu(own: list[str], others: list[list[str]]) -> float:
    """BLEU-4 with method 1, written as NLTK's loops have it."""
    logs = 0.0
    for n in range(1, 5):
        mine = grams(own, n)
        most = {g: max(grams(other, n)[g] for other in others) for g in mine}
        match = sum(min(count, most[g]) for g, count in mine.items())
        if n == 1 and match == 0:
            return 0.0
        logs += math.log((match or 0.1) / max(1, len(own) - n + 1)) / 4
    nearest = min((abs(len(other) - len(own)), len(other)) for other in others)[1]
    return math.exp(min(0.0, 1 - nearest / len(own)) + logs)


@settings(max_examples=150)
@given(TEXTS)
def test_self_bleu_is_the_mean_bleu_against_the_others(texts):
    found = [words(text) for text in texts]
    truth = np.mean([bleu(own, found[:i] + found[i + 1 :]) for i, own in enumerate(found)])
    assert self_bleu(texts) == pytest.approx(truth, abs=1e-12)


def test_self_bleu_of_equal_and_of_unlike_texts():
    assert self_bleu(["the sum is two plus three"] * 3) == 1
    assert self_bleu(["a b c d", "e f g h"]) == 0
    assert self_bleu(["", "a"]) == self_bleu(["", ""]) == 0


def test_self_bleu_of_a_hand_worked_pair():
    # `a b c d e` against `a b c d f`: 4 of 5, 3 of 4, 2 of 3 and 1 of 2 n-grams.
    truth = (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25
    assert self_bleu(["a b c d e", "a b c d f"]) == pytest.approx(truth)


def test_one_text_has_no_self_bleu():
    with pytest.raises(DataError, match="1 completions"):
        self_bleu(["a"])


@settings(max_examples=80)
@given(TEXTS)
def test_distinct_is_the_share_of_different_ngrams(texts):
    for n, made in enumerate(distinct(texts), 1):
        every = sum((grams(words(text), n) for text in texts), Counter())
        assert made == pytest.approx(len(every) / every.total()) if every else math.isnan(made)
