"""Unique correct completions: how many different correct completions a policy finds.

Shapes: K values of k, D distinct texts, U distinct cluster sizes.
"""

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.metrics.passk import pass_at_k, require_k

Linkage = Literal["single", "average", "complete"]

# Words, and every other symbol by itself: a completion may be `3*8`.
TOKEN = r"\w+|[^\w\s]"
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
    texts: Sequence[str], *, threshold: float = 0.8, linkage: Linkage = "single"
) -> np.ndarray:
    """The cluster of each correct completion of one prompt, numbered by first appearance.

    Equal texts share a cluster; others join as the linkage says of their TF-IDF cosine:
    `single` takes the connected components of {cosine >= threshold}, `complete` wants every
    pair at the threshold, `average` their mean, taken over distinct texts. The order of
    tokens does not count (`3*8` and `8*3` are one), nor does case. Time and memory grow with
    the square of the distinct texts.
    """
    if not 0.0 < threshold <= 1.0:
        raise UsageError(f"threshold {threshold} is not in (0, 1]", hint="try `--threshold 0.8`")
    if linkage not in get_args(Linkage):
        raise UsageError(
            f"there is no linkage `{linkage}`", hint="use `single`, `average` or `complete`"
        )
    row_of = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    where = np.array([row_of[text] for text in texts], dtype=np.int64)
    if len(row_of) < 2:
        return where
    from scipy.cluster.hierarchy import fcluster
    from scipy.cluster.hierarchy import linkage as tree_of
    from scipy.spatial.distance import squareform

    distance_DD = 1.0 - tfidf_cosine(list(row_of), where)
    tree = tree_of(squareform(distance_DD.clip(0.0), checks=False), method=linkage)
    return by_first_appearance(fcluster(tree, 1.0 - threshold + SLACK, criterion="distance"))[where]


def tfidf_cosine(distinct: Sequence[str], where: np.ndarray) -> np.ndarray:
    """The TF-IDF cosines [D, D] of distinct texts; `where` has the row of each completion.

        cos(a, b) = sum_t x_at x_bt / (|x_a| |x_b|),    x_at = tf_at (ln((1 + N) / (1 + df_t)) + 1)

    df counts all N completions, repeated ones as often as they come. A text without tokens
    has cosine 0 with every other.
    """
    from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer

    if not any(text.strip() for text in distinct):
        return np.eye(len(distinct))
    count_DV = CountVectorizer(token_pattern=TOKEN).fit_transform(distinct)
    tfidf_DV = TfidfTransformer().fit(count_DV[where]).transform(count_DV)
    return (tfidf_DV @ tfidf_DV.T).toarray()


def by_first_appearance(labels: np.ndarray) -> np.ndarray:
    """The same partition, its clusters numbered 0, 1, ... as they first appear."""
    _, first, where = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[where]
