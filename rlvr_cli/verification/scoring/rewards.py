"""What a reward is made of: one verifier, or a weighted sum of several, in one string.

`math:percent=strict`, `0.9*math+0.1*format`, `reward.py:function`. The first one decides whether a
completion is correct; each part's own reward is a column.
"""

import math
import re
from dataclasses import dataclass, replace

from rlvr_cli import registry
from rlvr_cli.errors import UsageError
from rlvr_cli.protocols import FAULTS, Isolated, Verdict, Verifier

_FOLDER = "verifiers"
_WEIGHT = re.compile(r"\s*(-?[0-9.]+(?:e-?[0-9]+)?)\s*\*")
_FILE = re.compile(r"(?P<path>[^:,+]+\.py):(?P<function>\w+)(?:,(?P<rest>.*))?")


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


def build(text: str) -> tuple[Part, ...]:
    """The parts of a reward's string, in order."""
    parts: list[Part] = []
    for weight, spec in _parse(text):
        name, values = registry.parse(_FOLDER, spec)
        name = values["function"] if name == "custom" else name
        same = sum(part.name.partition("-")[0] == name for part in parts)
        named = f"{name}-{same + 1}" if same else name
        parts.append(Part(weight, spec, named, registry.build(_FOLDER, spec)))
    return tuple(parts)


def canonical(text: str, stored: str | None = None) -> str:
    """The one spelling: every option written out, a weight where there are several parts.

    With `stored`, the string that a directory was begun with, what `text` leaves out is as it was.
    """
    parts = _parse(text, stored)
    if len(parts) == 1 and parts[0][0] == 1:
        return parts[0][1]
    return "+".join(f"{weight:g}*{spec}" for weight, spec in parts)


def deciding(text: str) -> str:
    """The spec of the first part, which decides whether a completion is correct."""
    return _parse(text)[0][1]


def _parse(text: str, stored: str | None = None) -> list[tuple[float, str]]:
    parts = _split(text)
    before = [] if stored is None else [spec for _, spec in _split(stored)]
    before += [spec for _, spec in parts[len(before) :]]
    earlier = [None] * len(parts) if stored is None else before
    return [
        (weight, registry.canonical(_FOLDER, spec, was))
        for (weight, spec), was in zip(parts, earlier, strict=False)
    ]


def _split(text: str) -> list[tuple[float, str]]:
    """The weight and the spec of each part, as they were given."""
    parts = []
    for piece in text.split("+"):
        given = _WEIGHT.match(piece)
        try:
            weight = float(given[1]) if given else 1.0
        except ValueError:
            weight = math.nan
        if not math.isfinite(weight):
            raise UsageError(
                f"`{text}` has the weight `{given and given[1]}`", "write it as in 0.9*math"
            )
        parts.append((weight, _named((piece[given.end() :] if given else piece).strip())))
    return parts


def _named(spec: str) -> str:
    """The spec of a function of a file, or the spec as it is."""
    if found := _FILE.fullmatch(spec):
        rest = f",{found['rest']}" if found["rest"] else ""
        return f"custom:path={found['path']},function={found['function']}{rest}"
    return spec


def combine(parts: tuple[Part, ...], verdicts: list[Verdict]) -> Verdict:
    """The sum of weight times reward, with the first part's answer; a fault of any is a fault."""
    if len(parts) == 1 and parts[0].weight == 1:
        return verdicts[0]
    for verdict in verdicts:
        if verdict.status in FAULTS:
            return verdict
    total = sum(p.weight * (v.reward or 0.0) for p, v in zip(parts, verdicts, strict=True))
    return replace(verdicts[0], reward=total)
