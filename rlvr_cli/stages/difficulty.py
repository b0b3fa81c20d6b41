"""Prompts by the success rate of completions that were scored: without the easiest, or a range.

The filtering baseline of IAC: "discards the easiest 25% of training queries according to their
empirical success rate" (When Sharpening Becomes Collapse, table 5 and appendix I).
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.runtime import seeds
from rlvr_cli.stages.prompts import Source
from rlvr_cli.storage.shards import Shards

Kept = tuple[float | None, Sequence[float], list[Path]]


def checked(share: float | None, rates: Sequence[float], scores: list[Path]) -> Kept:
    """What was given; an error for a share or rates without scores, scores without either."""
    if share is not None and not 0 <= share < 1:
        raise UsageError(f"--drop-easiest is {share}", "it must be at least 0 and less than 1")
    if rates and not (len(rates) == 2 and rates[0] <= rates[1] <= 1):
        raise UsageError(
            f"--keep-rate is {','.join(f'{rate:g}' for rate in rates)}",
            "write the lowest and the highest success rate that stays, as in --keep-rate 0.1,0.9",
        )
    if rates and share is not None:
        raise UsageError(
            "--drop-easiest and --keep-rate both say which prompts stay", "give one of them"
        )
    if (rates or share is not None) and not scores:
        raise UsageError(
            f"{'--keep-rate' if rates else '--drop-easiest'} needs the prompts' success rates",
            "name a scores directory that holds their completions with --scores",
        )
    if scores and not rates and share is None:
        raise UsageError(
            "--scores says which prompts are easy, and nothing says which of them are dropped",
            "say so, as in --drop-easiest 0.25 or --keep-rate 0.1,0.9",
        )
    return share, rates, scores


def chosen(
    source: Source, share: float | None, rates: Sequence[float], scores: list[Path]
) -> Source:
    """The prompts that a share or rates leave."""
    return keep_rates(drop_easiest(source, share, scores), rates, scores)


def described(source: Source) -> str:
    """What the summary says of the prompts, to be filled in; of those left out, if any were."""
    if "too_easy" in source.facts:
        left_out = "dropped {too_easy} solved too often and {too_hard} too rarely"
        return f"{{prompts:prompt}}, {left_out}, kept {{unjudged}} without a verdict"
    if "dropped" not in source.facts:
        return "{prompts:prompt}"
    cut = ", solved at a rate of {success_at_cut:.3g} or more" if source.facts["dropped"] else ""
    return "{prompts:prompt}, dropped {dropped}" + cut


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


def keep_rates(source: Source, rates: Sequence[float], scores: list[Path]) -> Source:
    """The prompts whose success rate is within `rates`, both ends included; all without rates.

    A prompt without any verdict stays. Prompts of which a group of completions is all right or all
    wrong teach a policy nothing: their advantages are 0.
    """
    if not rates:
        return source
    low, high = rates
    ids = [row["prompt_id"] for row in source.rows]
    given = {shards.digest: shards for shards in (Shards.open(path, "scores") for path in scores)}
    known = success_rates(set(ids), list(given.values()))
    easy = {name for name, rate in known.items() if rate > high}
    hard = {name for name, rate in known.items() if rate < low}
    if len(easy | hard) == len(set(ids)):
        raise DataError(
            f"no prompt has a success rate from {low:g} to {high:g}: {len(easy)} have a higher one "
            f"and {len(hard)} a lower one",
            "widen --keep-rate",
        )
    return replace(
        source,
        rows=[row for row in source.rows if row["prompt_id"] not in easy | hard],
        params=source.params | {"keep_rate": list(rates), "scores": sorted(given)},
        facts=source.facts
        | {"too_easy": len(easy), "too_hard": len(hard), "unjudged": len(set(ids)) - len(known)},
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
