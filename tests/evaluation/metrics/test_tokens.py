import re

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from rlvr_cli.evaluation.metrics.tokens import tokenize

PATTERN = re.compile(r"\w+|[^\w\s]")
TEXTS = st.lists(st.text(), max_size=5)
# Characters of one to four bytes, whose lower case may be longer, shorter or depend on the place.
NASTY = st.lists(st.text("aZ_09 \n\0\x85\u2028\u3000éÉßΣσςİıKⱥȺ中𝔸𐐀😀\ud800\u0301·½", max_size=40))
ASCII = st.lists(st.text(st.characters(max_codepoint=127)), max_size=5)


@pytest.mark.slow
@settings(max_examples=150)
@given(TEXTS | ASCII | NASTY)
@example(["3*8", "8*3", "", " ", "\n", "x_1 İ", "a\u2028b", "\ud800x", "é" * 3])
@example(["ΑΣ ΑΣ", "ΑΣΑ.Σ", "\0", "a\0a", "", "\U0010ffff", "\ud800"])
@example([])
def test_tokens_are_the_matches_of_the_pattern(texts):
    made = tokenize(texts)
    found = [PATTERN.findall(text.lower()) for text in texts]
    assert made.lengths().tolist() == [len(words) for words in found]
    flat = [word for words in found for word in words]
    number = dict(zip(made.term_N.tolist(), flat, strict=True))
    assert [number[term] for term in made.term_N.tolist()] == flat
    assert len(number) == made.terms == len(set(flat))
    assert [len(row) for row in made.of_text()] == made.lengths().tolist()


def test_counts_are_by_text_and_term():
    made = tokenize(["b a b", "", "a"])
    text_E, term_E, count_E = made.counts()
    b, a = made.term_N[:2].tolist()
    found = set(zip(text_E.tolist(), term_E.tolist(), count_E.tolist(), strict=True))
    assert found == {(0, b, 2), (0, a, 1), (2, a, 1)}
    assert term_E.tolist() == sorted(term_E.tolist())


@pytest.mark.slow
def test_every_character_is_what_the_standard_library_says():
    every = "a".join(map(chr, range(0x110000)))
    texts = [every[start : start + 50_000] for start in range(0, len(every), 50_000)]
    made = tokenize(texts)
    found = [PATTERN.findall(text.lower()) for text in texts]
    assert made.lengths().tolist() == list(map(len, found))
    assert made.terms == len({word for words in found for word in words})


def test_halves_of_a_character_that_meet_are_that_character():
    made = tokenize(["x\ud801\udc00", "x𐐀", "x\udc00\ud801", "x\ud801 \udc00"])
    assert made.lengths().tolist() == [1, 1, 3, 3]
    assert made.terms == 4


@pytest.mark.parametrize("size", [3, 4, 5, 7, 8, 9, 16, 17, 40])
@pytest.mark.parametrize("letters", ["ab", "жб", "𐐨𐐩"])
def test_words_that_differ_in_one_character_are_two(size, letters):
    a, b = letters
    texts = [a * place + b + a * (size - place - 1) for place in range(size)]
    made = tokenize([" ".join(texts), a * size, a * (size + 1)])
    assert made.terms == len(made.term_N) == size + 2


def test_many_terms_that_share_slots_stay_apart():
    texts = [" ".join(f"t{i}" for i in range(start, start + 4000)) for start in (0, 2000)]
    made = tokenize(texts)
    assert made.terms == 6000
    first, second = made.of_text()
    np.testing.assert_array_equal(first[2000:], second[:2000])
