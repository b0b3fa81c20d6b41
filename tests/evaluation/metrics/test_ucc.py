from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.evaluation.metrics.ucc import (
    Similar,
    cluster,
    components,
    tfidf_cosine,
    ucc_at_k,
    ucr,
)

LINKAGES = ["single", "average", "complete"]
TEXTS = st.lists(st.sampled_from(["3*8", "8*3", "4*6", "4*(7-1)", "24", "", " ", "x+y+z", "x+y"]))


@st.composite
def clustered(draw):
    sizes = draw(st.lists(st.integers(1, 40), max_size=8))
    return draw(st.integers(max(1, sum(sizes)), 400)), sizes


def chain(a: int, b: int) -> str:
    """A text of tokens a to b - 1, so that overlap is known."""
    return " ".join(f"t{i}" for i in range(a, b))


def partitions(total: int):
    """All multisets of cluster sizes whose sum is at most `total`."""
    found = [()]
    for sizes in found:
        first = sizes[-1] if sizes else 1
        found += [(*sizes, size) for size in range(first, total - sum(sizes) + 1)]
    return found


def test_ucc_at_k_is_the_mean_number_of_clusters_over_all_subsets():
    for n in range(1, 13):
        ks = range(1, n + 1)
        drawn = [np.array(list(combinations(range(n), k))) for k in ks]
        for sizes in partitions(n):
            label = np.repeat(np.arange(len(sizes) + 1), [*sizes, n - sum(sizes)])
            bit = np.r_[1 << np.arange(len(sizes)), 0][label]
            found = [np.bitwise_or.reduce(bit[subset], axis=1) for subset in drawn]
            means = [np.mean([int(m).bit_count() for m in met]) for met in found]
            np.testing.assert_allclose(ucc_at_k(n, sizes, ks), means, rtol=1e-12, atol=0)


def test_ucc_at_k_of_a_hand_worked_case():
    # Of 4 completions: clusters of 2 and 1. Two draws: (1 - 1/6) + (1 - 3/6).
    np.testing.assert_allclose(ucc_at_k(4, [2, 1], [1, 2, 4]), [0.75, 8 / 6, 2.0], rtol=1e-14)


@pytest.mark.parametrize("n", [256, 2000])
def test_ucc_at_k_equals_exact_fractions(n):
    sizes, ks = [1, 1, 1, 2, 5, 30, 100], [1, 8, 32, 64, 128, 256]
    truth = [float(sum(1 - Fraction(comb(n - s, k), comb(n, k)) for s in sizes)) for k in ks]
    np.testing.assert_allclose(ucc_at_k(n, sizes, ks), truth, rtol=1e-12, atol=0)


@given(clustered())
def test_ucc_at_k_keeps_its_bounds(case):
    n, sizes = case
    ks = np.arange(1, n + 1)
    ucc_K = ucc_at_k(n, sizes, ks)
    assert np.all(ucc_K <= np.minimum(ks, len(sizes)) * (1 + 1e-12))
    assert np.all(np.diff(ucc_K) >= 0)
    assert ucc_K[0] == pytest.approx(sum(sizes) / n, rel=1e-12)
    assert ucc_K[-1] == len(sizes)


def test_ucc_at_k_refuses_what_it_cannot_answer():
    with pytest.raises(DataError, match=r"`ucc@8` needs 8 .* smallest number is 4") as error:
        ucc_at_k(4, [1], [8])
    assert error.value.hint == "use `--k` up to 4"
    with pytest.raises(DataError, match="do not fit in 4"):
        ucc_at_k(4, [3, 2], [1])
    with pytest.raises(DataError, match="do not fit in 4"):
        ucc_at_k(4, [0, 2], [1])


def test_ucr_is_clusters_per_completion():
    assert ucr(8, [3, 1]) == 0.25
    assert ucr(8, []) == 0.0
    with pytest.raises(DataError):
        ucr(0, [])


@pytest.mark.parametrize("linkage", LINKAGES)
@pytest.mark.parametrize(
    "texts, labels",
    [
        ([], []),
        (["24"], [0]),
        (["24", "24"], [0, 0]),
        (["", ""], [0, 0]),
        (["", " ", ""], [0, 1, 0]),
        (["", "3*8", " ", ""], [0, 1, 2, 0]),
        (["3*8", "8*3"], [0, 0]),  # the same bag of tokens
        (["3*8", "4*6", "8 * 3", "4*6"], [0, 1, 0, 1]),
        (["+", "-", "+"], [0, 1, 0]),
        (["The answer is A", "the answer is a", "by symmetry, 12"], [0, 0, 1]),
    ],
)
def test_hand_worked_clusters(texts, labels, linkage):
    assert cluster(texts, linkage=linkage).tolist() == labels


def test_cosine_of_a_hand_worked_pair():
    # `3` and `*` are in both texts (idf 1), `8` and `9` in one (idf = ln(3/2) + 1).
    rare = np.log(1.5) + 1
    cosine = tfidf_cosine(["3*8", "3*9"], np.array([0, 1]))
    np.testing.assert_allclose(
        cosine, np.full((2, 2), 2 / (2 + rare**2)) + np.eye(2) * (1 - 2 / (2 + rare**2))
    )


def test_repeated_completions_count_in_the_document_frequency():
    # With `3*8` twice, `8` is in 2 of 3 (idf = ln(4/3) + 1) and `9` in 1 of 3 (ln 2 + 1).
    often, rare = np.log(4 / 3) + 1, np.log(2) + 1
    cosine = tfidf_cosine(["3*8", "3*9"], np.array([0, 0, 1]))
    assert cosine[0, 1] == pytest.approx(2 / np.sqrt((2 + often**2) * (2 + rare**2)))


