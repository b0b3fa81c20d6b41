"""Reads the completions of other tools: which prompts they answer, and the rows of each part.

The files are read twice or three times, so that memory holds one row of each prompt without its
images, a number for each completion, and the parts that are being filled: few where a prompt's
completions are together.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rlvr_cli.errors import DataError
from rlvr_cli.interop import readers, token_logprobs
from rlvr_cli.interop.completions import Batch, Columns, Stream
from rlvr_cli.interop.token_logprobs import Sampled

ROWS_PER_PART = 16384
_READ = {"completion", "correct", "reward", "extracted", "finish"}  # columns

Key = tuple[str | None, str]  # the source of a prompt, and its id there


@dataclass
class Scan:
    """What the first reading collects: the prompts, and the prompt of each completion."""

    first: dict[Key, dict[str, Any]] = field(default_factory=dict)  # each prompt's first row
    same: dict[Key, dict[str, Any]] = field(default_factory=dict)  # what all its rows say alike
    prompt_N: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    header: list[str] = field(default_factory=list)
    has: dict[str, str] = field(default_factory=dict)
    graded: bool = False
    digest: str = ""
    sampled: int = 0  # completions with log-probs of their tokens
    names: dict[Key, str] = field(default_factory=dict)  # the prompts' ids
    read: dict[str, Any] = field(default_factory=dict)  # how the files were read

    def cuts(self) -> tuple[np.ndarray, np.ndarray]:
        """The part of each prompt, about ROWS_PER_PART rows of complete groups, and part sizes."""
        size_P = np.bincount(self.prompt_N, minlength=len(self.first))
        part_P, rows, part = [], 0, 0
        for size in size_P.tolist():
            if rows and rows + size > ROWS_PER_PART:
                part, rows = part + 1, 0
            part_P.append(part)
            rows += size
        return np.array(part_P), np.bincount(part_P, weights=size_P).astype(int)


def scan(source: Path, columns: Columns | None, reads_reasons: bool, reads_logprobs: bool) -> Scan:
    """Reads all files once; an error where one has no completions or cannot be read."""
    stream = _stream(source, columns)
    read, codes, content = Scan(), [], hashlib.sha256()
    numbers: dict[Key, int] = {}
    for batch in stream:
        keys = _keys(batch)
        codes.append(np.array([numbers.setdefault(k, len(numbers)) for k in keys], dtype=np.int32))
        for key, row in zip(keys, batch.rows, strict=True):
            first = read.first.setdefault(key, row)
            same = read.same.setdefault(key, row)
            if row is not first:
                read.same[key] = {k: v for k, v in same.items() if row.get(k) == v}
        names = (*_CONTENT, "finish_reason") if reads_reasons else _CONTENT
        for row in _read(source, batch, reads_reasons, reads_logprobs):
            content.update(json.dumps([row[name] for name in names]).encode())
            if sampled := row["sampled"]:
                content.update(json.dumps([sampled.logp, sampled.token_ids]).encode())
                read.sampled += 1
    stream.require_completions()
    read.prompt_N = np.concatenate(codes)
    read.header, read.has, read.digest = stream.header, stream.has, content.hexdigest()
    read.graded = stream.graded
    read.read = stream.facts()
    several = len({name for _, name in read.first}) < len(read.first)
    read.names = {(s, name): f"{s}/{name}" if several else name for s, name in read.first}
    return read


def _stream(source: Path, columns: Columns | None) -> Stream:
    return Stream(source, columns, wanted=_READ, rows=True, images_on_disk=True)


def _read(
    source: Path, batch: Batch, reads_reasons: bool, reads_logprobs: bool
) -> list[dict[str, Any]]:
    try:
        return _completions(batch, reads_reasons, reads_logprobs)
    except ValueError as error:
        raise DataError(
            f"`{source}`: {error}", "repair the row, or remove its log-probs to import it without"
        ) from error


def _keys(batch: Batch) -> list[Key]:
    ids = batch.prompt_id.to_pylist()
    sources = [None] * len(ids) if batch.source is None else batch.source.to_pylist()
    return list(zip(sources, ids, strict=True))


_CONTENT = ("completion", "reward", "correct", "extracted")


def _completions(batch: Batch, reads_reasons: bool, reads_logprobs: bool) -> list[dict[str, Any]]:
    """The completions of a batch as plain values, None where nothing is known.

    Without `reads_reasons`, as earlier versions began directories, all but `length` is `stop`.
    """
    nothing = [None] * len(batch)
    correct = nothing if batch.correct is None else _known(batch.correct)
    rewards = batch.correct if batch.reward is None else batch.reward
    reward = nothing if rewards is None else _known(rewards)
    text = nothing if batch.completion is None else batch.completion.to_pylist()
    extracted = nothing if batch.extracted is None else batch.extracted.to_pylist()
    reasons = nothing if batch.finish is None else batch.finish.to_pylist()
    if not reads_reasons:
        reasons = ["length" if readers.look_up(row, "finish_reason") == "length" else "stop"
                   for row in batch.rows]  # fmt: skip
    sampled = _sampled(batch) if reads_logprobs else nothing
    values = zip(_keys(batch), text, reward, correct, extracted, reasons, sampled,
                 strict=True)  # fmt: skip
    return [
        {
            "prompt_id": key,
            "completion": completion or "",
            "reward": reward,
            "correct": None if correct is None else correct == 1,
            "extracted": extracted,
            "finish_reason": reason,
            "sampled": sampled,
        }
        for key, completion, reward, correct, extracted, reason, sampled in values
    ]


def _sampled(batch: Batch) -> list[Sampled | None]:
    """The log-probs of each completion's tokens, where there are any; a ValueError for others."""
    of = Counter(map(id, batch.rows))
    at: Counter[int] = Counter()
    sampled = []
    for key, row in zip(_keys(batch), batch.rows, strict=True):
        number = at[id(row)]
        at[id(row)] += 1
        try:
            sampled.append(token_logprobs.read(row, number, of[id(row)]))
        except ValueError as error:
            raise ValueError(f"a completion of prompt `{key[1]}` {error}") from error
    return sampled


def _known(values: np.ndarray) -> list[float | None]:
    """Numbers, None for NaN and for the -1 of an unknown verdict."""
    is_verdict = values.dtype == np.int8
    return [None if v != v or (is_verdict and v < 0) else float(v) for v in values.tolist()]


def gathered(
    source: Path,
    columns: Columns | None,
    scan: Scan,
    part_P: np.ndarray,
    sizes: np.ndarray,
    missing: list[int],
    reads_reasons: bool,
    reads_logprobs: bool,
) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Each missing part with its completions, as soon as the last of them was read."""
    wanted, at = set(missing), 0
    waiting: dict[int, list[dict[str, Any]]] = {}
    prompt_order = {key: number for number, key in enumerate(scan.first)}
    for batch in _stream(source, columns):
        part_N = part_P[scan.prompt_N[at : at + len(batch)]].tolist()
        at += len(batch)
        for part, row in zip(
            part_N, _completions(batch, reads_reasons, reads_logprobs), strict=True
        ):
            if part not in wanted:
                continue
            group_rows = waiting.setdefault(part, [])
            group_rows.append(row | ({"correct": None} if scan.graded else {}))
            if len(group_rows) == sizes[part]:
                # The sort is stable: completions of a prompt stay in the file's order.
                group_rows.sort(key=lambda row: prompt_order[row["prompt_id"]])
                for row in group_rows:
                    row["prompt_id"] = scan.names[row["prompt_id"]]
                yield part, waiting.pop(part)
