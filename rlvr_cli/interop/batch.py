"""Completions of other tools' files, a batch at a time.

Shapes: N completions of a batch.
"""

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import pyarrow as pa


@dataclass(frozen=True)
class Batch:
    """One row per completion, in the files' order; a column that the file lacks is None.

    `correct` is 1, 0 or, if unknown, -1; an unknown `reward` is NaN. If the file has no `correct`
    column, a completion is correct if its reward is 1, unless rewards are graded: see
    `Stream.graded`. `sample` is a number, negative for samples named by text.
    """

    prompt_id: pa.Array
    correct: np.ndarray | None = None
    reward: np.ndarray | None = None
    completion: pa.Array | None = None
    extracted: pa.Array | None = None
    source: pa.Array | None = None
    sample: np.ndarray | None = None
    finish: pa.Array | None = None
    prompt: pa.Array | None = None
    gold: pa.Array | None = None
    rows: list[dict[str, Any]] = field(default_factory=list, repr=False)

    def __len__(self) -> int:
        return len(self.prompt_id)

    def kept(self, kept_N: np.ndarray) -> "Batch":
        """Some of the completions."""
        mask = pa.array(kept_N)
        columns = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "rows"}
        chosen = {
            name: value[kept_N] if isinstance(value, np.ndarray) else value.filter(mask)
            for name, value in columns.items()
            if value is not None
        }
        rows = [row for row, is_kept in zip(self.rows, kept_N, strict=False) if is_kept]
        return Batch(**chosen, rows=rows)