def test_threshold_decides_on_either_side_of_the_cosine():
    cosine = 2 / (2 + (np.log(1.5) + 1) ** 2)
    assert cluster(["3*8", "3*9"], threshold=cosine).tolist() == [0, 0]
    assert cluster(["3*8", "3*9"], threshold=cosine + 1e-6).tolist() == [0, 1]


def test_linkage_decides_the_middle_of_a_chain():
    # Neighbours are alike, the ends are not.
    texts = [chain(0, 20), chain(4, 24), chain(8, 28)]
    near, far = tfidf_cosine(texts, np.arange(3))[0, 1:]
    assert near > far
    between = near - (near - far) / 8  # above the mean of near and far
    assert cluster(texts, threshold=between, linkage="single").tolist() == [0, 0, 0]
    assert len(set(cluster(texts, threshold=between, linkage="complete"))) == 2
    assert len(set(cluster(texts, threshold=between, linkage="average"))) == 2
    below = far + (near - far) / 8
    assert cluster(texts, threshold=below, linkage="average").tolist() == [0, 0, 0]
    assert len(set(cluster(texts, threshold=below, linkage="complete"))) == 2


def test_threshold_one_still_groups_the_same_bag_of_tokens():
    rounded_down = 0
    for tokens in range(1, 40):
        text = chain(0, tokens)
        turned = " ".join(reversed(text.split())) + "\n"
        assert cluster([text, turned, text], threshold=1.0).tolist() == [0, 0, 0]
        rounded_down += tfidf_cosine([text, turned], np.arange(2))[0, 1] < 1.0
    assert rounded_down > 0  # or the test shows nothing


@settings(max_examples=50)
@given(TEXTS, st.sampled_from([0.3, 0.8, 1.0]), st.sampled_from(LINKAGES))
def test_clusters_are_numbered_by_first_appearance_and_hold_equal_texts(texts, threshold, linkage):
    labels = cluster(texts, threshold=threshold, linkage=linkage).tolist()
    assert list(dict.fromkeys(labels)) == list(range(len(set(labels))))
    assert len(set(zip(texts, labels, strict=True))) == len(set(texts))


@settings(max_examples=50)
@given(TEXTS.filter(bool), st.sampled_from([0.3, 0.8]))
def test_single_linkage_gives_the_connected_components(texts, threshold):
    from scipy.sparse.csgraph import connected_components

    cosine = tfidf_cosine(texts, np.arange(len(texts)))
    equal = np.array([[a == b for b in texts] for a in texts])
    _, components = connected_components((cosine >= threshold) | equal)
    labels = cluster(texts, threshold=threshold)
    np.testing.assert_array_equal(labels[:, None] == labels, components[:, None] == components)


@pytest.mark.slow
@settings(max_examples=30)
@given(st.lists(st.text(), max_size=6))
def test_no_text_crashes_the_clustering(texts):
    assert cluster(texts).shape == (len(texts),)


def test_wrong_words_are_refused():
    with pytest.raises(UsageError, match="threshold"):
        cluster(["a"], threshold=0.0)
    with pytest.raises(UsageError, match="no linkage `ward`"):
        cluster(["a"], linkage="ward")


def test_a_representative_is_the_most_similar_to_its_cluster():
    texts = ["x", "a b c d e f", "a b c d", "a b c d", "x", "a b c d g h"]
    similar = Similar.of(texts, tfidf_cosine)
    labels = similar.clusters(0.3, "single")
    assert labels.tolist() == [0, 1, 1, 1, 0, 1]
    assert similar.representatives(labels) == [0, 2]
    assert Similar.of([], tfidf_cosine).representatives(np.zeros(0, dtype=int)) == []


@settings(max_examples=50)
@given(TEXTS.filter(bool), st.sampled_from([0.3, 0.8]))
def test_representatives_are_those_of_a_loop(texts, threshold):
    similar = Similar.of(texts, tfidf_cosine)
    labels = similar.clusters(threshold, "single")
    for label, found in enumerate(similar.representatives(labels)):
        members = np.flatnonzero(labels == label).tolist()
        row = similar.where
        closeness = [
            sum(similar.similarity_DD[row[i], row[j]] for j in members) for i in members
        ]  # fmt: skip
        best = max(closeness)
        assert found == next(i for i, c in zip(members, closeness, strict=True) if c > best - 1e-9)


@settings(max_examples=100)
@given(st.integers(1, 30), st.data())
def test_components_are_those_of_scipy(size, data):
    from scipy.sparse.csgraph import connected_components

    pairs = st.tuples(st.integers(0, size - 1), st.integers(0, size - 1))
    joined = np.zeros((size, size), dtype=bool)
    for one, other in data.draw(st.lists(pairs, max_size=size)):
        joined[one, other] = joined[other, one] = True
    _, truth = connected_components(joined, directed=False)
    made = components(joined)
    assert (made[:, None] == made).tolist() == (truth[:, None] == truth).tolist()


def test_a_long_chain_in_any_order_is_one_component():
    place = np.random.default_rng(0).permutation(500)
    joined = np.zeros((500, 500), dtype=bool)
    joined[place[1:], place[:-1]] = joined[place[:-1], place[1:]] = True
    assert set(components(joined)) == {0}


def test_the_mean_similarity_takes_each_pair_once():
    def halves(distinct, where):
        return np.full((len(distinct),) * 2, 0.5) + 0.5 * np.eye(len(distinct))

    assert Similar.of(["a", "b", "c"], halves).mean() == pytest.approx(0.5)
    assert Similar.of(["a", "a", "b"], halves).mean() == pytest.approx((1 + 0.5 + 0.5) / 3)
    assert np.isnan(Similar.of(["a"], halves).mean())
