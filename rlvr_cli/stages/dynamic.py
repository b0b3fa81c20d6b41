"""DAPO's dynamic sampling: prompts are drawn until enough groups have different rewards.

A group whose rewards are all equal has no advantage to learn from (arXiv:2503.14476, sec. 3.2).

out/_draws/0/{rollouts,scores}  out/_draws/1/{rollouts,scores}  ...
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rlvr_cli.errors import DataError
from rlvr_cli.stages import score
from rlvr_cli.stages.score import Verification
from rlvr_cli.storage import schema
from rlvr_cli.storage.begun import begun_with
from rlvr_cli.storage.plan import Plan
from rlvr_cli.storage.shards import Shards
from rlvr_cli.verification.scoring import rewards

DRAWS = "_draws"


@dataclass(frozen=True)
class Drawn:
    """The rows of the kept groups, complete and in the order drawn, with counts of the draws."""

    rows: pa.Table
    facts: dict[str, Any]


def draw(
    sample: Callable[[int, Path], Shards],
    verify: Callable[[Shards, Path], Shards | None],
    out: Path,
    *,
    wanted: int,
    most: int,
) -> Drawn:
    """The first `wanted` mixed groups of at most `most` draws; an error if there is none.

    `sample` makes the rollouts of a draw and `verify` their scores; what is there of them already
    is kept, as in any stage.
    """
    kept: list[pa.Table] = []
    count = 0
    facts = {"draws": 0, "wanted": wanted, "drawn": 0, "unrewarded": 0}
    while count < wanted and facts["draws"] < most:
        here = out / DRAWS / str(facts["draws"])
        rollouts = sample(facts["draws"], here / "rollouts")
        scores = verify(rollouts, here / "scores")
        assert scores is not None, "all parts are of this share"
        groups = mixed(scores.table())[: wanted - count]
        rows = rollouts.table()
        kept.append(rows.filter(pc.is_in(rows["prompt_id"], pa.array(groups, pa.string()))))
        count += len(groups)
        facts["draws"] += 1
        facts["drawn"] += rollouts.summary["prompts"]
        facts["unrewarded"] += scores.summary["missing"]
    if not count:
        raise _nothing_mixed(facts)
    return Drawn(pa.concat_tables(kept), facts)


def settled(verification: Verification, out: Path) -> Verification:
    """The verification of a directory's draws; options not given are those it was begun with."""
    begun = begun_with(out)
    if "max_draws" not in begun:  # only its draws are there, and the first may have no scores yet
        begun = begun_with(out / DRAWS / "0" / "scores") or ({} if "chat" in begun else begun)
    given = verification.verifier
    return replace(
        verification,
        verifier=given and rewards.canonical(given, begun.get("verifier")),
        answer_from=verification.answer_from or score.markers_of(begun),
    )


def with_verification(plan: Plan, verification: Verification) -> Plan:
    """The plan of rollouts that depend on rewards, and so on what decides those."""
    params = dict(plan.params)
    if verification.verifier:
        params["verifier"] = rewards.identity(verification.verifier)
    if verification.answer_from not in (None, score.EARLIER_ANSWERS):
        params["answer_from"] = verification.answer_from
    return replace(
        plan,
        params=params,
        earlier={**plan.earlier, "answer_from": score.EARLIER_ANSWERS},
        specs={**plan.specs, "verifier": score.meaning},
        optional=(*plan.optional, "verifier", "answer_from"),
    )


def mixed(scores: pa.Table) -> list[str]:
    """The prompts whose rewards are not all equal, in order; a missing reward does not count.

    Of several inputs a prompt is named once for each in which that is so.
    """
    key = [name for name in ("prompt_id", schema.INPUT) if name in scores.column_names]
    groups = scores.group_by(key, use_threads=False).aggregate(
        [("reward", "min"), ("reward", "max")]
    )
    is_mixed = pc.not_equal(groups["reward_min"], groups["reward_max"])
    prompt_ids: list[str] = groups.filter(is_mixed)["prompt_id"].to_pylist()
    return prompt_ids


def _nothing_mixed(facts: dict[str, Any]) -> DataError:
    return DataError(
        f"not one of {facts['drawn']} groups, from {facts['draws']} draws, has different rewards; "
        f"{facts['unrewarded']} of the completions have no reward",
        "sample more with -n or --max-draws, or take prompts that the policy solves at times",
    )
