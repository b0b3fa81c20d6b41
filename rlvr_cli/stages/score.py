"""The stage that verifies completions."""

import functools
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from rlvr_cli import registry
from rlvr_cli.errors import DataError, TooManyErrors, UsageError
from rlvr_cli.models import messages
from rlvr_cli.protocols import FAULTS, Isolated, Verdict
from rlvr_cli.runtime import cores, distributed
from rlvr_cli.specs import grammar
from rlvr_cli.storage import schema
from rlvr_cli.storage.plan import Plan
from rlvr_cli.storage.shards import ALL_PARTS, Shards, Share, begun_with
from rlvr_cli.storage.writer import OnPart, write_shards_streaming
from rlvr_cli.verification.sandbox import launch
from rlvr_cli.verification.scoring import rewards
from rlvr_cli.verification.scoring.cache import Cache, default_path
from rlvr_cli.verification.scoring.rewards import Part
from rlvr_cli.verification.scoring.scorer import Question, Scorer, bounded

_PROMPTS = 1024  # whose golds are kept ready
ROWS_AT_ONCE = 8192  # parts are verified together up to so many rows, so that no worker waits


def scorer(
    *,
    workers: int | None = None,
    cache: Path | None = None,
    use_cache: bool = True,
    sandbox: str | None = None,
) -> Scorer:
    """What verifies: a process for each core of this one's share, and what is known already."""
    share = cores.available() // distributed.current().size
    kept = Cache(cache or default_path()) if use_cache else None
    environment = {launch.VARIABLE: sandbox} if sandbox else {}
    return Scorer(workers=workers or max(1, share), cache=kept, environment=environment)


def sandbox(*, unsafe: bool) -> str:
    """The kind of sandbox that programs run in here; an error if there is none."""
    return launch.choose(unsafe=unsafe)


def isolation(sandbox: str) -> str:
    """How programs are isolated here, in words."""
    return launch.described(sandbox)


def run(
    rollouts: Shards,
    out: Path,
    *,
    verifier: str | None = None,
    prompts: Path | None = None,
    share: Share = ALL_PARTS,
    with_scorer: Scorer | None = None,
    allow_code: bool = False,
    on_part: OnPart = lambda index, state: None,
    on_rows: Callable[[int], None] = lambda count: None,
) -> Shards | None:
    """A scores directory: one verdict a completion, by each prompt's verifier or the one given.

    A fault of the verifier is a status with a null reward, never a 0. Where a reward has several
    parts, each has a column. `on_rows` hears of every few rows that have their verdict.
    """
    parent = rollouts.parent("prompts", prompts)
    stored = begun_with(out).get("verifier")
    spec = None if verifier is None else rewards.canonical(verifier, stored)
    golds = _Golds(parent, spec)
    golds.require_permission(allow_code=allow_code)

    def make(missing: list[int], asked: Scorer) -> Iterator[tuple[int, pa.Table]]:
        for indices in _batches(rollouts, missing):
            tables = [rollouts.part(index) for index in indices]
            rows = pa.concat_tables(t.select(_READ) for t in tables).to_pylist()
            verdicts = _verdicts(rows, golds, asked, on_rows)
            start = 0
            for index, table in zip(indices, tables, strict=True):
                part = verdicts[start : start + table.num_rows]
                start += table.num_rows
                yield index, _table(table, part, golds.columns)

    def make_with(missing: list[int]) -> Iterator[tuple[int, pa.Table]]:
        if with_scorer is not None:
            yield from make(missing, with_scorer)
            return
        with scorer() as own:
            yield from make(missing, own)

    return write_shards_streaming(
        out,
        _plan(rollouts, golds, spec),
        make_with,
        share=share,
        summarise=summarise,
        on_part=on_part,
    )


def _plan(rollouts: Shards, golds: "_Golds", spec: str | None) -> Plan:
    params: dict[str, Any] = {"verifier": spec}
    if golds.files:
        params["files"] = golds.files
    return Plan(
        "scores",
        "score",
        params,
        {"rollouts": rollouts},
        len(rollouts),
        extra=golds.columns,
        specs={"verifier": lambda stored: rewards.canonical(stored, stored)},
        optional=("files",),
        behaviour=golds.versions,
    )


_READ = ["prompt_id", "completion", "finish_reason"]


class _Golds:
    """What each prompt's completions are verified with: `spec`, or the verifier of its row."""

    def __init__(self, prompts: Shards, spec: str | None) -> None:
        self._rows = {row["prompt_id"]: row for row in prompts.table().to_pylist()}
        self._spec = spec
        texts = {spec} if spec else {row["verifier"] for row in self._rows.values()} - {None}
        by = "" if spec else f"the `verifier` column of `{prompts.path}`"
        self._rewards = {text: rewards.build(text, named_by=by) for text in sorted(texts)}
        self.parts = [part for reward in self._rewards.values() for part in reward]
        self.of = functools.lru_cache(maxsize=_PROMPTS)(self._gold)  # its completions are together

    @property
    def columns(self) -> tuple[str, ...]:
        """A column for each part of a reward that is a sum."""
        sums = [reward for reward in self._rewards.values() if len(reward) > 1]
        return tuple(dict.fromkeys(part.column for reward in sums for part in reward))

    @property
    def files(self) -> dict[str, str]:
        """The sha256 of each file of the user's own, by the spec that names it."""
        return {
            part.spec: part.verifier.version
            for part in self.parts
            if isinstance(part.verifier, Isolated) and part.spec.startswith("custom:")
        }

    @property
    def versions(self) -> dict[str, int]:
        specs = sorted({part.spec for part in self.parts})
        return {
            f"verifier `{grammar.read(s).name}`": registry.version("verifiers", s) for s in specs
        }

    def require_permission(self, *, allow_code: bool) -> None:
        """An error if a verifier runs what a model wrote, unless that is allowed."""
        for part in self.parts:
            runs_code = isinstance(part.verifier, Isolated) and part.verifier.runs_code
            if runs_code and not allow_code:
                raise UsageError(
                    f"the verifier `{part.name}` executes what a model wrote",
                    "say that it may with --allow-code-execution",
                )

    def _gold(self, prompt_id: str) -> "_Gold":
        row = self._rows[prompt_id]
        text = self._spec or row["verifier"]
        if text is None:
            raise DataError(
                f"prompt `{prompt_id}` names no verifier",
                f"name one with --verifier: {', '.join(registry.names('verifiers'))}",
            )
        extra = json.loads(row["extra"]) if row["extra"] else {}
        extra["prompt"] = messages.question(messages.stored(row["messages"], prompt_id))
        return _Gold(self._rewards[text], row["answer"], extra)


