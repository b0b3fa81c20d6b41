"""Prompts without the easiest of them, by the success rate of completions that were scored.

The filtering baseline of IAC: "discards the easiest 25% of training queries according to their
empirical success rate" (When Sharpening Becomes Collapse, table 5 and appendix I).
"""

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.runtime import seeds
from rlvr_cli.stages.prompts import Source
from rlvr_cli.storage.shards import Shards


def check(share: float | None, scores: list[Path]) -> None:
    """Refuses a share without scores, scores without a share, and a share that leaves nothing."""
    if share is not None and not 0 <= share < 1:
        raise UsageError(f"--drop-easiest is {share}", "it must be at least 0 and less than 1")
    if share is not None and not scores:
        raise UsageError(
            "--drop-easiest needs the success rates of the prompts",
            "name a scores directory that holds their completions with --scores",
        )
    if share is None and scores:
        raise UsageError(
            "--scores says which prompts are easy, and no share of them is to be dropped",
            "give one, as in --drop-easiest 0.25",
        )


def described(source: Source) -> str:
    """What the summary says of the prompts that were left out, to be filled in; maybe nothing."""
    if "dropped" not in source.facts:
        return ""
    cut = " from a success rate of {success_at_cut:.3g} on" if source.facts["dropped"] else ""
    return ", {dropped} dropped" + cut


def drop_easiest(source: Source, share: float | None, scores: list[Path]) -> Source:
    """The prompts without the floor(share * n) that were solved most often; all without a share.

        success rate of a prompt = correct completions / completions with a verdict

    over all scores directories together. Of equals, those go whose ids have the lower hash. A
    prompt without any verdict stays, so fewer go where few have one.
    """
    if share is None:
        return source
    ids = [row["prompt_id"] for row in source.rows]
    given = {shards.digest: shards for shards in (Shards.open(path, "scores") for path in scores)}
    rates = success_rates(set(ids), list(given.values()))
    order = sorted(rates, key=lambda name: (-rates[name], seeds.derive("drop-easiest", name)))
    dropped = order[: math.floor(Fraction(str(share)) * len(ids))]  # 0.29 * 100 is below 29
    gone = set(dropped)
    return replace(
        source,
        rows=[row for row in source.rows if row["prompt_id"] not in gone],
        params=source.params | {"drop_easiest": share, "scores": sorted(given)},
        facts=source.facts
        | {
            "dropped": len(dropped),
            "success_at_cut": rates[dropped[-1]] if dropped else None,
            "unjudged": len(set(ids)) - len(rates),
        },
    )


def success_rates(prompt_ids: set[str], scores: list[Shards]) -> dict[str, float]:
    """The mean of `correct` of each prompt that has a verdict; an error about other prompts."""
    judged: Counter[str] = Counter()
    correct: Counter[str] = Counter()
    for shards in scores:
        table = shards.table().select(["prompt_id", "correct"])
        rows = [row for row in table.to_pylist() if row["prompt_id"] in prompt_ids]
        if not rows:
            raise DataError(
                f"`{shards.path}` holds no completion of these prompts",
                "name scores of rollouts of the same prompts with --scores",
            )
        for row in rows:
            if row["correct"] is not None:
                judged[row["prompt_id"]] += 1
                correct[row["prompt_id"]] += row["correct"]
    return {name: correct[name] / count for name, count in judged.items()}
