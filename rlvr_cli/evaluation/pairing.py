"""Which prompts of two sides are the same: those that agree in all that both know of them.

An id by itself says little: two tasks of a benchmark both number their documents from 0.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.evaluation.tallies import Tally
from rlvr_cli.interop.completions import Batch
from rlvr_cli.stages import overlap
from rlvr_cli.storage.shards import Shards

FIELDS = ("id", "source", "text", "gold")
_COLUMNS = {"text": "prompt", "gold": "gold"}
FEW = 3  # prompts that a remark names

_TEXT = pa.large_string()
Key = tuple[str | None, str]  # a prompt's source and its id
Facts = dict[str, str | None]  # the FIELDS of a prompt; None is not known


@dataclass(frozen=True)
class Prompts:
    """What is known of a side's prompts, in the order of its tally."""

    facts: list[Facts]

    def chosen(self, rows: Sequence[int]) -> "Prompts":
        return Prompts([self.facts[p] for p in rows])


@dataclass(frozen=True)
class Match:
    """The positions of the same prompts in two sides, and other prompts that share an id."""

    rows: list[tuple[int, int]]
    known: Counter[str]  # of how many pairs both sides know a field
    differing: dict[str, list[str]]  # by field, the ids whose prompts differ in it
    by: Sequence[str] = FIELDS

    @property
    def others(self) -> int:
        """How many ids the two have for different prompts."""
        return sum(map(len, self.differing.values()))

    def described(self) -> str:
        """By what the prompts were paired, as in `id, text and gold of 80 of 100`."""
        names = []
        for name in FIELDS:
            if count := self.known[name]:
                some = f" of {count} of {len(self.rows)}" if count < len(self.rows) else ""
                names.append(name + some)
        unknown = [name for name in ("text", "gold") if name in self.by and not self.known[name]]
        return (
            _listed(names)
            + (" alone" if len(names) == 1 else "")
            + (f", as not both hold each {' and '.join(unknown)}" if unknown else "")
        )


@dataclass
class PromptFacts:
    """Collects the ids, texts and golds of a file's prompts in batches; long texts as hashes.

    The batches' `Stream` has held the rows of a prompt to one text and one gold.
    """

    by: Sequence[str] = FIELDS
    facts: dict[Key, Facts] = field(default_factory=dict)
    step: int | None = None  # of the policy, where all of the file are of one

    @property
    def wanted(self) -> set[str]:
        """The columns to read."""
        return {column for name, column in _COLUMNS.items() if name in self.by}

    def add(self, batch: Batch) -> None:
        columns = {"id": batch.prompt_id, "source": batch.source}
        columns |= {"text": batch.prompt, "gold": batch.gold}
        table = pa.table({
            name: pa.nulls(len(batch), _TEXT) if column is None else pc.cast(column, _TEXT)
            for name, column in columns.items()
        })  # fmt: skip
        distinct = table.group_by(table.column_names, use_threads=False).aggregate([])
        for prompt_id, source, text, gold in zip(*map(pa.ChunkedArray.to_pylist, distinct.columns),
                                                 strict=True):  # fmt: skip
            new = {"text": text and _hash(_question_of(text)), "gold": _gold(gold)}
            known = self.facts.setdefault(
                (source, prompt_id), {"id": prompt_id, "source": source, "text": None, "gold": None}
            )
            for name, value in new.items():
                known[name] = value if known[name] is None else known[name]

    def of(self, tallied: Tally, own_name: str) -> Prompts:
        """Those of a tally; a source that is only the file's own name says nothing."""
        keys = zip(tallied.source, tallied.ids, strict=True)
        return Prompts([_without(self.facts[key], own_name) for key in keys])


def of_scores(scores: Shards, tallied: Tally) -> Prompts:
    """The prompts of a scores directory; if they were moved away, only their ids."""
    try:
        prompts = scores.parent("prompts")
    except (DataError, LookupError):
        return Prompts([_fact(prompt_id) for prompt_id in tallied.prompt_id])
    params = dict(prompts.params)  # of several, what all have alike
    origin = str(params.get("imported") or params.get("source") or "")
    own_name = origin.rpartition("/")[2].partition(".")[0]
    names = ("prompt_id", "source", "messages", "answer")
    facts = {
        row["prompt_id"]: _without(
            _fact(
                row["prompt_id"],
                row["source"],
                _hash(_question(json.loads(row["messages"]))),
                _gold(row["answer"]),
            ),
            own_name,
        )
        for table in prompts.parts()
        for row in table.select(names).to_pylist()
    }
    of_inputs = bool(tallied.read.get("apart"))
    keys = zip(tallied.source, tallied.ids, strict=True)
    return Prompts([facts[name] | ({"source": s} if of_inputs else {}) for s, name in keys])


def _fact(
    prompt_id: str, source: str | None = None, text: str | None = None, gold: str | None = None
) -> Facts:
    return {"id": prompt_id, "source": source, "text": text, "gold": gold}


def _without(facts: Facts, own_name: str) -> Facts:
    return facts | {"source": None} if facts["source"] == own_name else facts


def _question_of(text: str) -> str:
    """What a column of prompts asks: messages came as JSON."""
    try:
        return _question(json.loads(text) if text.startswith("[") and '"role"' in text else text)
    except (ValueError, RecursionError):
        return _question(text)


