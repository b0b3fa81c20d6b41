"""Counts of each prompt's completions, in one pass and in bounded memory.

Shapes: N completions of a batch, U prompts in it, R runs of rows of one prompt, P prompts.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rlvr_cli.interop.completions import Batch
from rlvr_cli.interop.parquet_columns import encoded

COUNTS = ("unknown", "wrong", "correct")
_KEYS = [("source", pa.large_string()), ("id", pa.large_string())]
_COUNTED = pa.schema(_KEYS + [(name, pa.int64()) for name in COUNTS])
MANY_ROWS = 2**21
LONG_RUN = 32  # where consecutive rows of a prompt are at least this many, runs are summed


@dataclass(frozen=True)
class Tally:
    """Counts of each prompt's completions; those without a verdict are excluded.

    A prompt without any verdict is left out of all means, and named. All correct completions are
    one class of answers, wrong ones are classes by what they answer.
    """

    prompt_id: list[str]
    n_P: np.ndarray
    correct_P: np.ndarray
    excluded_P: np.ndarray
    texts: list[list[str]] | None  # of the correct completions
    left_out: list[str]  # the prompts without any verdict
    source: list[str | None] = field(default_factory=list)
    votes: list[Mapping[str, int]] | None = None  # of each wrong answer
    repeated: int = 0  # rows with the prompt and the sample index of an earlier row
    read: dict[str, Any] = field(default_factory=dict)  # how another tool's files were read
    ids: list[str] = field(default_factory=list)  # without the source that `prompt_id` may have
    shared: bool = False  # whether sources have prompts in common, which are one draw then
    least: int = 1  # prompts with fewer verdicts are left out

    @property
    def wrong(self) -> list[list[int]] | None:
        """The sizes of the classes of wrong answers; None if no answer was extracted."""
        return None if self.votes is None else [sorted(v.values()) for v in self.votes]

    @property
    def silent_P(self) -> np.ndarray:
        """Completions with a verdict and without an answer."""
        assert self.votes is not None
        votes_P = np.array([sum(v.values()) for v in self.votes])
        silent_P: np.ndarray = self.n_P - self.correct_P - votes_P
        return silent_P


class Tallying:
    """Counts batches into a `Tally`.

    The counts of each batch are an Arrow table, one row a prompt; the tables are summed when they
    have many rows. Prompts are in the order in which they first appear.
    """

    def __init__(self, *, texts: bool, answers: bool = True) -> None:
        self._counts = _summed([])
        self._parts: list[pa.Table] = []
        # Numbers of prompts, where texts, answers or samples are collected.
        self._codes: dict[tuple[str | None, str], int] = {}
        self._texts: dict[int, list[str]] | None = {} if texts else None
        self._votes: dict[int, Counter[str]] | None = {} if answers else None

    def add(self, batch: Batch) -> None:
        id_N, ids = encoded(batch.prompt_id)
        sources = pa.nulls(1, pa.large_string())
        if batch.source is not None:
            source_N, sources = encoded(batch.source)
            id_N = id_N + len(ids) * source_N.astype(np.int64)
        count_3I = _counted(id_N, batch.correct, len(ids) * len(sources))
        used_U = np.flatnonzero(count_3I.any(axis=0))
        if len(sources) > 1:  # by first appearance, which their order by source is not
            used_U, first_U = np.unique(id_N, return_index=True)
            used_U = used_U[np.argsort(first_U)]
        source_U, id_U = np.divmod(used_U, len(ids))
        columns = {"source": sources.take(pa.array(source_U)), "id": ids.take(pa.array(id_U))}
        columns |= dict(zip(COUNTS, count_3I[:, used_U], strict=True))
        self._parts.append(pa.table(columns, _COUNTED))
        if sum(map(len, self._parts)) > MANY_ROWS:
            self._counts, self._parts = _summed([self._counts, *self._parts]), []
        self._add_details(batch, id_N, used_U, columns)

    def _add_details(
        self, batch: Batch, id_N: np.ndarray, used_U: np.ndarray, columns: dict[str, Any]
    ) -> None:
        """Adds texts and answers, if they are wanted and the file has them."""
        answers = self._votes is not None and batch.extracted is not None
        if self._texts is None and not answers:
            return
        codes = self._codes
        names = zip(columns["source"].to_pylist(), columns["id"].to_pylist(), strict=True)
        code_I = np.zeros(int(used_U.max(initial=0)) + 1, dtype=np.int64)
        code_I[used_U] = [codes.setdefault(name, len(codes)) for name in names]
        code_N = code_I[id_N]
        correct_N = np.full(len(batch), -1) if batch.correct is None else batch.correct
        if self._texts is not None:
            self._keep_texts(batch, code_N, correct_N == 1)
        if answers:
            self._count_answers(batch.extracted, code_N, correct_N == 0)

    def done(self) -> Tally:
        """The tally of all that was added."""
        counted = _summed([self._counts, *self._parts])
        has_verdict = pc.greater(pc.add(counted["wrong"], counted["correct"]), 0)
        names, prefixed = _names(counted)
        named = counted.append_column("name", names)
        left_out = named.filter(pc.invert(has_verdict))["name"].to_pylist()
        measured = named if not left_out else named.filter(has_verdict)
        unknown_P, wrong_P, right_P = (measured[name].to_numpy() for name in COUNTS)
        sources, codes = measured["source"].to_pylist(), list(range(len(measured)))
        if self._codes:
            pairs = zip(sources, measured["id"].to_pylist(), strict=True)
            codes = [self._codes.get(pair, -1) for pair in pairs]
        texts = self._texts
        votes = self._votes or None  # no answer was extracted
        prompt_id: list[str] = measured["name"].to_pylist()
        return Tally(
            prompt_id,
            wrong_P + right_P,
            right_P,
            unknown_P,
            None if texts is None else [texts.get(code, []) for code in codes],
            left_out,
            sources,
            None if votes is None else [votes.get(code, {}) for code in codes],
            ids=measured["id"].to_pylist() if prefixed else prompt_id,
        )

    def _keep_texts(self, batch: Batch, code_N: np.ndarray, right_N: np.ndarray) -> None:
        assert self._texts is not None
        if batch.completion is None:
            return
        texts = batch.completion.take(pa.array(np.flatnonzero(right_N))).to_pylist()
        for code, text in zip(code_N[right_N].tolist(), texts, strict=True):
            self._texts.setdefault(code, []).append(text or "")

    def _count_answers(self, extracted: pa.Array, code_N: np.ndarray, wrong_N: np.ndarray) -> None:
        assert self._votes is not None
        answer_N, answers = encoded(extracted)
        texts = answers.to_pylist()
        pair_U, count_U = np.unique(
            code_N[wrong_N] * len(answers) + answer_N[wrong_N], return_counts=True
        )
        pairs = zip(pair_U.tolist(), count_U.tolist(), strict=True)
        for (code, answer), count in ((divmod(p, len(answers)), count) for p, count in pairs):
            if (text := texts[answer]) is not None:
                self._votes.setdefault(code, Counter())[text] += count
        if pc.any(pc.is_valid(extracted)).as_py():
            self._votes.setdefault(-1, Counter())  # some answer was extracted, if of no wrong one


def _summed(parts: list[pa.Table]) -> pa.Table:
    """One row a prompt, in the order of first appearance."""
    if not parts:
        return _COUNTED.empty_table()
    table = pa.concat_tables(parts).combine_chunks()
    id_N, ids = encoded(table["id"].combine_chunks())
    code_N = id_N  # numbered by first appearance
    if table["source"].null_count < len(table):
        source_N, _ = encoded(table["source"].combine_chunks())
        key_N = pa.array(source_N.astype(np.int64) * len(ids) + id_N)
        code_N = key_N.dictionary_encode().indices.to_numpy()
    if int(code_N.max(initial=-1)) + 1 == len(table):
        return table
    first_P = np.zeros(int(code_N.max(initial=-1)) + 1, dtype=np.int64)
    first_P[code_N[::-1]] = np.arange(len(code_N))[::-1]
    columns = {name: table[name].take(pa.array(first_P)) for name in ("source", "id")}
    for name in COUNTS:
        columns[name] = np.bincount(code_N, weights=table[name], minlength=len(first_P)).astype(int)
    return pa.table(columns, _COUNTED)


def _names(counted: pa.Table) -> tuple[pa.ChunkedArray, bool]:
    """Each prompt's id; with its source in front, and True, if several sources use one id."""
    sources, ids = counted["source"], counted["id"]
    if sources.null_count == len(counted) or len(pc.unique(ids)) == len(counted):
        return ids, False
    slash = pa.scalar("/", pa.large_string())
    return pc.binary_join_element_wise(pc.fill_null(sources, "None"), ids, slash), True


