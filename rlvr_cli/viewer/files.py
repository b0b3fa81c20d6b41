"""Completions that other tools stored, for reading in place, without an import.

The files are read once, from start to end. What is read so far can be shown meanwhile: small
columns stay in memory, texts wait in a `Spill`.

Shapes: N completions, P prompts, U different prompts with their golds.
"""

import hashlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rlvr_cli.errors import UserError
from rlvr_cli.interop import completions, readers
from rlvr_cli.interop.completions import Batch, Stream
from rlvr_cli.interop.turns import fingerprint, text, turns
from rlvr_cli.terminal import plural
from rlvr_cli.viewer.directories import matches
from rlvr_cli.viewer.index import UNKNOWN, Columns, Detail, Index
from rlvr_cli.viewer.spill import Spill

_ROWS_PER_BATCH = 256  # few, so that the first ones are soon on the screen
_FIRST = 64
_Named = tuple[str, str | None]  # a column and its value
# Columns of known tools that their readers turned into prompts and completions.
_RAW = {
    *("resps", "filtered_resps", "arguments", "completions", "responses", "solutions"),
    *("eval", "output", "input"),
}


def snapshots(path: Path, columns: completions.Columns | None = None) -> Iterator["FileIndex"]:
    """What is read of a path so far: first a little, then twice as much each time, at last all.

    Errors of the files come after the snapshots of what could be read before them, or at once if
    they come before the first.
    """
    store, shown = _Store(path, columns), 0
    failure: UserError | None = None
    try:
        for batch in store.stream:
            store.add(batch)
            if store.rows >= max(_FIRST, 2 * shown):
                shown = store.rows
                yield FileIndex(store)
    except UserError as error:
        failure = error
    if (store.rows > shown and (shown or not failure)) or (shown and store.stream.graded):
        yield FileIndex(store)
    if failure:
        raise failure


class FileIndex(Index):
    """The completions of files that were read so far, by row."""

    def __init__(self, store: "_Store") -> None:
        self._store = store
        small = store.small()
        sources = [source for source, _ in store.keys]
        ids = [prompt_id for _, prompt_id in store.keys]
        super().__init__(small, ids, [], sources if any(sources) else None)
        self._length_N, self._asked_N = store.joined("length"), store.joined("asked")
        self._rest_N, self._place_N = store.joined("rest"), store.joined("place")
        self._reward_N = small.reward_N

    @property
    def length_N(self) -> np.ndarray:
        return self._length_N

    def asked(self, prompt: int) -> tuple[int | None, int | None]:
        return self._store.asked_U[int(self._asked_N[self.rows_of(prompt)[0]])]

    def several(self, prompt: int) -> bool:
        return len(np.unique(self._asked_N[self.rows_of(prompt)])) > 1

    def detail(self, row: int) -> Detail:
        texts = self._store.texts.row(row)
        asked = self._store.asked.row(int(self._asked_N[row]))
        reward, prompt = float(self._reward_N[row]), asked["prompt"]
        return Detail(
            int(self.sample_N[row]), None if prompt is None else turns(json.loads(prompt)),
            asked["answer"], texts["completion"], None, texts["finish"], None,
            int(self.verdict_N[row]), None if np.isnan(reward) else reward, texts["extracted"],
            None, None, {}, self._others(row),
        )  # fmt: skip

    def _others(self, row: int) -> dict[str, str]:
        """What else the file's row says; of a list with an item a completion, the item."""
        values = json.loads(self._store.rest.row(int(self._rest_N[row]))["rest"] or "{}")
        place, size = int(self._place_N[row]), int((self._rest_N == self._rest_N[row]).sum())
        return {
            name: text(
                value[place] if isinstance(value, list) and len(value) == size > 1 else value
            )
            for name, value in values.items()
        }

    def holding(self, wanted: str) -> np.ndarray:
        match_N = self._store.holding("texts", wanted)[: len(self)]
        match_U = self._store.holding("asked", wanted, but="prompt")
        names = self.names(with_sources=True)
        named_P = np.array([wanted.casefold() in name.casefold() for name in names])
        holds_N: np.ndarray = match_N | match_U[self._asked_N] | named_P[self.prompt_N]
        return holds_N


