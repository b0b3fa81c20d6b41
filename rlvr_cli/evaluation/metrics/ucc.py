"""Unique correct completions: how many different correct completions a policy finds.

Shapes: K values of k, N completions, D distinct texts, U distinct cluster sizes, J clusters, Q
pairs of rows, and those of tokens.py.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.evaluation.metrics.passk import pass_at_k, require_k
from rlvr_cli.evaluation.metrics.products import products
from rlvr_cli.evaluation.metrics.tokens import tokenize

Linkage = Literal["single", "average", "complete"]
# Of D distinct texts and the row of each completion, the similarities [D, D], 1 on the diagonal.
Similarity = Callable[[Sequence[str], np.ndarray], np.ndarray]

# The cosine of a vector with itself may be 0.9999999999999998.
SLACK = 1e-9


def ucc_at_k(n: int, sizes: ArrayLike, ks: Sequence[int]) -> np.ndarray:
    """The expected number [K] of clusters met in k of the n completions; `sizes` are theirs.

        UCC@k = sum_j (1 - C(n - s_j, k) / C(n, k))            (QUATRO, eq. 20)

    At most min(k, clusters), never decreasing in k; UCC@1 = c / n, UCC@n = clusters. Zero
    without clusters. Raises DataError where n < k.
    """
    require_k(ks, n, metric="ucc")
    sizes = np.asarray(sizes, dtype=np.int64)
    if np.any(sizes < 1) or sizes.sum() > n:
        raise DataError(f"clusters of {sizes.tolist()} completions do not fit in {n}")
    size_U, count_U = np.unique(sizes, return_counts=True)
    ucc_K = np.zeros(len(ks))
    for size, count in zip(size_U, count_U, strict=True):
        ucc_K += count * pass_at_k(n, int(size), ks)
    return ucc_K


def ucr(n: int, sizes: ArrayLike) -> float:
    """The unique correct ratio: clusters / n."""
    if n < 1:
        raise DataError("a prompt has no completions", hint="finish its rollouts, or drop it")
    return np.size(sizes) / n


def cluster(
    texts: Sequence[str],
    *,
    threshold: float = 0.8,
    linkage: Linkage = "single",
    similarity: Similarity | None = None,
) -> np.ndarray:
    """The cluster of each correct completion of one prompt, numbered by first appearance.

    Equal texts share a cluster; others join as the linkage says of their similarity, which is the
    TF-IDF cosine unless another is given: `single` takes the connected components of
    {similarity >= threshold}, `complete` wants every pair at the threshold, `average` their mean,
    taken over distinct texts. For the TF-IDF cosine the order of tokens does not count (`3*8` and
    `8*3` are one), nor does case. Time and memory grow with the square of the distinct texts.
    """
    return Similar.of(texts, similarity or tfidf_cosine).clusters(threshold, linkage)


@dataclass(frozen=True)
class Similar:
    """The similarities of one prompt's completions: of many thresholds, computed once."""

    distinct: list[str]
    where: np.ndarray  # the row of each completion
    similarity_DD: np.ndarray

    @staticmethod
    def of(texts: Sequence[str], similarity: Similarity) -> "Similar":
        row_of = {text: row for row, text in enumerate(dict.fromkeys(texts))}
        where = np.array([row_of[text] for text in texts], dtype=np.int64)
        distinct = list(row_of)
        similarity_DD = similarity(distinct, where) if len(distinct) > 1 else np.eye(len(distinct))
        return Similar(distinct, where, similarity_DD)

    def clusters(self, threshold: float, linkage: Linkage) -> np.ndarray:
        """The cluster of each completion, numbered by first appearance."""
        check(threshold, linkage)
        if len(self.distinct) < 2:
            return self.where
        if linkage == "single":
            label_D = components(self.similarity_DD >= threshold - SLACK)
        else:
            label_D = self._tree_labels(threshold, linkage)
        label_N: np.ndarray = by_first_appearance(label_D)[self.where]
        return label_N

    def _tree_labels(self, threshold: float, linkage: Linkage) -> np.ndarray:
        """The cluster of each distinct text where the dendrogram is cut at the threshold, [D]."""
        from scipy.cluster.hierarchy import fcluster, linkage as tree_of
        from scipy.spatial.distance import squareform

        distance = squareform((1.0 - self.similarity_DD).clip(0.0), checks=False)
        label_D: np.ndarray = fcluster(
            tree_of(distance, linkage), 1.0 - threshold + SLACK, "distance"
        )
        return label_D

    def mean(self) -> float:
        """The mean similarity of two completions, each pair once; NaN below two of them."""
        n, size_D = len(self.where), np.bincount(self.where, minlength=len(self.distinct))
        if n < 2:
            return float("nan")
        diagonal = size_D @ self.similarity_DD.diagonal()
        return float((size_D @ self.similarity_DD @ size_D - diagonal) / (n * (n - 1)))

    def representatives(self, label_N: np.ndarray) -> list[int]:
        """Of each cluster the completion that is most similar to all of it; the first of several
        such."""
        clusters = int(label_N.max(initial=-1)) + 1
        size_D = np.bincount(self.where, minlength=len(self.distinct))
        label_D = np.zeros(len(self.distinct), dtype=np.int64)
        label_D[self.where] = label_N
        together_DD = label_D[:, None] == label_D
        closeness_D = np.where(together_DD, self.similarity_DD, 0.0) @ size_D
        most_J = np.full(clusters, -np.inf)
        np.maximum.at(most_J, label_D, closeness_D)
        best_N = (closeness_D >= most_J[label_D] - SLACK)[self.where]
        first_J = np.full(clusters, len(label_N))
        np.minimum.at(first_J, label_N[best_N], np.flatnonzero(best_N))
        return first_J.tolist()


