"""The completions of a set of scores, read part by part into small columns.

Shapes: P prompts, N completions.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rlvr_cli.errors import DataError
from rlvr_cli.evaluation.metrics import ucc
from rlvr_cli.stages import common
from rlvr_cli.storage.lineage import Lineage

RIGHT, WRONG, UNKNOWN = 1, 0, -1
ENTROPY_BIN = 0.1  # nats


@dataclass
class ScoredRows:
    """One entry a completion in the order of the shards, and a few facts of each prompt."""

    prompt_id: list[str] = field(default_factory=list)
    verdict_N: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int8))
    length_N: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    characters_N: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    cut_N: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool))
    unknown_ends: int = 0  # completions of which nothing says whether they were cut
    unit: str = "tokens"  # of a length; characters where texts came without tokens
    status: Counter[str] = field(default_factory=Counter)
    excluded: Counter[str] = field(default_factory=Counter)  # the statuses without a verdict
    source: dict[str, str] = field(default_factory=dict)
    first_of: list[int] = field(default_factory=list)  # of each part, among all completions
    part_of: dict[str, int] = field(default_factory=dict)
    clusters: dict[str, np.ndarray] = field(default_factory=dict)  # of its right completions
    entropy: dict[str, tuple[float, int]] = field(default_factory=dict)  # sum in nats, tokens
    entropy_count: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @property
    def truncated(self) -> str:
        """How many were cut, and of how many that is not known."""
        count = f"{int(self.cut_N.sum()):,}"
        return f"{count} ({self.unknown_ends:,} unknown)" if self.unknown_ends else count


def read(
    lineage: Lineage, *, threshold: float, on_part: Callable[[int, str], None] = lambda i, s: None
) -> ScoredRows:
    """Reads scores and rollouts once; clusters each prompt's right completions as UCC@k does."""
    assert lineage.scores is not None
    rows = ScoredRows()
    verdicts, tokens, characters, cut = [], [], [], []
    has_tokens = True
    for index in range(len(lineage.scores)):
        columns = common.zip_columns(index, lineage.rollouts, lineage.scores)
        prompt_ids = columns["prompt_id"].to_pylist()
        rows.first_of.append(len(rows.prompt_id))
        rows.prompt_id += prompt_ids
        rows.part_of.update(dict.fromkeys(prompt_ids, index))
        rows.status.update(columns["status"].to_pylist())
        unknown = pc.is_null(columns["correct"])
        rows.excluded.update(columns["status"].filter(unknown).to_pylist())
        verdict_N = pc.fill_null(columns["correct"].cast(pa.int8()), UNKNOWN).to_numpy()
        verdicts.append(verdict_N)
        has_tokens &= columns["token_ids"].null_count == 0
        tokens.append(pc.fill_null(pc.list_value_length(columns["token_ids"]), 0).to_numpy())
        characters.append(pc.utf8_length(columns["completion"]).to_numpy())
        rows.unknown_ends += columns["finish_reason"].null_count
        is_cut = pc.equal(columns["finish_reason"], "length")
        cut.append(pc.fill_null(is_cut, False).to_numpy())
        _cluster(rows, columns, verdict_N, threshold)
        _add_entropy(rows, lineage, index)
        on_part(index, "written")
    if not verdicts:
        raise DataError(f"`{lineage.scores.path}` holds no rows", "score some rollouts")
    rows.unit = "tokens" if has_tokens else "characters"
    rows.verdict_N = np.concatenate(verdicts)
    rows.characters_N = np.concatenate(characters).astype(np.int64)
    rows.length_N = np.concatenate(tokens).astype(np.int64) if has_tokens else rows.characters_N
    rows.cut_N = np.concatenate(cut)
    _add_sources(rows, lineage)
    return rows


def _cluster(
    rows: ScoredRows, columns: dict[str, pa.ChunkedArray], verdict_N: np.ndarray, threshold: float
) -> None:
    """Clusters the right completions of each prompt in a part; a prompt is in one part."""
    right = np.flatnonzero(verdict_N == RIGHT)
    texts: dict[str, list[str]] = {}
    prompt_ids = columns["prompt_id"].take(right).to_pylist()
    completions = columns["completion"].take(right).to_pylist()
    for prompt_id, text in zip(prompt_ids, completions, strict=True):
        texts.setdefault(prompt_id, []).append(text)
    for prompt_id, right_texts in texts.items():
        rows.clusters[prompt_id] = ucc.cluster(right_texts, threshold=threshold)


def _add_entropy(rows: ScoredRows, lineage: Lineage, index: int) -> None:
    """Adds the tokens of a part to the sums of their prompts and to the histogram."""
    if lineage.logprobs is None or "entropy" not in lineage.logprobs.schema.names:
        return
    table = lineage.logprobs.part(index, ["prompt_id", "entropy"])
    values = common.arrays(table["entropy"])
    for prompt_id, entropy_T in zip(table["prompt_id"].to_pylist(), values, strict=True):
        total, count = rows.entropy.get(prompt_id, (0.0, 0))
        total += float(entropy_T.sum(dtype=np.float64))
        rows.entropy[prompt_id] = total, count + len(entropy_T)
    flat = common.flat(table["entropy"])
    counted = np.bincount((flat.clip(0) / ENTROPY_BIN).astype(np.int64))
    if len(counted) > len(rows.entropy_count):
        counted, rows.entropy_count = rows.entropy_count, counted
    rows.entropy_count[: len(counted)] += counted


def _add_sources(rows: ScoredRows, lineage: Lineage) -> None:
    for table in lineage.prompts.parts() if lineage.prompts else ():
        names = (table[name].to_pylist() for name in ("prompt_id", "source"))
        rows.source.update(zip(*names, strict=True))
