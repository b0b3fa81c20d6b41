"""Which wrong answers are one in Maj@k and in the answer entropy.

By the verifier of the scores, or by their texts.

Shapes: P prompts.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

from rlvr_cli import registry
from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.evaluation.tallies import Tally
from rlvr_cli.protocols import Equality, Isolated, Verdict, Verifier
from rlvr_cli.stages import score
from rlvr_cli.storage.shards import Shards
from rlvr_cli.verification.scoring import equality, rewards
from rlvr_cli.verification.scoring.scorer import Question

WORDS = ("text", "none")
_NAMED_BY = "the directory of scores"


@dataclass(frozen=True)
class Judge:
    """What holds the answers of a prompt equal."""

    spec: str
    verifier: Verifier | Isolated
    completion: Callable[[str], str]  # that gives an answer
    extra: dict[str, Any]

    def question(self, pair: equality.Pair) -> Question:
        text = self.completion(pair.answer)
        return Question(self.spec, self.verifier, text, True, pair.gold, self.extra)


@dataclass(frozen=True)
class Ballot:
    """A tally before its votes are counted: which prompts' answers are compared, and by what."""

    tally: Tally
    equality: str  # verifiers, `text` or `none`
    why: str = ""
    judges: dict[int, Judge] = field(default_factory=dict)  # by the prompt's place

    @property
    def answers(self) -> int:
        """How many different answers are compared with others of their prompt."""
        return sum(len((self.tally.votes or [])[p]) for p in self.judges)

    def counted(
        self, on_done: Callable[[int], None] = lambda count: None
    ) -> tuple[Tally, dict[str, Any]]:
        """The tally with the votes of equal answers together, and what that took.

        `on_done` hears of every few answers that have their class.
        """
        facts = {"equality": self.equality, "why": self.why}
        if self.equality == "none":
            return replace(self.tally, votes=None), facts if self.why else {}
        if self.equality == "text" or self.tally.votes is None:
            return self.tally, facts
        votes, judges = list(self.tally.votes), list(self.judges.values())
        with score.scorer() as scorer:

            def ask(pairs: list[equality.Pair]) -> list[Verdict]:
                return scorer.verdicts([judges[pair.prompt].question(pair) for pair in pairs])

            made = equality.classes([votes[p] for p in self.judges], ask, on_done)
            trouble, asked = scorer.cache and scorer.cache.trouble, scorer.asked
        for p, found in zip(self.judges, made.votes, strict=True):
            votes[p] = found
        return replace(self.tally, votes=votes), facts | {
            "answers": self.answers,
            "classes": sum(map(len, made.votes)),
            "comparisons": made.comparisons,
            "asked": asked,
            "unreadable": made.unreadable,
            "failed": dict(sorted(made.failed.items())),
            "cache_trouble": trouble,
        }


def several(tallied: Tally) -> list[int]:
    """The prompts, by their place, with two different wrong answers or more."""
    return [p for p, found in enumerate(tallied.votes or []) if len(found) > 1]


def deciding(tallied: Tally, largest: int) -> list[int]:
    """Those of them whose Maj@k up to k = `largest` can depend on which wrong answers are equal.

    None for k below 3; else those with a correct completion.
    """
    return [p for p in several(tallied) if largest > 2 and tallied.correct_P[p]]


