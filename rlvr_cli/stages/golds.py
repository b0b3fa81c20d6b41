"""Gold answers that their verifiers cannot read, before anything is sampled."""

from typing import Any

from rlvr_cli.protocols import GroupVerifier, Remote
from rlvr_cli.verification.scoring import joins, rewards
from rlvr_cli.verification.scoring.scorer import Question, Scorer


def unreadable(
    rows: list[dict[str, Any]], scorer: Scorer, verifier: str | None = None
) -> dict[str, str]:
    """The prompts whose gold no completion could match, each with the reason.

    `rows` are of a prompts directory, with `extra` as a dict; those without verifier are passed
    over, unless one is given. A verifier of code or of SQL runs nothing for this.
    """
    unreadable: dict[str, str] = {}
    questions, owners = [], []
    built: dict[str, tuple[rewards.Part, ...]] = {}
    by = joins.per_value(verifier) if verifier else None
    for row in rows:
        text = by.of_row(row) if by else verifier or row["verifier"]
        if text is None:
            continue
        named_by = "" if verifier else "the `verifier` column of the prompts"
        if text not in built:
            built[text] = rewards.build(text, named_by=named_by)
        for part in built[text]:
            answer = row["answer"] or ""
            is_asked = isinstance(part.verifier, Remote) and part.verifier.needs_answer
            if is_asked and not answer.strip():
                unreadable[row["prompt_id"]] = "it is empty"
                continue
            if isinstance(part.verifier, GroupVerifier):  # only the function could know
                continue
            gold = joins.gold_of(answer, part.place)
            if gold is None:
                unreadable.setdefault(row["prompt_id"], joins.NO_GOLD)
                continue
            questions.append(Question(part.spec, part.verifier, "", True, gold, row["extra"] or {}))
            owners.append(row["prompt_id"])
    for owner, verdict in zip(owners, scorer.verdicts(questions), strict=True):
        if verdict.status not in ("ok", "no_answer"):
            failed = "" if verdict.status == "bad_gold" else f"{verdict.status}: "
            unreadable.setdefault(owner, failed + (verdict.reason or "it cannot be read"))
    return unreadable
