"""Completions without an answer and golds that cannot be read, in words: how many, and three."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from rlvr_cli.storage.shards import Shards

_SHOWN = 3
_NEARLY_ALL = 0.8
_END = 60  # characters of a completion
_WORDS = {"no_answer": "have no answer", "bad_gold": "have a gold that cannot be read"}
_READ = ["prompt_id", "sample_index", "status", "reason"]


def share(scores: Shards) -> float:
    """The share of completions without an answer."""
    return float(scores.summary["status"].get("no_answer", 0)) / max(scores.rows, 1)


def remarks(scores: Shards | None, rollouts: Shards) -> Iterator[str]:
    """A line on completions without an answer and one on bad golds, if there are any.

    The three that are shown have different reasons and prompts where there are several.
    """
    if scores is None:
        return
    for status, words in _WORDS.items():
        if count := scores.summary["status"].get(status, 0):
            shown = "; ".join(_examples(scores, rollouts, status))
            part = f"{count} of {scores.rows} completions ({count / scores.rows:.1%})"
            yield f"{part} {words}, for example {shown}"


def warnings(scores: Shards, rollouts: Shards) -> Iterator[str]:
    """A warning if nearly all completions have no answer, so that there is little to learn from."""
    if share(scores) > _NEARLY_ALL:
        yield f"warning: of `{scores.path}` {next(remarks(scores, rollouts))}"


def _examples(scores: Shards, rollouts: Shards, status: str) -> Iterator[str]:
    seen: Counter[tuple[str, str | None]] = Counter()
    named: defaultdict[str | None, set[str]] = defaultdict(set)  # the prompts of each reason
    rows: list[tuple[tuple[int, int], int, int, dict[str, Any]]] = []
    for part in range(len(scores)):
        for index, row in enumerate(scores.part(part, _READ).to_pylist()):
            if row["status"] == status:
                reason, prompt = row["reason"], row["prompt_id"]
                again, prompts = seen[prompt, reason], len(named[reason])
                seen[prompt, reason] += 1
                named[reason].add(prompt)
                if max(again, prompts) < _SHOWN and not (again and status == "bad_gold"):
                    rows.append(((again, prompts), part, index, row))
    for _, part, index, row in sorted(rows, key=lambda entry: entry[0])[:_SHOWN]:
        text = rollouts.part(part, ["completion"])["completion"][index].as_py()
        end = repr(text) if len(text) <= _END else f"...{text[-_END:]!r}"
        reason = " ".join((row["reason"] or "").split())[:200]
        details = [reason, end if status == "no_answer" else None]
        where = f"prompt `{row['prompt_id']}`"
        if status == "no_answer":
            where = f"sample {row['sample_index']} of {where}"
        yield ": ".join(filter(None, (where, *details)))
