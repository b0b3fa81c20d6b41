"""What a reward is made of: one verifier, or several, in one string.

`math:percent=strict`, `0.9*math+0.1*format`, `any:of=[math,choice]`, `reward.py:function`. Of a sum
the first term decides whether a completion is correct; each part's own reward is a column. The
grammar is that of specs/grammar.py. `by:of={gsm8k=math}` has a reward for each source of prompts.
"""

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from rlvr_cli import registry
from rlvr_cli.errors import UsageError
from rlvr_cli.protocols import FAULTS, GroupVerifier, Isolated, Remote, Verdict, Verifier
from rlvr_cli.specs import grammar, user_code
from rlvr_cli.verification.scoring import joins
from rlvr_cli.verification.scoring.joins import How, Joined

_FOLDER = "verifiers"
_WEIGHT = re.compile(r"\s*(-?[0-9.]+(?:[eE][+-]?[0-9]+)?)\s*\*")


@dataclass(frozen=True)
class Part:
    """One verifier, and the term of the sum that it is, or that it is joined to others in."""

    weight: float
    spec: str
    name: str
    verifier: Verifier | Isolated | GroupVerifier | Remote
    reads_thoughts: bool  # whether it is given what a model thought, too
    term: int = 0
    how: How | None = None  # how it is joined to the other parts of its term
    place: int | None = None  # of its gold among those of the prompt, where each part has one

    @property
    def column(self) -> str:
        return _column(self.name)


def _column(name: str, number: int = 1) -> str:
    named = f"{name}-{number}" if number > 1 else name
    return f"reward_{named.replace('-', '_')}"


def build(text: str, *, named_by: str = "") -> tuple[Part, ...]:
    """The parts of a reward's string, in order.

    `named_by` says what the string was read from, if that is not the command line.
    """
    if by := joins.per_value(text):
        return tuple(part for each in by.of.values() for part in build(each, named_by=named_by))
    parts: list[Part] = []
    short_names: list[str] = []
    for term, (weight, term_text) in enumerate(_parse(text, named_by)):
        joined = joins.of_spec(term_text, named_by=named_by)
        how = joined.how if isinstance(joined, Joined) else None
        places = isinstance(joined, Joined) and joined.golds == "each"
        for place, spec in enumerate(joined.of if isinstance(joined, Joined) else (term_text,)):
            name = _short_name(spec)
            short_names.append(name)
            same = short_names.count(name)
            named = f"{name}-{same}" if same > 1 else name
            verifier = _built(spec, named_by)
            reads_thoughts = _reads_thoughts(spec, named_by)
            gold = place if places else None
            parts.append(Part(weight, spec, named, verifier, reads_thoughts, term, how, gold))
    return tuple(parts)


def _built(spec: str, named_by: str) -> Verifier | Isolated | GroupVerifier | Remote:
    verifier: Verifier | Isolated | GroupVerifier | Remote
    verifier = registry.build(_FOLDER, spec, named_by=named_by)
    if not callable(verifier) and not isinstance(verifier, Isolated | GroupVerifier | Remote):
        raise UsageError(
            f"`{spec}` gives {type(verifier).__name__}, a verifier was expected",
            "return a function of a completion, or an `rlvr_cli.protocols.Isolated`",
        )
    return verifier


def _reads_thoughts(spec: str, named_by: str) -> bool:
    """What a verifier's file says as its `WHOLE_TEXT`; by default those of the user's own do."""
    is_own = grammar.read(spec).name in registry.names(_FOLDER)
    module = registry.module(_FOLDER, spec, named_by=named_by)
    return bool(getattr(module, "WHOLE_TEXT", not is_own))


def _short_name(spec: str) -> str:
    """The name that a part's column has: of a file's verifier its function, or else its file."""
    read = grammar.read(spec)
    if read.name == "custom":
        return str(dict(read.options)["function"])
    if not read.path:
        return read.name
    return Path(read.path).stem if read.function == "build" else read.function


