"""Verdicts on many completions: each distinct question is verified once."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlvr_cli.protocols import Group, GroupVerifier, Isolated, Limits, Remote, Verdict, Verifier
from rlvr_cli.runtime import cores
from rlvr_cli.specs import grammar
from rlvr_cli.terminal import plural
from rlvr_cli.verification.remote import asking
from rlvr_cli.verification.scoring.cache import Cache
from rlvr_cli.verification.workers.pool import Answer, Pool, Task

_NO_LIMITS = Limits(0.0, 0)  # of what runs in no process of its own
_TEXT = 200  # characters of an error that are stored


@dataclass(frozen=True)
class Question:
    """One completion for one verifier."""

    spec: str
    verifier: Verifier | Isolated | Remote
    completion: str | None  # None of one that has no answer, as its thoughts do not end
    finished: bool
    answer: str
    extra: dict[str, Any]


@dataclass(frozen=True)
class GroupQuestion:
    """Completions of one prompt for one verifier."""

    spec: str
    verifier: GroupVerifier
    group: Group


class Scorer:
    """Worker processes, started when a verifier needs them, and the verdicts that are known.

    Without a cache every completion is verified, also where gold and answer were seen before.
    """

    def __init__(
        self,
        *,
        workers: int | None = None,
        cache: Cache | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.workers = workers or cores.available()
        self.cache = cache
        self.asked = 0
        """Questions that went to worker processes or to a service."""
        self.used: dict[str, Counter[str]] = {}
        """What the questions to each service took, as in tokens, by its verifier's spec."""
        self.reported: set[str] = set()
        """The specs of verifiers whose first failure was reported."""
        self._environment = environment
        self._pool: Pool | None = None
        self._imports: set[str] = set()
        self._late_imports: set[str] = set()
        self._remote: dict[str, Remote] = {}  # by their specs

    def close(self) -> None:
        if self._pool:
            self._pool.close()
            self._pool = None
        if self.cache:
            self.cache.close()

    def __enter__(self) -> "Scorer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def remarks(self) -> list[str]:
        """What there is to say once all is verified: of the cache's file, and what services took.

        Questions whose verdicts were known from before took nothing.
        """
        lines = []
        if self.cache and self.cache.trouble:
            lines.append(f"continued without `{self.cache.path}`: {self.cache.trouble}")
        for spec, used in self.used.items():
            lines.append(
                f"`{grammar.read(spec).name}` took "
                f"{plural.of(used['requests'], 'request')}, of which "
                f"{used['retries']:,} were retries, {used['prompt_tokens']:,} prompt tokens and "
                f"{used['completion_tokens']:,} completion tokens"
            )
        return lines

    def verdicts(
        self, questions: Sequence[Question], on_done: Callable[[int], None] = lambda count: None
    ) -> list[Verdict]:
        """The verdict on each question, in order; `on_done` is called as some get one."""
        verdicts: list[Verdict | None] = [None] * len(questions)
        waiting: dict[bytes, list[int]] = {}
        tasks: dict[bytes, Task] = {}
        lasting: set[bytes] = set()
        for index, question in enumerate(questions):
            verifier = question.verifier
            if not isinstance(verifier, Isolated | Remote):
                verdicts[index] = bounded(
                    verifier, question.completion, question.answer, question.extra
                )
                continue
            task = _task(question, verifier)
            if isinstance(verifier, Remote):
                settled = verifier.settle(task.extracted, task.answer, task.extra)
                if settled is not None:
                    verdicts[index] = settled
                    continue
                self._remote[question.spec] = verifier
            else:
                self._imports |= {*verifier.imports}
                self._late_imports |= {*verifier.late_imports}
            key = index.to_bytes(8, "big")
            if self.cache and verifier.is_pure:
                lasting.add(key := _key(task, verifier))
            waiting.setdefault(key, []).append(index)
            tasks.setdefault(key, task)
        on_done(len(questions) - sum(map(len, waiting.values())))
        for answered in self._answers(tasks, {key: [key] for key in tasks}, lasting):
            for key, verdict in answered.items():
                for index in waiting[key]:
                    verdicts[index] = _explained(verdict, questions[index].completion)
                on_done(len(waiting[key]))
        assert None not in verdicts, "one verdict a question"
        return verdicts  # type: ignore[return-value]

    def group_verdicts(
        self,
        questions: Sequence[GroupQuestion],
        on_done: Callable[[int], None] = lambda count: None,
    ) -> list[list[Verdict]]:
        """The verdicts on each group's completions, in order.

        None is kept for another run: what a user's function imports or asks may have changed.
        """
        tasks: dict[bytes, Task] = {}
        rows: dict[bytes, list[bytes]] = {}
        keys = []
        for index, question in enumerate(questions):
            task = Task(question.spec, None, "", {}, question.verifier.limits, question.group)
            key = index.to_bytes(8, "big")
            keys.append(key)
            tasks.setdefault(key, task)
            rows[key] = [key + n.to_bytes(4, "big") for n in range(len(question.group.completions))]
        known: dict[bytes, Verdict] = {}
        for answered in self._answers(tasks, rows, set()):
            known |= answered
            on_done(len(answered))
        return [[known[row] for row in rows[key]] for key in keys]

    def _answers(
        self, tasks: dict[bytes, Task], rows: dict[bytes, list[bytes]], lasting: set[bytes]
    ) -> Iterator[dict[bytes, Verdict]]:
        """The verdict of each row as they come; a task has one row, or those of its group.

        Those of `lasting` tasks may be known from another run, and are kept for the next.
        """
        if not tasks:
            return
        known = self.cache.get(lasting) if self.cache else {}
        keys = [key for key in tasks if not all(row in known for row in rows[key])]
        unknown = {row for key in keys for row in rows[key]}
        yield {row: verdict for row, verdict in known.items() if row not in unknown}
        if not keys:
            return
        new: dict[bytes, Verdict] = {}
        try:
            for key, answer in self._asked(tasks, keys):
                own = rows[key]
                verdicts = answer if isinstance(answer, list) else [answer] * len(own)
                new |= (answered := dict(zip(own, verdicts, strict=True)))
                self.asked += 1
                yield answered
        finally:  # what was verified before an interruption is not verified again
            if self.cache:
                self.cache.put({key: new[key] for key in lasting & new.keys()})

    def _asked(self, tasks: dict[bytes, Task], keys: list[bytes]) -> Iterator[tuple[bytes, Answer]]:
        """The answers of worker processes, and then those of services, as they come."""
        local = [key for key in keys if tasks[key].spec not in self._remote]
        if local and self._pool is None:
            self._pool = Pool(
                self.workers,
                imports=self._imports,
                late_imports=self._late_imports,
                environment=self._environment,
            )
        if local and self._pool:
            for index, answer in self._pool.run([tasks[key] for key in local]):
                yield local[index], answer
        for spec, remote in self._remote.items():
            if own := [key for key in keys if tasks[key].spec == spec]:
                remote.check()
                total = self.used.setdefault(spec, Counter())
                for index, verdict, used in asking.run(remote, [tasks[key] for key in own]):
                    total.update(used)
                    yield own[index], verdict


