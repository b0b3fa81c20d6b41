"""What each prompt's completions are verified with, and what is refused before any are sampled."""

import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rlvr_cli import registry
from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.models import messages as shapes
from rlvr_cli.protocols import GroupVerifier, Isolated, Remote
from rlvr_cli.specs import grammar, trust
from rlvr_cli.storage.shards import Shards
from rlvr_cli.verification.functions.signatures import GOLDS
from rlvr_cli.verification.scoring import joins, rewards
from rlvr_cli.verification.scoring.rewards import Part

_PROMPTS = 1024  # whose golds are kept ready


@dataclass(frozen=True)
class Gold:
    """The parts of a prompt's reward, its gold answer, and what is stored of it.

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

    Building it reads every spec, so that what is unknown, not trusted or of no known signature is
    refused before anything else is done.
    """

    def __init__(self, prompts: Shards, spec: str | None) -> None:
        self._path, self._spec = prompts.path, spec
        self._rows = {row["prompt_id"]: row for row in prompts.table().to_pylist()}
        self._texts = _texts(prompts, self._rows, spec)
        texts = {text for text in self._texts.values() if text}
        self._named_by = "" if spec else f"the `verifier` column of `{prompts.path}`"
        self._rewards = {
            text: rewards.build(text, named_by=self._named_by) for text in sorted(texts)
        }
        self.parts = [part for reward in self._rewards.values() for part in reward]
        self.of = functools.lru_cache(maxsize=_PROMPTS)(self._gold)  # its completions are together

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

    def unnamed(self) -> list[str]:
        """The prompts that nothing names a verifier for."""
        return [name for name, text in self._texts.items() if text is None]

    def require_all(self) -> None:
        """An error if a prompt has no verifier, or lacks a column that its function takes."""
        if unnamed := self.unnamed():
            count = len(self._rows)
            raise DataError(
                f"prompt `{unnamed[0]}` names no verifier, as do {len(unnamed)} of {count} "
                f"of `{self._path}`",
                f"name one with --verifier: {', '.join(rewards.names())}, or your own, "
                "reward.py:function",
            )
        taking = {
            text: [
                (p, p.verifier) for p in reward if isinstance(p.verifier, GroupVerifier | Remote)
            ]
            for text, reward in self._rewards.items()
        }
        if not any(taking.values()):
            return
        for prompt_id, row in self._rows.items():
            for part, verifier in taking[str(self._texts[prompt_id])]:
                for name in _lacking(verifier, row["extra"]):
                    there = dict.fromkeys([*_extra(row["extra"]), *_given(verifier)])
                    raise DataError(
                        f"prompt `{prompt_id}` has no column `{name}`, which `{part.name}` takes",
                        f"make the prompts again from data that has it, or take one of "
                        f"{', '.join(there)}",
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

    def _gold(self, prompt_id: str) -> Gold:
        row = self._rows[prompt_id]
        extra, messages = _extra(row["extra"]), shapes.stored(row["messages"], prompt_id)
        text, prefilled = shapes.question(messages), _prefilled(messages)
        reward = self._rewards[str(self._texts[prompt_id])]
        return Gold(
            reward, row["answer"], extra | {"prompt": text}, messages, row["source"], prefilled
        )


def _texts(
    prompts: Shards, rows: dict[str, dict[str, Any]], spec: str | None
) -> dict[str, str | None]:
    """The reward of each prompt as it is written: its own, or what `spec` says of it."""
    if not spec:
        return {name: row["verifier"] for name, row in rows.items()}
    by = joins.per_value(spec)
    if by is None:
        return dict.fromkeys(rows, spec)
    by.require(list(rows.values()), f"`{prompts.path}`")
    return {name: by.of_row(row) for name, row in rows.items()}


def check(prompts: Shards, *, verifier: str | None, allow_code: bool) -> PromptRewards:
    """Refuses prompts that cannot be verified as asked; nothing is verified for it."""
    golds = PromptRewards(prompts, verifier)
    golds.require_all()
    golds.require_permission(allow_code=allow_code)
    return golds


def remarks(prompts: Shards) -> Iterator[str]:
    """What one who samples completions of these prompts would like to know before."""
    missing = prompts.table()["verifier"].null_count
    if missing:
        yield (
            f"{missing} of {prompts.rows} prompts name no verifier: name one when you score them, "
            "with `rlvr score --verifier`"
        )


def _given(verifier: GroupVerifier | Remote) -> tuple[str, ...]:
    """The names that every prompt has something for."""
    return GOLDS[:3] if isinstance(verifier, GroupVerifier) else ("prompt", "completion", "answer")


def _lacking(verifier: GroupVerifier | Remote, extra: str | None) -> list[str]:
    return [n for n in verifier.columns if n not in _extra(extra)] if verifier.columns else []


def _extra(text: str | None) -> dict[str, Any]:
    return dict(json.loads(text)) if text else {}


def _prefilled(messages: Any) -> str:
    """The text that a completion continues: a raw prompt, or the begin of the assistant's turn."""
    if isinstance(messages, str):
        return messages
    return str(messages[-1]["content"]) if messages[-1].get("role") == "assistant" else ""