def names() -> list[str]:
    """The verifiers that a spec can name; not `custom`, which a file's function becomes."""
    others = ("custom", *joins.JOINS, joins.BY)
    return [name for name in registry.names(_FOLDER) if name not in others]


def weights(text: str) -> dict[str, float]:
    """The weight of each term of a sum of single verifiers by its column; {} for anything else.

    Nothing is imported or run for it.
    """
    by_column: dict[str, float] = {}
    names: list[str] = []
    for weight, spec in _weighted(text):
        if joins.held(spec):
            return {}
        names.append(_short_name(spec))
        by_column[_column(names[-1], names.count(names[-1]))] = weight
    return by_column


def check(text: str) -> None:
    """An error if a part's name is known to nobody; nothing is imported or run for it."""
    for _, spec in _weighted(text):
        registry.check(_FOLDER, spec)
        for item in joins.held(spec).values():
            check(item)


def canonical(text: str, stored: str | None = None, *, named_by: str = "") -> str:
    """The one spelling: every option written out, a weight where there are several parts.

    With `stored`, the string that a directory was begun with, what `text` leaves out is as it was.
    """
    return _summed(_parse(text, named_by, stored))


def identity(text: str) -> str:
    """The canonical spelling of all that decides a reward.

    The files that options name are their content, and where a service is does not count.
    """
    return _summed([(weight, _identity(spec)) for weight, spec in _parse(text)])


def _identity(spec: str) -> str:
    if joins.held(spec):
        return joins.respelled(spec, lambda _, item: identity(item))
    return registry.identity(_FOLDER, spec)


def _summed(parts: list[tuple[float, str]]) -> str:
    if len(parts) == 1 and parts[0][0] == 1:
        return parts[0][1]
    return "+".join(f"{_spelled(weight)}*{spec}" for weight, spec in parts)


def _spelled(weight: float) -> str:
    short = f"{weight:g}"
    return short if float(short) == weight else repr(weight).replace("e+", "e")


def pinned(text: str) -> str:
    """A reward's string in which each file of the user's own is that of its present content.

    What names no file stays as it is written; an error if a file may not run or has no such
    function. A file that an option names, such as a rubric, is replaced by what it holds.
    """
    weighted = list(_weighted(text))
    if not any(grammar.read(spec).path or joins.held(spec) for _, spec in weighted):
        parts = _parse(text)
        inlined = [(weight, registry.inlined(_FOLDER, spec)) for weight, spec in parts]
        return text if inlined == parts else _summed(inlined)
    build(text)
    return _summed([(weight, _pinned(spec)) for weight, spec in weighted])


def _pinned(spec: str) -> str:
    if joins.held(spec):
        return joins.respelled(spec, lambda _, item: pinned(item))
    inlined = registry.inlined(_FOLDER, registry.canonical(_FOLDER, spec))
    options = dict(grammar.read(inlined).options)
    if grammar.read(inlined).name == "custom" and not options["sha256"]:
        digest = user_code.digest(user_code.read(str(options["path"]), "the verifier"))
        return registry.canonical(_FOLDER, f"{spec},sha256={digest.removeprefix('sha256-')}")
    return inlined


def origins(text: str) -> dict[str, str]:
    """The parts of a reward that are not rlvr's, each with its version or content digest.

    Files and packages of verifiers that are not rlvr's own, and files that options name.
    """
    origin: dict[str, str] = {}
    for number, (_, spec) in enumerate(_parse(text), 1):
        for item in joins.held(spec).values():
            origin |= origins(item)
        read = grammar.read(spec)
        if read.name == "custom":
            path = str(dict(read.options)["path"])
            origin[path] = user_code.digest(user_code.read(path, "the verifier"))
        else:
            origin |= registry.origins(_FOLDER, spec)
            before, inlined = (
                registry.parse(_FOLDER, s)[1] for s in (spec, registry.inlined(_FOLDER, spec))
            )
            for option in (key for key in before if inlined[key] != before[key]):
                content = str(inlined[option]).encode()
                origin[f"{option} of part {number}, `{read.name}`,"] = user_code.digest(content)
    return origin