@dataclass(frozen=True)
class _Gold:
    """The parts of a prompt's reward, its gold answer, and its `extra` with its text."""

    parts: tuple[Part, ...]
    answer: str | None
    extra: dict[str, Any]


def _batches(rollouts: Shards, missing: list[int]) -> Iterator[list[int]]:
    """Parts in order, as many at once as hold ROWS_AT_ONCE rows."""
    batch: list[int] = []
    rows = 0
    for index in missing:
        batch.append(index)
        rows += rollouts.manifest["parts"][index]["rows"]
        if rows >= ROWS_AT_ONCE:
            yield batch
            batch, rows = [], 0
    if batch:
        yield batch


_NO_GOLD = Verdict("bad_gold")
Scored = tuple[tuple[Part, ...], list[Verdict]]


def _verdicts(
    rows: list[dict[str, Any]], golds: _Golds, scorer: Scorer, on_rows: Callable[[int], None]
) -> list[Scored | None]:
    """The parts of each row's reward with their verdicts; None where sampling was broken off."""
    questions: list[Question] = []
    places: list[tuple[list[Verdict], int]] = []  # of each question: where its verdict belongs
    scored: list[Scored | None] = []
    for row in rows:
        if row["finish_reason"] == "abort":
            scored.append(None)
            continue
        gold = golds.of(row["prompt_id"])
        own = [_NO_GOLD] * len(gold.parts)
        scored.append((gold.parts, own))
        for index, part in enumerate(gold.parts if gold.answer is not None else ()):
            assert gold.answer is not None
            verifier, text = part.verifier, row["completion"]
            if not isinstance(verifier, Isolated):
                own[index] = bounded(verifier, text, gold.answer, gold.extra)
                continue
            finished = row["finish_reason"] != "length"
            question = Question(part.spec, verifier, text, finished, gold.answer, gold.extra)
            questions.append(question)
            places.append((own, index))
    if not questions:
        on_rows(len(rows))
    share, reported = len(rows) / max(len(questions), 1), 0.0

    def report(count: int) -> None:
        nonlocal reported
        before, reported = reported, reported + count * share
        on_rows(round(reported) - round(before))

    for (own, index), verdict in zip(places, scorer.verdicts(questions, report), strict=True):
        own[index] = verdict
    return scored


def _table(rows: pa.Table, scored: list[Scored | None], columns: tuple[str, ...]) -> pa.Table:
    verdicts = [s and rewards.combine(*s) for s in scored]
    table = {
        "prompt_id": rows["prompt_id"],
        "sample_index": rows["sample_index"],
        "reward": [v and v.reward for v in verdicts],
        "correct": [v and v.correct for v in verdicts],
        "extracted": [v and _storable(v.extracted) for v in verdicts],
        "status": [v.status if v else "aborted" for v in verdicts],
    }
    for column in columns:
        table[column] = [
            None
            if s is None
            else next((v.reward for p, v in zip(*s, strict=True) if p.column == column), None)
            for s in scored
        ]
    return pa.table(table, schema.schema("scores", columns))


def _storable(text: str | None) -> str | None:
    """The text with lone surrogates, which are no UTF-8, as question marks."""
    if text is None or text.isascii():
        return text
    return text.encode(errors="replace").decode()


def summarise(scores: Shards) -> dict[str, Any]:
    """Counts by status, the mean reward and the share of correct completions."""
    status: Counter[str] = Counter()
    sums: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for table in scores.parts():
        status.update(table["status"].to_pylist())
        for name in ("reward", "correct"):
            values = [value for value in table[name].to_pylist() if value is not None]
            sums[name] += sum(values)
            counts[name] += len(values)
    means = {name: sums[name] / count if count else None for name, count in counts.items()}
    return {
        "completions": scores.rows,
        "status": dict(sorted(status.items())),
        "reward": means.get("reward"),
        "correct": means.get("correct"),
        "missing": scores.rows - counts["reward"],
    }


def check_error_rate(scores: Shards, limit: float) -> None:
    """An error if the verifier failed on a larger share of the rows than the limit."""
    status = scores.summary["status"]
    faults = {name: status[name] for name in FAULTS if name in status}
    rate = sum(faults.values()) / max(scores.rows, 1)
    if rate > limit:
        listed = ", ".join(f"{count} {name}" for name, count in faults.items())
        raise TooManyErrors(
            f"`{scores.path}` is done, but the verifier failed on {rate:.1%} of its rows: {listed}",
            "look at the rows by status; allow more with --max-error-rate",
        )
