"""The cosine of TF-IDF vectors of words and symbols; their order does not count."""

from rlvr_cli.evaluation.metrics.ucc import Similarity, tfidf_cosine


def build() -> Similarity:
    """cos(a, b) over tf_t (ln((1 + N) / (1 + df_t)) + 1), df from the completions compared."""
    return tfidf_cosine
