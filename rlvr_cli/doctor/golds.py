"""Gold answers that no completion can be verified against, reported before any sampling."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rlvr_cli.doctor.finding import Finding, Level
from rlvr_cli.models import messages
from rlvr_cli.stages import golds
from rlvr_cli.verification.scoring import rewards
from rlvr_cli.verification.scoring.scorer import Scorer

PromptRow = dict[str, Any]
_COMMANDS = (
    "[dt]?frac|sqrt|text|mathrm|mathbf|boxed|left|right|begin|end|binom|overline|circ|cdot|times|"
    "pm|pi|theta|alpha|beta|infty|le|ge|leq|geq|cup|cap|in|log|sin|cos|tan"
)
_DOUBLY_ESCAPED = re.compile(rf"(?<!\\)\\\\(?:{_COMMANDS})(?![a-zA-Z])")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\t(?:ext|imes|heta|an)\b")
_FAULTS = (
    (_DOUBLY_ESCAPED, "hold doubly escaped LaTeX", r"write `\frac`, which JSON spells `\\frac`"),
    (
        _CONTROL,
        "hold control characters, as `\\f` becomes where JSON spells `\\frac` with one backslash",
        r"write `\frac`, which JSON spells `\\frac`",
    ),
)


def _read(gold: str) -> str:
    """A gold without the escapes of JSON, where it is a list of texts."""
    if not gold.startswith("["):
        return gold
    try:
        listed = json.loads(gold)
    except (ValueError, RecursionError):
        return gold
    return "\n".join(map(str, listed)) if isinstance(listed, list) else gold


class Golds:
    """Whether golds can be read, by each prompt's verifier; and how they were escaped.

    What it holds does not grow with the prompts that it is given.
    """

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer
        self._verifiers: Counter[str | None] = Counter()
        self._bad: dict[str, _Bad] = {}
        self._escapes = [
            _Escapes(what, *fault) for what in ("golds", "prompts") for fault in _FAULTS
        ]

    def add(self, rows: list[PromptRow]) -> None:
        self._verifiers.update(row["verifier"] for row in rows)
        named = [row for row in rows if row["verifier"] is not None]
        parsed = [row | {"extra": json.loads(row["extra"] or "{}")} for row in named]
        reasons = golds.unreadable(parsed, self._scorer)
        for row in named:
            if row["prompt_id"] in reasons:
                bad = self._bad.setdefault(row["verifier"], _Bad())
                bad.add(row, reasons[row["prompt_id"]])
        answers = {row["prompt_id"]: _read(row["answer"] or "") for row in rows}
        texts = {row["prompt_id"]: text_of(row) for row in rows}
        for escapes in self._escapes:
            escapes.add(answers if escapes.what == "golds" else texts)

    def findings(self) -> Iterator[Finding]:
        yield from self._of_verifiers()
        named = self._verifiers.total() - self._verifiers[None]
        for name, bad in self._bad.items():
            more = f"; and {bad.count - 3} more" if bad.count > 3 else ""
            yield Finding(
                "problem",
                "golds",
                f"`{name}` cannot read {bad.count} of {named} golds: {'; '.join(bad.shown)}{more}",
                "correct them, or name another verifier with `rlvr prompts ... --verifier V`",
            )
        if named and not self._bad:
            yield Finding("ok", "golds", f"all {named} are read by their verifiers")
        for escapes in self._escapes:
            yield from escapes.findings()

    def _of_verifiers(self) -> Iterator[Finding]:
        missing, total = self._verifiers[None], self._verifiers.total()
        if missing:
            yield Finding(
                "note",
                "verifiers",
                f"{missing} of {total} prompts name no verifier, so their golds were not read",
                f"name one with --verifier: {', '.join(rewards.names())}",
            )
        counts = [(name, count) for name, count in self._verifiers.items() if name is not None]
        if counts:
            listed = ", ".join(f"{name} {count}" for name, count in sorted(counts))
            yield Finding("ok", "verifiers", listed)


@dataclass
class _Bad:
    """The golds that a verifier cannot read: how many, and the first three."""

    count: int = 0
    shown: list[str] = field(default_factory=list)

    def add(self, row: PromptRow, reason: str) -> None:
        self.count += 1
        if self.count <= 3:
            self.shown.append(f"`{row['prompt_id']}` `{_short(str(row['answer']))}`: {reason}")


@dataclass
class _Escapes:
    """Texts with a fault of escaping: how many, and the first."""

    what: str
    pattern: re.Pattern[str]
    fault: str
    hint: str
    texts: int = 0
    count: int = 0
    first: str = ""

    def add(self, texts: dict[str, str]) -> None:
        self.texts += len(texts)
        for name, text in texts.items():
            if match := self.pattern.search(text):
                self.count += 1
                shown = _short(text[max(0, match.start() - 10) :])
                self.first = self.first or f"`{name}`: `{shown}`"

    def findings(self) -> Iterator[Finding]:
        if self.count:
            level: Level = "problem" if self.what == "golds" else "note"
            text = f"{self.count} of {self.texts} {self.fault}, as in {self.first}"
            yield Finding(level, self.what, text, self.hint)


def text_of(row: PromptRow) -> str:
    """What a prompt says, its messages one after the other."""
    prompt = messages.stored(row["messages"], row["prompt_id"])
    if isinstance(prompt, str):
        return prompt
    return "\n".join(messages.text(message["content"]) for message in prompt)


def _short(text: str) -> str:
    """Up to 40 characters of a text, in which control characters are seen."""
    cut = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[:40])
    return cut + ("..." if len(text) > 40 else "")
