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
    """BLEU with NLTK's method 1 and sacrebleu's effective order, written as loops."""
    if not own:
        return float([] in others)
    logs, orders = 0.0, min(4, len(own))
    for n in range(1, orders + 1):
        mine = grams(own, n)
        most = {g: max(grams(other, n)[g] for other in others) for g in mine}
        match = sum(min(count, most[g]) for g, count in mine.items())
        if n == 1 and match == 0:
            return 0.0
        logs += math.log((match or 0.1) / (len(own) - n + 1)) / orders
    nearest = min((abs(len(other) - len(own)), len(other)) for other in others)[1]
    return math.exp(min(0.0, 1 - nearest / len(own)) + logs)


@settings(max_examples=150)
@given(TEXTS)
def test_self_bleu_is_the_mean_bleu_against_the_others(texts):
    found = [words(text) for text in texts]
    truth = np.mean([bleu(own, found[:i] + found[i + 1 :]) for i, own in enumerate(found)])
    assert self_bleu(texts) == pytest.approx(truth, abs=1e-12)


@pytest.mark.parametrize(
    "text",
    [
        "the sum is two plus three", "7", "x = 7", "", "foobar",
        "Generaldirektion Informationsgesellschaft",  # sacrebleu and evaluate give 0 for these
    ],
)  # fmt: skip
@pytest.mark.parametrize("n", [2, 8])
def test_self_bleu_of_equal_texts_is_1_however_short(text, n):
    assert self_bleu([text] * n) == 1


def test_self_bleu_of_texts_without_a_common_word_is_0():
    assert self_bleu(["a b c d", "e f g h"]) == self_bleu(list("abcdefgh")) == 0
    assert self_bleu(["", "a"]) == 0


def test_texts_without_words_are_alike_and_unlike_the_others():
    assert self_bleu(["", " \n"]) == 1
    assert self_bleu(["", "", "a", "b"]) == 1 / 2


def test_a_text_of_two_words_is_judged_by_words_and_pairs_alone():
    # `a b` against `a b c d e f`: all of its n-grams are there; brevity e^(1 - 6/2). The other
    # way: 2 of 6, 1 of 5, and 0.1 for the others, of 4 and 3.
    short, long = math.exp(-2), (2 / 6 * 1 / 5 * 0.1 / 4 * 0.1 / 3) ** 0.25
    assert self_bleu(["a b", "a b c d e f"]) == pytest.approx((short + long) / 2)


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
        every = Counter()
        for text in texts:
            tokens = words(text)
            every += grams(tokens, n) if len(tokens) >= n else Counter([tuple(tokens)])
        assert made == pytest.approx(len(every) / every.total())


def test_distinct_of_equal_and_of_unlike_texts_however_short():
    for text in ("7", "", "two words"):
        assert distinct([text] * 8)[-1] == 1 / 8
    assert distinct(["7"] * 8) == distinct([""] * 8) == [1 / 8] * 3
    assert distinct(["7"]) == distinct(list("abcdefgh")) == [1, 1, 1]


def test_distinct_is_that_of_li_et_al_where_texts_are_long_enough():
    # a b a b a, a b c: words a b c of 8; pairs ab ba bc of 6; triples aba bab abc of 4.
    assert distinct(["a b a b a", "a b c"]) == [3 / 8, 3 / 6, 3 / 4]
