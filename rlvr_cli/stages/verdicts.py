"""The verdicts on rows of completions, by the rewards of their prompts."""

from collections.abc import Callable
from typing import Any

from rlvr_cli.protocols import Group, GroupVerifier, Isolated, Remote, Verdict
from rlvr_cli.stages.prompt_rewards import Gold, PromptRewards
from rlvr_cli.verification.parsing import thoughts
from rlvr_cli.verification.parsing.thoughts import Markers
from rlvr_cli.verification.scoring import joins
from rlvr_cli.verification.scoring.rewards import Part
from rlvr_cli.verification.scoring.scorer import GroupQuestion, Question, Scorer, bounded

_SHOWN = 500  # characters of a failure
_FAILURES = ("error", "timeout", "oom")
_NO_GOLD = Verdict("bad_gold", reason="the prompt has no answer")
_NO_OWN_GOLD = Verdict("bad_gold", reason=joins.NO_GOLD)
Scored = tuple[tuple[Part, ...], list[Verdict]]
_Place = tuple[list[Verdict], int]  # where a verdict belongs


class Judge:
    """Asks the verifiers of rows, and reports each verifier's first error."""

    def __init__(
        self,
        golds: PromptRewards,
        markers: Markers | None,
        on_rows: Callable[[int], None],
        on_failure: Callable[[str], None],
    ) -> None:
        self._golds, self._markers = golds, markers
        self._on_rows, self._on_failure = on_rows, on_failure
        verifiers = [p.verifier for p in golds.parts if isinstance(p.verifier, GroupVerifier)]
        self.reads_tokens = any(verifier.reads_tokens for verifier in verifiers)

    def verdicts(self, rows: list[dict[str, Any]], scorer: Scorer) -> list[Scored | None]:
        """The parts of each row's reward with their verdicts; None where sampling broke off."""
        questions: list[Question] = []
        places: list[_Place] = []  # of each question
        groups: dict[tuple[str, str, int], list[int]] = {}  # the rows of a part's group
        scored: list[Scored | None] = []
        self._golds.prepare(r["prompt_id"] for r in rows if r["finish_reason"] != "abort")
        for number, row in enumerate(rows):
            if row["finish_reason"] == "abort":
                scored.append(None)
                continue
            gold = self._golds.of(row["prompt_id"])
            own = [_NO_GOLD] * len(gold.parts)
            scored.append((gold.parts, own))
            for index, part in enumerate(gold.parts):
                if gold.answer is None and not _judges_without_gold(part):
                    continue
                if gold.answer is not None and gold.of(part) is None:
                    own[index] = _NO_OWN_GOLD
                    continue
                if isinstance(part.verifier, GroupVerifier):
                    at = "" if part.verifier.is_batched else str(number)
                    groups.setdefault((row["prompt_id"], at, index), []).append(number)
                    continue
                question = self._question(row, gold, part)
                if isinstance(part.verifier, Isolated | Remote):
                    questions.append(question)
                    places.append((own, index))
                else:
                    own[index] = bounded(
                        part.verifier, question.completion, question.answer, question.extra
                    )
        self._ask(rows, scored, questions, places, groups, scorer)
        self._report_failures(rows, scored, scorer)
        return scored

    def _question(self, row: dict[str, Any], gold: Gold, part: Part) -> Question:
        text = row["completion"]
        if not part.reads_thoughts:
            is_open = thoughts.opens(gold.prefilled, self._markers)
            text = thoughts.answer_of(text, self._markers, is_open=is_open)
        finished = row["finish_reason"] != "length"
        assert not isinstance(part.verifier, GroupVerifier)
        return Question(part.spec, part.verifier, text, finished, gold.of(part) or "", gold.extra)

    def _ask(
        self,
        rows: list[dict[str, Any]],
        scored: list[Scored | None],
        questions: list[Question],
        places: list[_Place],
        groups: dict[tuple[str, str, int], list[int]],
        scorer: Scorer,
    ) -> None:
        """Fills in the verdicts of worker processes."""
        total = len(questions) + sum(map(len, groups.values()))
        if not total:
            self._on_rows(len(rows))
        share, reported = len(rows) / max(total, 1), 0.0

        def report(count: int) -> None:
            nonlocal reported
            before, reported = reported, reported + count * share
            self._on_rows(round(reported) - round(before))

        for (own, index), verdict in zip(places, scorer.verdicts(questions, report), strict=True):
            own[index] = verdict
        asking = [self._group_question(rows, key, numbers) for key, numbers in groups.items()]
        answers = scorer.group_verdicts(asking, report)
        for (key, numbers), verdicts in zip(groups.items(), answers, strict=True):
            for number, verdict in zip(numbers, verdicts, strict=True):
                entry = scored[number]
                assert entry is not None
                entry[1][key[2]] = verdict

    def _group_question(
        self, rows: list[dict[str, Any]], key: tuple[str, str, int], numbers: list[int]
    ) -> GroupQuestion:
        gold = self._golds.of(key[0])
        part = gold.parts[key[2]]
        answer = gold.of(part)
        assert answer is not None and isinstance(part.verifier, GroupVerifier)
        chosen = [rows[number] for number in numbers]
        tokens: list[Any] = [row.get("token_ids") for row in chosen]
        group = Group(
            tuple(row["completion"] for row in chosen),
            None if None in tokens else tuple(tokens),
            answer,
            gold.messages,
            key[0],
            gold.source,
            {name: value for name, value in gold.extra.items() if name != "prompt"},
        )
        return GroupQuestion(part.spec, part.verifier, group)

    def _report_failures(
        self, rows: list[dict[str, Any]], scored: list[Scored | None], scorer: Scorer
    ) -> None:
        """Reports the first error of each verifier, with its row, once in a scorer's life."""
        for row, entry in zip(rows, scored, strict=True):
            for part, verdict in zip(*(entry or ((), ())), strict=True):
                if verdict.status in _FAILURES and part.spec not in scorer.reported:
                    scorer.reported.add(part.spec)
                    why = verdict.reason or {"timeout": "it took too long"}.get(
                        verdict.status, "it took too much memory"
                    )
                    self._on_failure(
                        f"`{part.name}` failed first at sample {row['sample_index']} of prompt "
                        f"`{row['prompt_id']}`: {verdict.status}: {' '.join(why.split())[:_SHOWN]}"
                    )


def _judges_without_gold(part: Part) -> bool:
    return isinstance(part.verifier, Remote) and not part.verifier.needs_answer