def _counted(id_N: np.ndarray, correct_N: np.ndarray | None, ids: int) -> np.ndarray:
    """How many completions of each id are unknown, wrong and correct, [3, I]."""
    if correct_N is None:
        correct_N = np.full(len(id_N), -1, dtype=np.int8)
    start_R = np.concatenate([[0], np.flatnonzero(id_N[1:] != id_N[:-1]) + 1])
    if len(start_R) * LONG_RUN > len(id_N):
        count_I3: np.ndarray = np.bincount(id_N * 3 + (correct_N + 1), minlength=3 * ids)
        return count_I3.reshape(-1, 3).T
    right_R, unknown_R = (
        np.add.reduceat((correct_N == verdict).view(np.int8), start_R, dtype=np.int32)
        for verdict in (1, -1)
    )
    wrong_R = np.diff(start_R, append=len(id_N)) - right_R - unknown_R
    counts = (unknown_R, wrong_R, right_R)
    return np.stack([
        np.bincount(id_N[start_R], weights=count_R, minlength=ids).astype(np.int64)
        for count_R in counts
    ])  # fmt: skip


def with_verdicts(tallied: Tally, n: int) -> Tally:
    """The prompts that have n completions with a verdict; the others are left out."""
    enough = np.flatnonzero(tallied.n_P >= n).tolist()
    fewer = [name for name, have in zip(tallied.prompt_id, tallied.n_P, strict=True) if have < n]
    left_out = tallied.left_out + fewer
    return replace(chosen(tallied, enough), left_out=left_out, least=max(n, tallied.least))