def check(threshold: float, linkage: str) -> None:
    """Refuses a threshold outside (0, 1] and an unknown linkage."""
    if not 0.0 < threshold <= 1.0:
        raise UsageError(f"threshold {threshold} is not in (0, 1]", hint="try `--threshold 0.8`")
    if linkage not in get_args(Linkage):
        raise UsageError(
            f"there is no linkage `{linkage}`", hint="use `single`, `average` or `complete`"
        )


def tfidf_cosine(distinct: Sequence[str], where: np.ndarray) -> np.ndarray:
    """The TF-IDF cosines [D, D] of distinct texts; `where` has the row of each completion.

        cos(a, b) = sum_t x_at x_bt / (|x_a| |x_b|),    x_at = tf_at (ln((1 + N) / (1 + df_t)) + 1)

    df counts all N completions, repeated ones as often as they come. A text without tokens
    has cosine 0 with every other. It is scikit-learn's TfidfVectorizer and cosine_similarity.
    """
    tokens = tokenize(distinct)
    text_E, term_E, count_E = tokens.counts()
    times_D = np.bincount(where, minlength=len(distinct))
    df_V = np.bincount(term_E, weights=times_D.take(text_E), minlength=tokens.terms)
    weight_E = count_E * (np.log((1 + len(where)) / (1 + df_V)) + 1).take(term_E)
    square_D = np.bincount(text_E, weights=weight_E**2, minlength=len(distinct))
    unit_E = weight_E / np.sqrt(square_D).take(text_E)
    cosine_DD = products(text_E, term_E, unit_E, texts=len(distinct))
    np.fill_diagonal(cosine_DD, 1.0)
    return cosine_DD


def components(joined_DD: np.ndarray) -> np.ndarray:
    """The connected component of each row of a symmetric matrix of truths, [D], as a label."""
    joined_DD = joined_DD | np.eye(len(joined_DD), dtype=bool)
    at_Q = np.flatnonzero(joined_DD)
    row_Q = at_Q // max(len(joined_DD), 1)
    column_Q = at_Q - row_Q * len(joined_DD)
    first_D = np.flatnonzero(np.diff(row_Q, prepend=-1))
    label_D = np.arange(len(joined_DD))
    while True:
        # The least label among each row's neighbours, then the label of the row it names.
        least_D = np.minimum.reduceat(label_D[column_Q], first_D)
        least_D = np.minimum(least_D, least_D[least_D])
        if np.array_equal(least_D, label_D):
            return label_D
        label_D = least_D


def by_first_appearance(labels: np.ndarray) -> np.ndarray:
    """The same partition, its clusters numbered 0, 1, ... as they first appear."""
    _, first, where = np.unique(labels, return_index=True, return_inverse=True)
    rank: np.ndarray = np.argsort(np.argsort(first))[where]
    return rank
