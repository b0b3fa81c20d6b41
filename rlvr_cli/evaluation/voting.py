"""Which wrong answers count as equal in Maj@k and in the answer entropy.

The verifier of the scores decides, or the answers' texts do.

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
from rlvr_cli.terminal import plural
from rlvr_cli.verification.scoring import equality, joins, rewards
from rlvr_cli.verification.scoring.scorer import Question

WORDS = ("text", "none")
_NAMED_BY = "the directory of scores"


@dataclass(frozen=True)
class AnswerVerifier:
    """The verifier that decides which answers of a prompt are equal."""

    spec: str
    verifier: Verifier | Isolated
    completion: Callable[[str], str]  # a completion with this answer
    extra: dict[str, Any]

    def question(self, pair: equality.Pair) -> Question:
        text = self.completion(pair.answer)
        return Question(self.spec, self.verifier, text, True, pair.gold, self.extra)


@dataclass(frozen=True)
class EqualityJudge:
    """Which prompts' wrong answers are compared, and by what, before the votes are counted."""

    tally: Tally
    equality: str  # verifiers, `text` or `none`
    why: str = ""
    verifiers: dict[int, AnswerVerifier] = field(default_factory=dict)  # by the prompt's index

    @property
    def answers(self) -> int:
        """The number of different answers that are compared with others of their prompt."""
        return sum(len((self.tally.votes or [])[p]) for p in self.verifiers)

    def count(
        self, on_done: Callable[[int], None] = lambda count: None
    ) -> tuple[Tally, dict[str, Any]]:
        """The tally with the votes of equal answers added up, and how that was done.

        `on_done` is called with the number of answers classified since its last call.
        """
        facts = {"equality": self.equality, "why": self.why}
        if self.equality == "none":
            return replace(self.tally, votes=None), facts if self.why else {}
        if self.equality == "text" or self.tally.votes is None:
            return self.tally, facts
        votes, verifiers = list(self.tally.votes), list(self.verifiers.values())
        with score.scorer() as scorer:

            def ask(pairs: list[equality.Pair]) -> list[Verdict]:
                return scorer.verdicts([verifiers[pair.prompt].question(pair) for pair in pairs])

            classes = equality.classes([votes[p] for p in self.verifiers], ask, on_done)
            trouble, asked = scorer.cache and scorer.cache.trouble, scorer.asked
        for p, by_class in zip(self.verifiers, classes.votes, strict=True):
            votes[p] = by_class
        return replace(self.tally, votes=votes), facts | {
            "answers": self.answers,
            "classes": sum(map(len, classes.votes)),
            "comparisons": classes.comparisons,
            "asked": asked,
            "unreadable": classes.unreadable,
            "failed": dict(sorted(classes.failed.items())),
            "cache_trouble": trouble,
        }


def several(tallied: Tally) -> list[int]:
    """The indices of the prompts with two or more different wrong answers."""
    return [p for p, votes in enumerate(tallied.votes or []) if len(votes) > 1]


def deciding(tallied: Tally, largest: int) -> list[int]:
    """The prompts of `several` whose Maj@k up to k = `largest` depends on which answers are equal.

    None for k below 3; else those with a correct completion.
    """
    return [p for p in several(tallied) if largest > 2 and tallied.correct_P[p]]


def equality_judge(
    tallied: Tally, scores: Shards | None, given: str | None, prompts: Sequence[int]
) -> EqualityJudge:
    """What decides which wrong answers of `prompts` are equal; only they can change a figure.

    `given` is `text`, `none` or a verifier; without it, the verifier of the scores decides.
    """
    if given in WORDS or (tallied.votes is None and given is None):
        return EqualityJudge(tallied, given if given and tallied.votes is not None else "none")
    if tallied.votes is None:
        raise UsageError(
            f"there are no extracted answers for `{given}` to compare",
            "name their column with --extracted-column, or score the completions",
        )
    if given is None and (scores is None or scores.manifest["stage"] != "score"):
        why = "no verifier scored them; name one with --equality"
        return EqualityJudge(tallied, "text", why)
    try:
        assigned = _assigned(scores, given)
    except (DataError, LookupError) as error:
        why = f"the prompts, which name the verifiers: {error}"
        return EqualityJudge(tallied, "text", why)
    equalities = {spec: _equality(spec) for spec in assigned.specs}
    if word := _without_verifier(equalities, given):
        return EqualityJudge(tallied, *word)
    by_spec = {
        spec: partial(
            AnswerVerifier, spec, registry.build("verifiers", spec, named_by=_NAMED_BY), completion
        )
        for spec, completion in equalities.items()
        if callable(completion)
    }
    compared = {
        p: by_spec[spec](assigned.extra(tallied.ids[p]))
        for p in prompts
        if (spec := assigned.spec(tallied.ids[p])) in by_spec
    }
    return EqualityJudge(tallied, " ".join(sorted(by_spec)), verifiers=compared)


