"""The verifiers of each prompt's completions, and what is refused before any are sampled."""

import functools
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rlvr_cli import registry
from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.models import messages as shapes
from rlvr_cli.protocols import GroupVerifier, Isolated, Remote
from rlvr_cli.specs import grammar, trust
from rlvr_cli.storage import rows
from rlvr_cli.storage.shards import Shards
from rlvr_cli.verification.functions.signatures import GOLDS
from rlvr_cli.verification.scoring import joins, rewards
from rlvr_cli.verification.scoring.rewards import Part

_NAMING = ["prompt_id", "answer", "verifier", "source", "extra"]
_READ = [*_NAMING, "messages"]


@dataclass(frozen=True)
class Gold:
    """The parts of a prompt's reward, its gold answer, and its stored columns.

    `extra` holds the prompt's text as `prompt` too; `prefilled` is what the completions continue.
    """

    parts: tuple[Part, ...]
    answer: str | None
    extra: dict[str, Any]
    messages: Any
    source: str | None
    prefilled: str

    def of(self, part: Part) -> str | None:
        """The gold of a part; None where it has one of its own and the prompt holds none."""
        return None if self.answer is None else joins.gold_of(self.answer, part.place)


class PromptRewards:
    """The rewards of prompts: `spec`, or the verifier of each row.

    Building it reads every spec, so unknown, untrusted or uncallable verifiers are refused before
    anything else is done.
    """

    def __init__(self, prompts: Shards, spec: str | None) -> None:
        self._prompts, self._spec = prompts, spec
        self._named = _named(prompts.path, prompts.digest, spec)
        self._named_by = "" if spec else f"the `verifier` column of `{prompts.path}`"
        self._rewards = {
            text: rewards.build(text, named_by=self._named_by) for text in self._named.texts
        }
        self.parts = [part for reward in self._rewards.values() for part in reward]
        self._reward_of = _naming(spec)
        self._ready: dict[str, Gold] = {}

    @property
    def columns(self) -> tuple[str, ...]:
        """A column for each part of a reward that is a sum."""
        sums = [reward for reward in self._rewards.values() if len(reward) > 1]
        return tuple(dict.fromkeys(part.column for reward in sums for part in reward))

    @property
    def needs_tokens(self) -> bool:
        verifiers = [part.verifier for part in self.parts]
        return any(isinstance(v, GroupVerifier) and v.needs_tokens for v in verifiers)

    @property
    def files(self) -> dict[str, str]:
        """The sha256 of each file of the user's own, by the spec that names it."""
        return {
            part.spec: part.verifier.version
            for part in self.parts
            if isinstance(part.verifier, Isolated | GroupVerifier)
            and part.spec.startswith("custom:")
        }

    @property
    def versions(self) -> dict[str, int]:
        specs = sorted({part.spec for part in self.parts})
        return {
            f"verifier `{grammar.read(s).name}`": registry.version("verifiers", s) for s in specs
        }

    def require_all(self) -> None:
        """An error if a prompt has no verifier, or lacks a column that its function takes."""
        if self._named.missing:
            raise DataError(
                f"prompt `{self._named.first_missing}` names no verifier, as do "
                f"{self._named.missing} of {self._prompts.rows} of `{self._prompts.path}`",
                f"name one with --verifier: {', '.join(rewards.names())}, or your own, "
                "reward.py:function",
            )
        taking = tuple(
            (text, part.name, tuple(verifier.columns), _given(verifier))
            for text, reward in self._rewards.items()
            for part in reward
            if isinstance(verifier := part.verifier, GroupVerifier | Remote) and verifier.columns
        )
        if not taking:
            return
        path, digest = self._prompts.path.absolute(), self._prompts.digest
        if lacking := _first_lacking(path, digest, self._spec, taking):
            raise DataError(
                f"prompt `{lacking.prompt_id}` has no column `{lacking.column}`, which "
                f"`{lacking.part}` takes",
                f"make the prompts again from data that has it, or take one of "
                f"{', '.join(lacking.there)}",
            )

    def require_permission(self, *, allow_code: bool) -> None:
        """An error if a verifier runs what a model wrote, unless that is allowed.

        Or if it sends completions where only the prompts or a configuration say.
        """
        for part in self.parts:
            runs_code = isinstance(part.verifier, Isolated) and part.verifier.runs_code
            if runs_code and not allow_code:
                raise UsageError(
                    f"the verifier `{part.name}` executes what a model wrote",
                    "say that it may with --allow-code-execution",
                )
            if isinstance(part.verifier, Remote):
                trust.require_service(
                    part.verifier.host,
                    part.verifier.host_variable,
                    part.verifier.key_variable,
                    named_by=self._named_by or "the configuration",
                )

    def prepare(self, prompt_ids: Iterable[str]) -> None:
        """Loads the golds of these prompts, and of no others, for `of`."""
        wanted = list(dict.fromkeys(prompt_ids))
        table = rows.of(self._prompts)
        prompts = table.take(table.numbers_of(wanted), _READ).to_pylist()
        self._ready = {row["prompt_id"]: self._gold(row) for row in prompts}

    def of(self, prompt_id: str) -> Gold:
        return self._ready[prompt_id]

    def _gold(self, row: dict[str, Any]) -> Gold:
        extra, messages = _extra(row["extra"]), shapes.stored(row["messages"], row["prompt_id"])
        text, prefilled = shapes.question(messages), _prefilled(messages)
        reward = self._rewards[str(self._reward_of(row))]
        return Gold(
            reward, row["answer"], extra | {"prompt": text}, messages, row["source"], prefilled
        )


