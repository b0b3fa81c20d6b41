"""Completions without an answer and golds that cannot be read, in words: how many, and three."""

from collections import Counter
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
            yield f"{part} {words}: {shown}"


def warnings(scores: Shards, rollouts: Shards) -> Iterator[str]:
    """A warning if nearly all completions have no answer, so that there is little to learn from."""
    if share(scores) > _NEARLY_ALL:
        yield f"warning: of `{scores.path}` {next(remarks(scores, rollouts))}"


def _examples(scores: Shards, rollouts: Shards, status: str) -> Iterator[str]:
    seen: Counter[str | None] = Counter()
    rows: list[tuple[tuple[int, int], int, int, dict[str, Any]]] = []
    for part in range(len(scores)):
        for index, row in enumerate(scores.part(part, _READ).to_pylist()):
            if row["status"] == status:
                rank = (seen[row["reason"]], seen[row["prompt_id"]])
                seen.update((row["reason"], row["prompt_id"]))
                if max(rank) < _SHOWN:
                    rows.append((rank, part, index, row))
    for _, part, index, row in sorted(rows, key=lambda entry: entry[0])[:_SHOWN]:
        text = rollouts.part(part, ["completion"])["completion"][index].as_py()
        end = repr(text) if len(text) <= _END else f"...{text[-_END:]!r}"
        told = [row["reason"], end if status == "no_answer" else None]
        yield f"`{row['prompt_id']}` {row['sample_index']}, " + ": ".join(filter(None, told))