def _question(prompt: Any) -> str:
    """What a prompt asks, of messages those before the model's answer, however it is written."""
    if isinstance(prompt, list):
        if not all(isinstance(m, dict) and {"role", "content"} <= m.keys() for m in prompt):
            return json.dumps(prompt, default=str)
        while prompt and prompt[-1]["role"] == "assistant":
            prompt = prompt[:-1]
    return overlap.text_of_value(prompt)


def _hash(text: str) -> str | None:
    """A hash of a prompt's text; an empty text is not known."""
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=12).hexdigest() or None


def _gold(answer: Any) -> str | None:
    """A gold in one spelling: `5`, `5.0` and ` 5` are one."""
    if answer is None or not (text := str(answer).strip()):
        return None
    try:
        return repr(float(text))
    except ValueError:
        return text


def fields(text: str | None) -> tuple[str, ...]:
    """The fields in `id,source,gold`, all of them if nothing was given."""
    names = FIELDS if text is None else tuple(name.strip() for name in text.split(","))
    if "id" not in names or not set(names) <= set(FIELDS):
        raise UsageError(
            f"--pair-by is `{text}`", f"write id and some of {', '.join(FIELDS[1:])}: --pair-by id"
        )
    return tuple(name for name in FIELDS if name in names)


def match(first: Prompts, second: Prompts, by: Sequence[str] = FIELDS) -> Match:
    """Pairs the prompts that have one id and agree in the fields `by` that both sides know.

    Raises DataError where a prompt of one side may be several of the other.
    """
    places: dict[str | None, list[int]] = {}
    for q, facts in enumerate(second.facts):
        places.setdefault(facts["id"], []).append(q)
    rows: list[tuple[int, int]] = []
    known, differing, owner = Counter[str](), dict[str, list[str]](), dict[int, int]()
    for p, facts in enumerate(first.facts):
        candidates = places.get(facts["id"], [])
        apart = [_apart(facts, second.facts[q], by) for q in candidates]
        same = [q for q, names in zip(candidates, apart, strict=True) if not names]
        if len(same) > 1 or any(q in owner for q in same):
            raise DataError(
                f"the id `{facts['id']}` belongs to several prompts, which no source distinguishes "
                "on both sides",
                "name the column of their sources with --source-column",
            )
        if same:
            owner[same[0]] = p
            rows.append((p, same[0]))
            known.update(name for name in by if _both(facts, second.facts[same[0]], name))
        elif apart:
            nearest = min(apart, key=len)
            differing.setdefault(_listed(nearest), []).append(str(facts["id"]))
    return Match(rows, known, differing, by)


def _both(one: Facts, other: Facts, name: str) -> bool:
    return one[name] is not None and other[name] is not None


def _apart(one: Facts, other: Facts, by: Sequence[str]) -> list[str]:
    """The fields that both know and in which they differ."""
    return [name for name in by if _both(one, other, name) and one[name] != other[name]]


def refusal(
    one: str, other: str, first: Prompts, second: Prompts, by: Sequence[str] = FIELDS
) -> tuple[str, str] | None:
    """Why two sides, named `one` and `other`, cannot be compared, and what to do; None if they can.

    Where no text is known, prompts with one id and other golds say that the rest agree by chance.
    """
    matched = match(first, second, by)
    if not matched.others:
        if matched.rows:
            return None
        return (
            f"{one} and {other} have no prompt in common: the first has "
            f"`{first.facts[0]['id']}`, the second `{second.facts[0]['id']}`",
            "compare runs over the same held-out prompts",
        )
    if matched.rows and matched.known["text"]:
        return None
    names, ids = max(matched.differing.items(), key=lambda item: len(item[1]))
    return (
        f"{one} and {other} use the same ids for other prompts: `{ids[0]}` has another {names}",
        "compare runs over the same held-out prompts" + _otherwise(first, second, by),
    )


def _otherwise(first: Prompts, second: Prompts, by: Sequence[str]) -> str:
    """The --pair-by without one field that would pair every common id by another one."""
    optional = [name for name in by if name != "id"]
    for without in optional:
        names = [name for name in by if name != without]
        matched = match(first, second, names)
        if any(matched.known[name] for name in optional) and not matched.others:
            return f"; if they are the same, pair them by --pair-by {','.join(names)}"
    return ""


def left_out(name: str, prompt_ids: Sequence[str], rows: Sequence[int]) -> str:
    """How many prompts of a side are not among those rows, and the first few; else nothing."""
    kept = set(rows)
    return counted_few(f"of {name}", [x for p, x in enumerate(prompt_ids) if p not in kept])


def counted_few(what: str, ids: Sequence[str]) -> str:
    """`3 of `a` (x, y, z)`; nothing of none."""
    if not ids:
        return ""
    more = ", …" if len(ids) > FEW else ""
    return f"{len(ids):,} {what} ({', '.join(ids[:FEW])}{more})"


def differing(matched: Match) -> Iterator[str]:
    """How many common ids belong to different prompts, by what they differ in."""
    for names, ids in matched.differing.items():
        yield counted_few(f"with one id and another {names}", ids)


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
