import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rlvr_cli.metrics import tokens
from rlvr_cli.metrics.tokens import tokenize

PATTERN = re.compile(r"\w+|[^\w\s]")
TEXTS = st.lists(st.text(), max_size=5)
ASCII = st.lists(st.text(st.characters(max_codepoint=127)), max_size=5)


@settings(max_examples=150, deadline=None)
@given(TEXTS | ASCII)
@example(["3*8", "8*3", "", " ", "\n", "x_1 İ", "a\u2028b", "\ud800x", "é" * 3])
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


@pytest.mark.parametrize("limit", [0, 100])
def test_counts_are_by_text_and_term(monkeypatch, limit):
    monkeypatch.setattr(tokens, "DENSE", limit)
    made = tokenize(["b a b", "", "a"])
    text_E, term_E, count_E = made.counts()
    b, a = made.term_N[:2].tolist()
    found = set(zip(text_E.tolist(), term_E.tolist(), count_E.tolist(), strict=True))
    assert found == {(0, b, 2), (0, a, 1), (2, a, 1)}


def test_many_terms_that_share_slots_stay_apart():
    texts = [" ".join(f"t{i}" for i in range(start, start + 4000)) for start in (0, 2000)]
    made = tokenize(texts)
    assert made.terms == 6000
    first, second = made.of_text()
    np.testing.assert_array_equal(first[2000:], second[:2000])