def ballot(
    tallied: Tally, scores: Shards | None, given: str | None, prompts: Sequence[int]
) -> Ballot:
    """What is compared in `prompts`, those where it can change a figure.

    `given` is `text`, `none` or a verifier; without it, the one that made the scores decides.
    """
    if given in WORDS or (tallied.votes is None and given is None):
        return Ballot(tallied, given if given and tallied.votes is not None else "none")
    if tallied.votes is None:
        raise UsageError(
            f"there are no extracted answers for `{given}` to hold equal",
            "name their column with --extracted-column, or score the completions",
        )
    if given is None and (scores is None or scores.manifest["stage"] != "score"):
        return Ballot(tallied, "text", "no verifier scored them; name one with --equality")
    try:
        asked = _asked(scores, given)
    except (DataError, LookupError) as error:
        return Ballot(tallied, "text", f"the prompts, which name the verifiers: {error}")
    kinds = {spec: _kind(spec) for spec in asked.specs}
    mute = [_name(spec) for spec, kind in kinds.items() if kind in WORDS]
    if given is not None and mute:
        raise UsageError(
            f"`{mute[0]}` does not say which answers are equal",
            "name another verifier, or compare texts with `--equality text`",
        )
    if silent := [_name(spec) for spec, kind in kinds.items() if kind == "none"]:
        return Ballot(tallied, "none", f"`{silent[0]}` extracts no answers")
    if mute and len(mute) == len(kinds):
        return Ballot(tallied, "text", f"`{mute[0]}` does not say which answers are equal")
    judges = {
        spec: partial(Judge, spec, registry.build("verifiers", spec, named_by=_NAMED_BY), kind)
        for spec, kind in kinds.items()
        if callable(kind)
    }
    compared = {
        p: judges[spec](asked.extra(tallied.prompt_id[p]))
        for p in prompts
        if (spec := asked.spec(tallied.prompt_id[p])) in judges
    }
    return Ballot(tallied, " ".join(sorted(judges)), judges=compared)


@dataclass(frozen=True)
class _Asked:
    """The verifier of each prompt, or one for all, and what else the prompts hold."""

    one: str | None
    rows: dict[str, tuple[str, str | None]]  # of each prompt its verifier and its `extra`

    @property
    def specs(self) -> list[str]:
        return [self.one] if self.one else sorted({spec for spec, _ in self.rows.values()})

    def spec(self, prompt_id: str) -> str:
        return self.one or self.rows[prompt_id][0]

    def extra(self, prompt_id: str) -> dict[str, Any]:
        text = self.rows[prompt_id][1] if prompt_id in self.rows else None
        return json.loads(text) if text else {}


def _asked(scores: Shards | None, given: str | None) -> _Asked:
    text = scores.params["verifier"] if scores and given is None else given
    one = None if text is None else rewards.deciding(text)
    if scores is None:
        return _Asked(one, {})
    try:
        table = scores.parent("prompts").table()
    except (DataError, LookupError):
        if one is None:
            raise
        return _Asked(one, {})  # what it then cannot read is said
    rows = zip(*(table[n].to_pylist() for n in ("prompt_id", "verifier", "extra")), strict=True)
    deciding = cache(rewards.deciding)
    return _Asked(
        one,
        {
            name: (one or deciding(verifier), extra)
            for name, verifier, extra in rows
            if one or verifier
        },
    )


def _kind(spec: str) -> Equality:
    """What a verifier's file says of equal answers; one of the user's own may say nothing."""
    module = registry.module("verifiers", spec, named_by=_NAMED_BY)
    return getattr(module, "EQUALITY", "text")


def _name(spec: str) -> str:
    return spec.partition(":")[0]


def described(facts: dict[str, Any], metric: str = "maj@k") -> str:
    """What holds wrong answers equal in a metric, in one line."""
    why = f": {facts['why']}" if facts["why"] else ""
    if facts["equality"] == "none":
        return f"{metric}: not measured{why}"
    if "answers" not in facts:
        return f"{metric}: wrong answers are equal where their texts are{why}"
    names = " and ".join(f"`{_name(spec)}`" for spec in facts["equality"].split(" "))
    line = (
        f"{metric}: wrong answers are equal by {names}: {facts['answers']:,} different ones are "
        f"{facts['classes']:,}, by {facts['comparisons']:,} comparisons"
    )
    if facts["unreadable"]:
        line += f"; it cannot read {facts['unreadable']:,}, equal to their own text alone"
    if failed := facts["failed"]:
        listed = ", ".join(f"{count:,} {status}" for status, count in failed.items())
        line += f"; it failed on {sum(failed.values()):,} ({listed}), taken as unequal"
    if facts["cache_trouble"]:
        line += f"; went on without its cache: {facts['cache_trouble']}"
    return line
