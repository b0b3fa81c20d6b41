"""Gold answers that no completion can be verified against, reported before any sampling."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from rlvr_cli.doctor.finding import Finding, Level
from rlvr_cli.models import messages
from rlvr_cli.stages import golds, score
from rlvr_cli.verification.scoring import rewards

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


def examine(rows: list[PromptRow]) -> Iterator[Finding]:
    """Whether the golds can be read, by each prompt's verifier; and how they were escaped."""
    yield from _verifiers(rows)
    yield from _unreadable(rows)
    golds = {row["prompt_id"]: row["answer"] or "" for row in rows}
    yield from _escapes("golds", golds)
    yield from _escapes("prompts", {row["prompt_id"]: text_of(row) for row in rows})


def text_of(row: PromptRow) -> str:
    """What a prompt says, its messages one after the other."""
    prompt = messages.stored(row["messages"], row["prompt_id"])
    if isinstance(prompt, str):
        return prompt
    return "\n".join(message["content"] or "" for message in prompt)


def _verifiers(rows: list[PromptRow]) -> Iterator[Finding]:
    counts = Counter(row["verifier"] for row in rows)
    missing = counts.pop(None, 0)
    if missing:
        yield Finding(
            "note",
            "verifiers",
            f"{missing} of {len(rows)} prompts name no verifier, so their golds were not read",
            f"name one with --verifier: {', '.join(rewards.names())}",
        )
    if counts:
        listed = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
        yield Finding("ok", "verifiers", listed)


def _unreadable(rows: list[PromptRow]) -> Iterator[Finding]:
    named = [row for row in rows if row["verifier"] is not None]
    with score.scorer(use_cache=False) as scorer:
        reasons = golds.unreadable(
            [row | {"extra": json.loads(row["extra"] or "{}")} for row in named], scorer
        )
    bad = defaultdict(list)
    for row in named:
        if row["prompt_id"] in reasons:
            bad[row["verifier"]].append(row)
    for name, rows_of_verifier in bad.items():
        shown = "; ".join(
            f"`{row['prompt_id']}` `{_short(str(row['answer']))}`: {reasons[row['prompt_id']]}"
            for row in rows_of_verifier[:3]
        )
        more = f"; and {len(rows_of_verifier) - 3} more" if len(rows_of_verifier) > 3 else ""
        yield Finding(
            "problem",
            "golds",
            f"`{name}` cannot read {len(rows_of_verifier)} of {len(named)} golds: {shown}{more}",
            "correct them, or name another verifier with `rlvr prompts ... --verifier V`",
        )
    if named and not bad:
        yield Finding("ok", "golds", f"all {len(named)} are read by their verifiers")


def _escapes(what: str, texts: dict[str, str]) -> Iterator[Finding]:
    level: Level = "problem" if what == "golds" else "note"
    for pattern, fault, hint in _FAULTS:
        matches = {name: match for name, text in texts.items() if (match := pattern.search(text))}
        if matches:
            name, match = next(iter(matches.items()))
            first = match.string[max(0, match.start() - 10) :]
            text = f"{len(matches)} of {len(texts)} {fault}, as in `{name}`: `{_short(first)}`"
            yield Finding(level, what, text, hint)


def _short(text: str) -> str:
    """Up to 40 characters of a text, in which control characters are seen."""
    cut = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[:40])
    return cut + ("..." if len(text) > 40 else "")