def _without_verifier(equalities: dict[str, Any], given: str | None) -> tuple[str, str] | None:
    """`text` or `none`, and why, if no verifier compares answers; None if one does.

    `equalities` has the EQUALITY of each verifier: `text`, `none`, or a function. Raises UsageError
    if the verifier that was asked for compares no answers.
    """
    no_equality = [_name(spec) for spec, kind in equalities.items() if kind in WORDS]
    if given is not None and no_equality:
        raise UsageError(
            f"`{no_equality[0]}` does not define which answers are equal",
            "name another verifier, or compare texts with `--equality text`",
        )
    if no_answers := [_name(spec) for spec, kind in equalities.items() if kind == "none"]:
        return "none", f"`{no_answers[0]}` extracts no answers"
    if no_equality and len(no_equality) == len(equalities):
        return "text", f"`{no_equality[0]}` does not define which answers are equal"
    return None


@dataclass(frozen=True)
class _Assigned:
    """The verifier of each prompt, or one for all, and the prompts' `extra`."""

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


def _assigned(scores: Shards | None, given: str | None) -> _Assigned:
    text = given
    if scores and given is None and (stored := scores.params["verifier"]):
        text = rewards.canonical(stored, stored)
    by = None if text is None else joins.per_value(text)
    one = None if text is None or by else rewards.deciding(text)
    if scores is None and by:
        raise UsageError(
            "there are no prompts whose values `by` could ask for", "name one verifier for all"
        )
    if scores is None:
        return _Assigned(one, {})
    try:
        table = scores.parent("prompts").table()
    except (DataError, LookupError):
        if one is None:
            raise
        return _Assigned(one, {})  # answers it then cannot read are counted as unreadable
    rows = table.select(["prompt_id", "verifier", "source", "extra"]).to_pylist()
    deciding = cache(rewards.deciding)
    named = [(row, by.of_row(row) if by else row["verifier"]) for row in rows]
    return _Assigned(
        one,
        {
            row["prompt_id"]: (one or deciding(verifier), row["extra"])
            for row, verifier in named
            if one or verifier
        },
    )


def _equality(spec: str) -> Equality:
    """What a verifier's file says of equal answers; one of the user's own may say nothing."""
    module = registry.module("verifiers", spec, named_by=_NAMED_BY)
    return getattr(module, "EQUALITY", "text")


def _name(spec: str) -> str:
    return spec.partition(":")[0]


def remark(facts: dict[str, Any], equality: str | None) -> str:
    """`described`, also of a tally without any answer; empty if --equality is none."""
    if facts:
        return described(facts)
    return "" if equality == "none" else "maj@k: not measured: there are no extracted answers"


def described(facts: dict[str, Any], metric: str = "maj@k") -> str:
    """How wrong answers were compared for a metric, in one line."""
    why = f": {facts['why']}" if facts["why"] else ""
    if facts["equality"] == "none":
        return f"{metric}: not measured{why}"
    if "answers" not in facts:
        return f"{metric}: wrong answers are equal if their texts are equal{why}"
    names = " and ".join(f"`{_name(spec)}`" for spec in facts["equality"].split(" "))
    line = (
        f"{metric}: wrong answers are compared by {names}: "
        f"{plural.of(facts['answers'], 'distinct answer')} in "
        f"{plural.of(facts['classes'], 'class', 'classes')}, after "
        f"{plural.of(facts['comparisons'], 'comparison')}"
    )
    if facts["unreadable"]:
        line += f"; it cannot read {facts['unreadable']:,}, which equal only identical texts"
    if failed := facts["failed"]:
        listed = ", ".join(f"{count:,} {status}" for status, count in failed.items())
        line += f"; it failed on {sum(failed.values()):,} ({listed}), counted as unequal"
    if facts["cache_trouble"]:
        line += f"; continued without its cache: {facts['cache_trouble']}"
    return line