def deciding(text: str) -> str:
    """The spec of the first part, which decides whether a completion is correct."""
    first = _parse(text)[0][1]
    return next(iter(joins.held(first).values()), first)


def _parse(text: str, named_by: str = "", stored: str | None = None) -> list[tuple[float, str]]:
    """The weight of each part, and its canonical spec.

    A stored weight that has six digits, as versions before 0.2 wrote them, is the one meant.
    """
    parts = list(_weighted(text))
    begun = [] if stored is None else list(_weighted(stored))
    parsed = []
    for number, (weight, spec) in enumerate(parts):
        before = None if stored is None else spec
        if number < len(begun):
            stored_weight, before = begun[number]
            weight = stored_weight if f"{weight:g}" == _spelled(stored_weight) else weight
        parsed.append((weight, _canonical_term(spec, before, named_by)))
    return parsed


def _canonical_term(spec: str, stored: str | None, named_by: str) -> str:
    """A term in its canonical spelling; of `all`, `any` and `by` what they hold, too."""
    joined = joins.of_spec(spec, named_by=named_by)
    if joined is None:
        return registry.canonical(_FOLDER, spec, stored, named_by=named_by)
    before = joins.held(stored) if stored else {}

    def each(place: int | str, item: str) -> str:
        begun = before.get(place) if stored else None
        begun = item if stored and begun is None else begun
        if isinstance(joined, Joined):
            _refuse_within(spec, item)
            return registry.canonical(_FOLDER, item, begun, named_by=named_by)
        return canonical(item, begun, named_by=named_by)

    return joins.respelled(spec, each)


def _refuse_within(spec: str, item: str) -> None:
    """An error where `all` or `any` holds a sum, or another of its kind."""
    pieces = grammar.pieces(item)
    if len(pieces) == 1 and not _WEIGHT.match(item) and joins.of_spec(item) is None:
        return
    what = "a sum" if len(pieces) > 1 or _WEIGHT.match(item) else f"`{grammar.read(item).name}`"
    raise UsageError(
        f"`{spec}` holds {what}: `{item}`",
        "name single verifiers in it and sum outside, as in 0.9*any:of=[math,choice]+0.1*format",
    )


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


def require_services(parts: Iterable[Part]) -> None:
    """An error if the service of a verifier does not answer."""
    for part in parts:
        if isinstance(part.verifier, Remote):
            part.verifier.check()


def combine(parts: tuple[Part, ...], verdicts: list[Verdict]) -> Verdict:
    """The sum of weight times reward, with the first term's answer; a fault of any is a fault.

    A term that skips the completion adds nothing; where all do, so does the sum.
    """
    terms: dict[int, list[int]] = {}
    for index, part in enumerate(parts):
        terms.setdefault(part.term, []).append(index)
    weights = [parts[own[0]].weight for own in terms.values()]
    of_terms = [_joined(parts[own[0]].how, [verdicts[i] for i in own]) for own in terms.values()]
    if weights == [1]:
        return of_terms[0]
    for verdict in of_terms:
        if verdict.status in FAULTS:
            return verdict
    judged = [v for v in of_terms if v.status != "skipped"]
    if not judged:
        return of_terms[0]
    total = sum(weight * (v.reward or 0.0) for weight, v in zip(weights, of_terms, strict=True))
    first = judged[0]
    reasons = (f"{p.name}: {v.reason}" for p, v in zip(parts, verdicts, strict=True) if v.reason)
    reason = first.reason or (next(reasons, None) if first.status == "ok" else None)
    return replace(first, reward=total, reason=reason)


def _joined(how: How | None, verdicts: list[Verdict]) -> Verdict:
    return verdicts[0] if how is None else joins.verdict_of(how, verdicts)
