"""Several verifiers of one completion, and verifiers that depend on what a prompt's column says."""

import fnmatch
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from rlvr_cli import registry
from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.protocols import FAULTS, Verdict
from rlvr_cli.specs import grammar, option_types

How = Literal["all", "any"]
Golds = Literal["shared", "each"]
JOINS = ("all", "any")
BY = "by"
NO_GOLD = "it is no list with a gold for each part"
_FOLDER = "verifiers"


@dataclass(frozen=True)
class Joined:
    """Verifiers that all read the same completion; with `golds` each, one gold for each."""

    how: How
    of: tuple[str, ...]
    golds: Golds


@dataclass(frozen=True)
class PerValue:
    """The reward of each value of a column; a value may be a pattern, as in `aime*`."""

    column: str
    of: dict[str, str]

    def of_value(self, value: Any) -> str | None:
        """The reward of a value: the one that is it, else the longest pattern's; None of neither.

        Of several values, as where a prompt has several golds, all with a gold for each.
        """
        if isinstance(value, list) and len(value) == 1:
            (value,) = value
        if isinstance(value, list):
            specs = [self.of_value(one) for one in value]
            if not specs or None in specs:
                return None
            return f"all:of={option_types.spell(specs, list[str])},golds=each"
        if value in self.of:
            return self.of[value]
        fitting = [key for key in self.of if fnmatch.fnmatchcase(str(value), key)]
        return self.of[max(fitting, key=lambda key: (len(key), key))] if fitting else None

    def of_row(self, row: dict[str, Any]) -> str | None:
        """The reward of a prompt; `extra` may be the text that is stored."""
        value = self.value(row)
        joined = self.of_value(value)
        if (
            joined
            and isinstance(value, list)
            and len(value) == 1
            and _is_list_of_one(row["answer"])
        ):
            return f"all:of={option_types.spell([joined], list[str])},golds=each"
        return joined

    def value(self, row: dict[str, Any]) -> Any:
        if self.column == "source":
            return row["source"]
        extra = row["extra"] or {}
        value: Any = json.loads(extra) if isinstance(extra, str) else extra
        for name in self.column.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        return value

    def require(self, rows: list[dict[str, Any]], where: str) -> None:
        """An error that names the values which no reward is given for."""
        without = [row for row in rows if self.of_row(row) is None]
        if not without:
            return
        if lacking := sum(self.value(row) is None for row in without):
            raise DataError(
                f"{where}: {lacking} of {len(rows)} prompts have no `{self.column}`, by which the "
                "verifier is chosen",
                "name another column with `column=`, or add a verifier for all others to `of`, as "
                "in *=math",
            )
        unknown = {str(self.value(row)) for row in without}
        of = {key: _short(text) for key, text in self.of.items()} | dict.fromkeys(unknown, "math")
        column = "" if self.column == "source" else f"column={self.column},"
        more = option_types.spell(of, dict[str, str])
        known = ", ".join(f"`{key}`" for key in self.of)
        raise DataError(
            f"{where}: no verifier is named for the {self.column} "
            f"{', '.join(f'`{name}`' for name in sorted(unknown)[:8])}; those named are {known}",
            f"name one for each, or for `*`, as in --verifier '{BY}:{column}of={more}'",
        )


def of_spec(spec: str, *, named_by: str = "") -> Joined | PerValue | None:
    """What a spec of `all`, `any` or `by` says; None of another."""
    if grammar.read(spec).name not in (*JOINS, BY) or grammar.read(spec).path:
        return None
    joined: Joined | PerValue = registry.build(_FOLDER, spec, named_by=named_by)
    return joined


def per_value(text: str) -> PerValue | None:
    """The rewards by value that a reward's text means; None of one for all."""
    pieces = grammar.pieces(text)
    specs = [spec for spec in pieces if grammar.read(spec).name.rpartition("*")[2].strip() == BY]
    if not specs:
        return None
    if len(pieces) > 1 or grammar.read(pieces[0]).name != BY:
        raise UsageError(
            f"`{text}`: `{BY}` is not part of a sum",
            f"write the sums within it, as in {BY}:of={{gsm8k=0.9*math+0.1*format}}",
        )
    joined = of_spec(text)
    return joined if isinstance(joined, PerValue) else None


def respelled(spec: str, each: Callable[[int | str, str], str]) -> str:
    """A spec of `all`, `any` or `by` in full, what it holds as `each` spells it by its place."""
    joined = of_spec(spec)
    if isinstance(joined, Joined):
        items = [each(place, item) for place, item in enumerate(joined.of)]
        listed = option_types.spell(items, list[str])
        return registry.canonical(_FOLDER, f"{joined.how}:of={listed},golds={joined.golds}")
    assert isinstance(joined, PerValue)
    table = {key: each(key, item) for key, item in joined.of.items()}
    spelled = option_types.spell(table, dict[str, str])
    column = grammar.quoted(joined.column, within="+")
    return registry.canonical(_FOLDER, f"{BY}:column={column},of={spelled}")


def held(spec: str) -> dict[int | str, str]:
    """What a spec of `all`, `any` or `by` holds, by its place."""
    joined = of_spec(spec)
    if isinstance(joined, PerValue):
        return {key: item for key, item in joined.of.items()}
    return dict(enumerate(joined.of)) if joined else {}


def _short(text: str) -> str:
    """A reward's text without the options that are the defaults."""
    pieces = []
    for piece in grammar.pieces(text):
        weight, star, _ = grammar.read(piece).name.rpartition("*")
        spec = piece.removeprefix(weight + star)
        shown = spec if grammar.read(spec).path else registry.short(_FOLDER, spec)
        pieces.append(weight + star + shown)
    return "+".join(pieces)


def _is_list_of_one(answer: str | None) -> bool:
    """Whether a gold is stored as the only item of a list of texts."""
    try:
        golds = json.loads(answer or "")
    except (ValueError, RecursionError):
        return False
    return isinstance(golds, list) and len(golds) == 1 and isinstance(golds[0], str)


def gold_of(answer: str, place: int | None) -> str | None:
    """The gold of a part that has one of its own, of a JSON list; None where it has none."""
    if place is None:
        return answer
    try:
        golds = json.loads(answer)
        gold = golds[place] if isinstance(golds, list) else None
    except (ValueError, IndexError, RecursionError):
        return None
    return gold if isinstance(gold, str) or gold is None else json.dumps(gold)


def verdict_of(how: How, verdicts: list[Verdict]) -> Verdict:
    """What `all` or `any` of several verifiers say.

    `all` has the lowest reward and the first part's answer, `any` the highest with its answer. A
    fault of one part is one of `all`; one of `any` unless another part says that the completion is
    right. There is no answer where no part finds one. A part that skips a completion has no say.
    """
    judged = [verdict for verdict in verdicts if verdict.status != "skipped"]
    if not judged:
        return verdicts[0]
    right = [verdict for verdict in judged if verdict.correct]
    faults = [verdict for verdict in judged if verdict.status in FAULTS]
    if faults and not (how == "any" and right):
        return faults[0]
    best = max(right or judged, key=_reward) if how == "any" else min(judged, key=_reward)
    answers = [verdict.extracted for verdict in judged if verdict.extracted is not None]
    extracted = best.extracted if how == "any" else next(iter(answers), None)
    if all(verdict.status == "no_answer" for verdict in judged):
        return replace(judged[0], reward=_reward(best), extracted=extracted)
    is_right = bool(right) if how == "any" else len(right) == len(judged)
    return Verdict("ok", _reward(best), is_right, extracted, best.reason)


def _reward(verdict: Verdict) -> float:
    return verdict.reward or 0.0
