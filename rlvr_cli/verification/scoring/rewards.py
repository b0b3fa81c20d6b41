"""What a reward is made of: one verifier, or a weighted sum of several, in one string.

`math:percent=strict`, `0.9*math+0.1*format`, `reward.py:function`. The first one decides whether a
completion is correct; each part's own reward is a column. The grammar is that of specs/grammar.py.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from rlvr_cli import registry
from rlvr_cli.errors import UsageError
from rlvr_cli.protocols import FAULTS, Isolated, Verdict, Verifier
from rlvr_cli.specs import grammar

_FOLDER = "verifiers"
_WEIGHT = re.compile(r"\s*(-?[0-9.]+(?:e[+-]?[0-9]+)?)\s*\*")


@dataclass(frozen=True)
class Part:
    """One verifier and the weight of its reward in the sum."""

    weight: float
    spec: str
    name: str
    verifier: Verifier | Isolated

    @property
    def column(self) -> str:
        return f"reward_{self.name.replace('-', '_')}"


def build(text: str, *, named_by: str = "") -> tuple[Part, ...]:
    """The parts of a reward's string, in order.

    `named_by` says what the string was read from, if that is not the command line.
    """
    parts: list[Part] = []
    short_names: list[str] = []
    for weight, spec in _parse(text, named_by):
        name = _short_name(spec)
        short_names.append(name)
        same = short_names.count(name)
        named = f"{name}-{same}" if same > 1 else name
        verifier = registry.build(_FOLDER, spec, named_by=named_by)
        if not callable(verifier) and not isinstance(verifier, Isolated):
            raise UsageError(
                f"`{spec}` gives {type(verifier).__name__}, a verifier was expected",
                "return a function of a completion, or an `rlvr_cli.protocols.Isolated`",
            )
        parts.append(Part(weight, spec, named, verifier))
    return tuple(parts)


def _short_name(spec: str) -> str:
    """The name that a part's column has: of a file's verifier its function, or else its file."""
    read = grammar.read(spec)
    if read.name == "custom":
        return str(dict(read.options)["function"])
    if not read.path:
        return read.name
    return Path(read.path).stem if read.function == "build" else read.function


def check(text: str) -> None:
    """An error if a part's name is known to nobody; nothing is imported or run for it."""
    for _, spec in _weighted(text):
        registry.check(_FOLDER, spec)


def canonical(text: str, stored: str | None = None, *, named_by: str = "") -> str:
    """The one spelling: every option written out, a weight where there are several parts.

    With `stored`, the string that a directory was begun with, what `text` leaves out is as it was.
    """
    parts = _parse(text, named_by, stored)
    if len(parts) == 1 and parts[0][0] == 1:
        return parts[0][1]
    return "+".join(f"{weight:g}*{spec}" for weight, spec in parts)


def deciding(text: str) -> str:
    """The spec of the first part, which decides whether a completion is correct."""
    return _parse(text)[0][1]


def _parse(text: str, named_by: str = "", stored: str | None = None) -> list[tuple[float, str]]:
    """The weight of each part, and its canonical spec."""
    parts = list(_weighted(text))
    begun: list[str | None] = [] if stored is None else [spec for _, spec in _weighted(stored)]
    begun += [None if stored is None else spec for _, spec in parts[len(begun) :]]
    return [
        (weight, registry.canonical(_FOLDER, spec, before, named_by=named_by))
        for (weight, spec), before in zip(parts, begun, strict=False)
    ]


def _weighted(text: str) -> Iterator[tuple[float, str]]:
    """The weight of each part, and its spec as it is written."""
    for piece in grammar.pieces(text):
        given = _WEIGHT.match(piece)
        try:
            weight = float(given[1]) if given else 1.0
        except ValueError:
            weight = math.nan
        if not math.isfinite(weight):
            raise UsageError(
                f"`{text}` has the weight `{given and given[1]}`", "write it as in 0.9*math"
            )
        yield weight, piece[given.end() :] if given else piece


def combine(parts: tuple[Part, ...], verdicts: list[Verdict]) -> Verdict:
    """The sum of weight times reward, with the first part's answer; a fault of any is a fault."""
    if len(parts) == 1 and parts[0].weight == 1:
        return verdicts[0]
    for verdict in verdicts:
        if verdict.status in FAULTS:
            return verdict
    total = sum(p.weight * (v.reward or 0.0) for p, v in zip(parts, verdicts, strict=True))
    return replace(verdicts[0], reward=total)
