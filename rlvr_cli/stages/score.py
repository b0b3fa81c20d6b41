"""The stage that verifies completions."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa

from rlvr_cli import lookup, schema
from rlvr_cli.errors import DataError, TooManyErrors
from rlvr_cli.fill import OnPart, fill
from rlvr_cli.protocols import Verdict, Verifier
from rlvr_cli.shards import WHOLE, Plan, Shards, Share

FAULTS = ("timeout", "oom", "error", "bad_gold")


def run(
    rollouts: Shards,
    out: Path,
    *,
    verifier: str | None = None,
    prompts: Path | None = None,
    share: Share = WHOLE,
    on_part: OnPart = lambda index, state: None,
) -> Shards | None:
    """A scores directory: one verdict a completion, by each prompt's verifier or the one given.

    A fault of the verifier is a status with a null reward, never a 0.
    """
    parent = rollouts.parent("prompts", prompts)
    golds = {row["prompt_id"]: row for row in parent.table().to_pylist()}
    spec = None if verifier is None else lookup.canonical("verifiers", verifier)
    verifiers: dict[str, Verifier] = {}

    def verify(row: dict[str, Any]) -> Verdict | None:
        if row["finish_reason"] == "abort":
            return None
        gold = golds[row["prompt_id"]]
        name = spec or gold["verifier"]
        if name is None:
            raise DataError(
                f"prompt `{row['prompt_id']}` names no verifier",
                f"name one with --verifier: {', '.join(lookup.names('verifiers'))}",
            )
        if name not in verifiers:
            verifiers[name] = lookup.build("verifiers", name)
        return _verdict(verifiers[name], row["completion"], gold)

    def make(index: int) -> pa.Table:
        rows = rollouts.part(index)
        return _table(rows, [verify(row) for row in rows.to_pylist()])

    plan = Plan("scores", "score", {"verifier": spec}, {"rollouts": rollouts}, len(rollouts))
    return fill(out, plan, make, share=share, summarise=summarise, on_part=on_part)


def _verdict(verifier: Verifier, completion: str, gold: dict[str, Any]) -> Verdict:
    if gold["answer"] is None:
        return Verdict("bad_gold")
    extra = json.loads(gold["extra"]) if gold["extra"] else {}
    try:
        return verifier(completion, answer=gold["answer"], extra=extra)
    except Exception as error:
        return Verdict("error", extracted=f"{type(error).__name__}: {error}"[:200])


def _table(rows: pa.Table, verdicts: list[Verdict | None]) -> pa.Table:
    return pa.table(
        {
            "prompt_id": rows["prompt_id"],
            "sample_index": rows["sample_index"],
            "reward": [v and v.reward for v in verdicts],
            "correct": [v and v.correct for v in verdicts],
            "extracted": [v and v.extracted for v in verdicts],
            "status": [v.status if v else "aborted" for v in verdicts],
        },
        schema.schema("scores"),
    )


def summarise(scores: Shards) -> dict[str, Any]:
    """Counts by status, the mean reward and the share of correct completions."""
    status: Counter[str] = Counter()
    rewards, corrects = [], []
    for table in scores.parts():
        status.update(table["status"].to_pylist())
        rewards += [r for r in table["reward"].to_pylist() if r is not None]
        corrects += [c for c in table["correct"].to_pylist() if c is not None]
    return {
        "completions": scores.rows,
        "status": dict(sorted(status.items())),
        "reward": sum(rewards) / len(rewards) if rewards else None,
        "correct": sum(corrects) / len(corrects) if corrects else None,
        "missing": scores.rows - len(rewards),
    }


def check_error_rate(scores: Shards, limit: float) -> None:
    """An error if the verifier failed on a larger share of the rows than the limit."""
    status = scores.summary["status"]
    faults = {name: status[name] for name in FAULTS if name in status}
    rate = sum(faults.values()) / max(scores.rows, 1)
    if rate > limit:
        listed = ", ".join(f"{count} {name}" for name, count in faults.items())
        raise TooManyErrors(
            f"`{scores.path}` is done, but the verifier failed on {rate:.1%} of its rows: {listed}",
            "look at the rows by status; allow more with --max-error-rate",
        )