class _Store:
    """What was read of a stream so far: written by one thread, the spills read by another."""

    def __init__(self, path: Path, columns: completions.Columns | None) -> None:
        wanted = {"correct", "reward", "completion", "extracted", "source", "sample", "finish"}
        self.stream = Stream(
            path, columns, wanted=wanted, rows=True, checks=False, rows_per_batch=_ROWS_PER_BATCH
        )
        self.keys: dict[tuple[str | None, str], int] = {}
        self.rows = 0
        self.asked_U: list[tuple[int | None, int | None]] = []
        self.texts = Spill("completion", "extracted", "finish")
        self.asked = Spill("prompt", "said", "answer")  # said: the prompt as it is searched
        self.rest = Spill("rest")
        self._parts: dict[str, list[np.ndarray]] = {}
        self._numbers: dict[tuple[int | None, int | None], int] = {}
        self._matching: dict[str, tuple[str, list[np.ndarray]]] = {}
        self._searching = threading.Lock()

    def add(self, batch: Batch) -> None:
        size, keys = len(batch), self.keys
        sources = [None] * size if batch.source is None else batch.source.to_pylist()
        pairs = zip(sources, batch.prompt_id.to_pylist(), strict=True)
        nothing, unknown_N = pa.nulls(size, pa.large_string()), np.full(size, np.nan)
        texts = {
            name: nothing if (column := getattr(batch, name)) is None else column
            for name in ("completion", "extracted", "finish")
        }
        length_N = pc.fill_null(pc.utf8_length(texts["completion"]), 0).to_numpy()
        parts = {
            "prompt": np.array([keys.setdefault(pair, len(keys)) for pair in pairs], np.int32),
            "sample": unknown_N if batch.sample is None else batch.sample,
            "verdict": np.full(size, UNKNOWN, np.int8) if batch.correct is None else batch.correct,
            "reward": unknown_N if batch.reward is None else batch.reward,
            "length": length_N.astype(np.int32),
            "cut": np.array([word == "length" for word in texts["finish"].to_pylist()], bool),
            **self._ask(batch),
        }
        self.texts.add(**texts)
        for name, part in parts.items():
            self._parts.setdefault(name, []).append(part)
        self.rows += size

    def _ask(self, batch: Batch) -> dict[str, np.ndarray]:
        """Which prompt and gold each completion has, and which row of the file it is from."""
        new: list[tuple[str | None, str | None]] = []
        rest: list[str | None] = []
        asked, rows, places = [], [], []
        number, place, before = 0, 0, None
        for row in batch.rows:
            place += 1
            if row is not before:
                before, place = row, 0
                prompt_name, prompt = self._look_up(row, "prompt", readers.PROMPT)
                answer_name, answer = self._look_up(row, "gold", readers.ANSWER)
                pair = prompt, _plain(answer)
                key = _hash(pair[0]), _hash(pair[1])
                if key not in self._numbers:
                    self._numbers[key] = len(self._numbers)
                    new.append(pair)
                    said_hash = None if pair[0] is None else fingerprint(json.loads(pair[0]))
                    self.asked_U.append((said_hash, key[1]))
                number = self._numbers[key]
                rest.append(self._rest_of(row, (prompt_name, answer_name)))
            asked.append(number)
            rows.append(self.rest.rows + len(rest) - 1)
            places.append(place)
        if new:
            prompts, answers = zip(*new, strict=True)
            said = ["\n".join(s for _, s in turns(json.loads(p or "null"))) for p in prompts]
            self.asked.add(prompt=prompts, said=said, answer=answers)
        self.rest.add(rest=rest)
        numbers = {"asked": asked, "rest": rows, "place": places}
        return {name: np.array(values, np.int32) for name, values in numbers.items()}

    def _look_up(self, row: dict[str, Any], what: str, known: tuple[str, ...]) -> _Named:
        """The name of a row's prompt or gold, and its value as JSON; `solution` may be neither."""
        columns, completion = self.stream.columns, self.stream.has.get("completion", "")
        said = readers.look_up(row, completion)
        if given := getattr(columns, what):
            names: tuple[str, ...] = () if given == columns.NO_COLUMN else (given,)
        else:
            names = (*self.stream.candidates(what), *known)
        for name in names:
            value = readers.look_up(row, name)
            if value is None or name == completion or (name == "solution" and value == said):
                continue
            return name, json.dumps(value, default=_named)
        return "", None

    def _rest_of(self, row: dict[str, Any], shown: tuple[str, str]) -> str | None:
        """The columns of a row that are shown nowhere else, as JSON; None without any."""
        used = {name.partition(".")[0] for name in (*self.stream.has.values(), *shown)}
        rest = {n: v for n, v in row.items() if n not in used and n not in _RAW and v is not None}
        return json.dumps(rest, ensure_ascii=False, default=_named) if rest else None

    def small(self) -> Columns:
        """The small columns; a sample without a number has its place among its prompt's."""
        prompt_N, sample_N = self.joined("prompt"), self.joined("sample")
        order_N = np.argsort(prompt_N, kind="stable")
        start_P = np.searchsorted(prompt_N[order_N], np.arange(len(self.keys)))
        place_N = np.empty(len(prompt_N), np.int64)
        place_N[order_N] = np.arange(len(prompt_N)) - start_P[prompt_N[order_N]]
        verdict_N = self.joined("verdict")
        if self.stream.graded and "correct" not in self.stream.has:
            verdict_N = np.full_like(verdict_N, UNKNOWN)
        return Columns(
            prompt_N,
            np.where(np.isnan(sample_N), place_N, sample_N).astype(np.int64),
            verdict_N,
            self.joined("reward"),
            self.joined("cut"),
            np.zeros(len(prompt_N), np.int16),
        )

    def joined(self, name: str) -> np.ndarray:
        """One of the small columns, as far as it was read."""
        parts = self._parts[name]
        parts[:] = [np.concatenate(parts)]
        return parts[0]

    def holding(self, kind: str, wanted: str, *, but: str = "") -> np.ndarray:
        """Which rows of a spill hold a text, in either case; only new pieces are looked at."""
        with self._searching:
            if self._matching.get(kind, ("", []))[0] != wanted:
                self._matching[kind] = wanted, []
            done = self._matching[kind][1]
            for piece in getattr(self, kind).pieces(len(done)):
                looked = [piece[name] for name in piece.schema.names if name != but]
                done.append(np.logical_or.reduce([matches(c, wanted) for c in looked]))
            return np.concatenate(done) if done else np.zeros(0, bool)


def _named(value: Any) -> str:
    """The text for a value that JSON lacks: of bytes, as of an image, size and digest."""
    if isinstance(value, bytes):
        return f"{plural.size(len(value))}, {hashlib.sha256(value).hexdigest()[:12]}"
    return str(value)


def _plain(value: str | None) -> str | None:
    """A text that is JSON of a text as that text."""
    return json.loads(value) if value and value.startswith('"') else value


def _hash(value: str | None) -> int | None:
    return None if value is None else hash(value)