@dataclass(frozen=True)
class _Named:
    """The rewards that prompts have, each once and in order, and how many have none."""

    texts: tuple[str, ...]
    missing: int
    first_missing: str


@functools.lru_cache(maxsize=4)
def _named(path: Path, digest: str, spec: str | None) -> _Named:
    """What all prompts of a directory are verified with; they are read once a process for it."""
    prompts = Shards.open(path, "prompts")
    by = joins.per_value(spec) if spec else None
    if spec and by is None:
        return _Named((spec,) if prompts.rows else (), 0, "")
    texts: set[str | None] = set()
    missing, first = 0, ""
    for index in range(len(prompts)):
        part = prompts.part(index, _NAMING if by else ["prompt_id", "verifier"])
        own = part["verifier"]
        if by:
            own = pa.chunked_array([[by.of_row(row) for row in part.to_pylist()]], pa.string())
        texts.update(own.unique().to_pylist())
        if own.null_count:
            first = first or part["prompt_id"][pc.index(own.is_null(), True).as_py()].as_py()
            missing += own.null_count
    if by and missing:
        by.require(prompts.table().to_pylist(), f"`{path}`")
    return _Named(tuple(sorted(filter(None, texts))), missing, first)


def _naming(spec: str | None) -> Callable[[dict[str, Any]], str | None]:
    """What says the reward of a prompt as it is written: its own, or what `spec` says of it."""
    by = joins.per_value(spec) if spec else None
    return by.of_row if by else lambda row: spec or row["verifier"]


@dataclass(frozen=True)
class _Lacking:
    """A prompt without a column that a part of its reward takes, and what there is to take."""

    prompt_id: str
    column: str
    part: str
    there: tuple[str, ...]


@functools.lru_cache(maxsize=4)
def _first_lacking(
    path: Path,
    digest: str,
    spec: str | None,
    taking: tuple[tuple[str, str, tuple[str, ...], tuple[str, ...]], ...],
) -> _Lacking | None:
    """The first prompt that lacks a column; `taking` is a reward, its part, that takes columns.

    Those are followed by the names that every prompt has something for.
    """
    prompts, reward_of = Shards.open(path, "prompts"), _naming(spec)
    for index in range(len(prompts)):
        for row in prompts.part(index, _NAMING).to_pylist():
            own = reward_of(row)
            for text, part, columns, given in taking:
                there = _extra(row["extra"]) if text == own else {}
                for name in columns if text == own else ():
                    if name not in there:
                        known = tuple(dict.fromkeys([*there, *given]))
                        return _Lacking(row["prompt_id"], name, part, known)
    return None


def check(prompts: Shards, *, verifier: str | None, allow_code: bool) -> PromptRewards:
    """Refuses prompts that cannot be verified as the options say; verifies nothing."""
    golds = PromptRewards(prompts, verifier)
    golds.require_all()
    golds.require_permission(allow_code=allow_code)
    return golds


def remarks(prompts: Shards) -> Iterator[str]:
    """What one who samples completions of these prompts would like to know before."""
    parts = (prompts.part(index, ["verifier"]) for index in range(len(prompts)))
    missing = sum(part["verifier"].null_count for part in parts)
    if missing:
        yield (
            f"{missing} of {prompts.rows} prompts name no verifier: name one when you score them, "
            "with `rlvr score --verifier`"
        )


def _given(verifier: GroupVerifier | Remote) -> tuple[str, ...]:
    """The names that every prompt has something for."""
    return GOLDS[:3] if isinstance(verifier, GroupVerifier) else ("prompt", "completion", "answer")


def _extra(text: str | None) -> dict[str, Any]:
    return dict(json.loads(text)) if text else {}


def _prefilled(messages: Any) -> str:
    """The text that a completion continues: a raw prompt, or the begin of the assistant's turn."""
    if isinstance(messages, str):
        return messages
    is_begun = messages[-1].get("role") == "assistant"
    return shapes.text(messages[-1]["content"]) if is_begun else ""
