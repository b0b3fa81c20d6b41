"""The sides of a comparison: their counts, their prompts, and how their completions came about."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rlvr_cli.config import Columns
from rlvr_cli.errors import DataError
from rlvr_cli.evaluation import conditions, enough, pairing, pass_at_k, voting
from rlvr_cli.evaluation.conditions import Conditions
from rlvr_cli.evaluation.load import is_directory
from rlvr_cli.evaluation.measures import Measures
from rlvr_cli.evaluation.pairing import Prompts
from rlvr_cli.evaluation.tallies import Tally, chosen, with_verdicts
from rlvr_cli.storage import fetched, run_folders
from rlvr_cli.storage.shards import Shards


@dataclass(frozen=True)
class Side:
    """One side of a comparison; `tokens` has the entropy and kl of a run of train."""

    path: Path
    tally: Tally
    prompts: Prompts
    conditions: Conditions
    tokens: Measures | None = None
    majority: dict[str, Any] = field(default_factory=dict)  # how votes were counted
    remark: str = ""  # the same in words
    scores: Shards | None = None  # a directory's own

    @cached_property
    def smallest(self) -> int:
        return int(self.tally.n_P.min())

    @property
    def name(self) -> str:
        """Its path, or the URL that it was fetched from."""
        return fetched.recorded(self.path) or str(self.path)

    @property
    def title(self) -> str:
        """Its name, and the step of a run."""
        step = self.conditions.step
        return f"`{self.name}`" + ("" if step is None else f" at step {step}")

    def chosen(self, rows: Sequence[int], names: list[str]) -> "Side":
        """The side with some of its prompts, in this order and by these names."""
        tokens = self.tokens and replace(self.tokens.of(list(rows)), prompt_id=names)
        return replace(
            self,
            tally=replace(chosen(self.tally, rows), prompt_id=names),
            prompts=self.prompts.chosen(rows),
            tokens=tokens,
        )


def load(
    path: Path,
    equality: str | None = None,
    columns: Columns | None = None,
    *,
    by: Sequence[str] = pairing.FIELDS,
    min_n: int = 1,
) -> Side:
    """A run by its last evaluation, a scores directory, or files of another tool.

    `by` are the fields of prompts that are read to pair them; prompts with fewer than `min_n`
    verdicts are left out.
    """
    evaluations = run_folders.complete(path, "eval", "logprobs")
    if evaluations:
        return _of_run(path, evaluations[max(evaluations)], min_n)
    if run_folders.is_run(path):
        raise DataError(
            f"`{path}` has no complete evaluation",
            "resume its `rlvr train`; of a run without any, with `--eval-every` above 0",
        )
    facts = pairing.PromptFacts(by)
    tallied, scores = pass_at_k.tally(
        path,
        columns=None if is_directory(path) else columns,
        texts="if there",
        answers=equality != "none",
        facts=facts,
    )
    tallied = enough.with_at_least(tallied, min_n, path)
    decisive = voting.deciding(tallied, int(tallied.n_P.max()))
    judge = voting.equality_judge(tallied, scores, equality, decisive)
    tallied, majority = judge.count()
    if scores is None:
        prompts = facts.of(tallied, path.name.partition(".")[0])
        known = Conditions(facts.step)
    else:
        prompts = pairing.of_scores(scores, tallied)
        known = conditions.of_scores(scores)
    remark = voting.remark(majority, equality)
    return Side(path, tallied, prompts, known, majority=majority, remark=remark, scores=scores)


def _of_run(path: Path, evaluation: Path, min_n: int) -> Side:
    """A run's evaluation, of the prompts that train measured unless `min_n` asks for others."""
    scores = Shards.open(evaluation / "scores", "scores")
    n = int(scores.parent("rollouts").params["num_generations"])
    tallied = pass_at_k.of_scores(scores, texts=True, answers=False)
    tallied = (
        with_verdicts(tallied, n) if min_n == 1 else enough.with_at_least(tallied, min_n, path)
    )
    pass_at_k.require_measurable(tallied)
    tokens = pass_at_k.token_measures(
        Shards.open(evaluation / "logprobs", "logprobs"), tallied.prompt_id
    )
    return Side(
        path,
        tallied,
        pairing.of_scores(scores, tallied),
        conditions.of_scores(scores),
        tokens,
        scores=scores,
    )


def paired(
    sides: Sequence[Side], by: Sequence[str] = pairing.FIELDS
) -> tuple[list[Side], list[str]]:
    """The sides with the prompts that all have, in the order of the first, and what to know of it.

    Raises DataError if there is no such prompt, or if only the ids are the same.
    """
    first, *others = sides
    place_of = [{p: p for p in range(len(first.tally.prompt_id))}]
    remarks = []
    for other in others:
        names = (f"`{first.path}`", f"`{other.path}`")
        if why := pairing.refusal(*names, first.prompts, other.prompts, by):
            raise DataError(*why)
        matched = pairing.match(first.prompts, other.prompts, by)
        place_of.append(dict(matched.rows))
        remarks.append(_described(other, matched, len(others) > 1))
    common = [p for p in place_of[0] if all(p in places for places in place_of)]
    if not common:
        listed = ", ".join(f"`{side.path}`" for side in sides)
        raise DataError(
            f"no prompt is in all of {listed}", "compare runs over the same held-out prompts"
        )
    rows = [[places[p] for p in common] for places in place_of]
    missing = [
        text
        for side, mine in zip(sides, rows, strict=True)
        if (text := pairing.left_out(f"`{side.path}`", side.tally.prompt_id, mine))
    ]
    if missing:
        remarks.append(f"left out, as not all have them: {'; '.join(missing)}")
    ids = [first.tally.prompt_id[p] for p in common]
    return [side.chosen(mine, ids) for side, mine in zip(sides, rows, strict=True)], remarks


def _described(other: Side, matched: pairing.Match, named: bool) -> str:
    who = f" with those of `{other.path}`" if named else ""
    apart = "".join(f"; {text}" for text in pairing.differing(matched))
    return f"prompts are paired{who} by {matched.described()}{apart}"