def chosen(tallied: Tally, rows: Sequence[int]) -> Tally:
    """The tally of some of the prompts, by their place in it."""
    rows = list(rows)
    return replace(
        tallied,
        prompt_id=[tallied.prompt_id[p] for p in rows],
        n_P=tallied.n_P[rows],
        correct_P=tallied.correct_P[rows],
        excluded_P=tallied.excluded_P[rows],
        texts=None if tallied.texts is None else [tallied.texts[p] for p in rows],
        source=[tallied.source[p] for p in rows],
        votes=None if tallied.votes is None else [tallied.votes[p] for p in rows],
        ids=[tallied.ids[p] for p in rows] if tallied.ids else [],
    )


def drawn(tallied: Tally, n_P: np.ndarray) -> Tally:
    """At most n of the completions of each prompt, drawn at random: the same for the same prompt.

    How many of them are correct is hypergeometric. Answers, which have no texts, are left out.
    """
    n_P = np.minimum(n_P, tallied.n_P)
    correct_P, texts = tallied.correct_P.copy(), list(tallied.texts or [])
    for p in np.flatnonzero(n_P < tallied.n_P).tolist():
        seed = hashlib.sha256(tallied.prompt_id[p].encode()).digest()
        rng = np.random.default_rng(list(seed[:16]))
        correct = int(tallied.correct_P[p])
        correct_P[p] = rng.hypergeometric(correct, int(tallied.n_P[p]) - correct, int(n_P[p]))
        if tallied.texts is not None:
            order = np.sort(rng.permutation(len(texts[p]))[: correct_P[p]])
            texts[p] = [texts[p][i] for i in order.tolist()]
    kept = None if tallied.texts is None else texts
    return replace(tallied, n_P=n_P, correct_P=correct_P, texts=kept, votes=None)