def bounded(
    verifier: Verifier, completion: str | None, answer: str, extra: dict[str, Any]
) -> Verdict:
    """The verdict of a verifier that needs no process; an error if it raises all the same."""
    try:
        verdict = verifier(completion or "", answer=answer, extra=extra)
        if completion is None and verdict.status == "ok":
            verdict = Verdict("no_answer", reward=0.0, correct=False)
        return _explained(verdict, completion)
    except Exception as error:
        return Verdict("error", reason=f"{type(error).__name__}: {error}"[:_TEXT])


def _explained(verdict: Verdict, completion: str | None) -> Verdict:
    """The verdict, with the reason where thoughts that do not end are why there is no answer."""
    if completion is None and verdict.status == "no_answer":
        return replace(verdict, reason="what it thinks does not end")
    return verdict


def _task(question: Question, verifier: Isolated | Remote) -> Task:
    extra = question.extra
    if verifier.reads != ("*",):
        extra = {name: extra[name] for name in verifier.reads if name in extra}
    text = question.completion
    extracted = None if text is None else verifier.extract(text, question.finished)
    limits = verifier.limits if isinstance(verifier, Isolated) else _NO_LIMITS
    return Task(question.spec, extracted, question.answer, extra, limits)


def _key(task: Task, verifier: Isolated | Remote) -> bytes:
    spec = task.spec if isinstance(verifier, Isolated) else ""  # its version has what decides
    identity = [spec, verifier.version, task.answer, task.extra, task.extracted]
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).digest()
