"""Figures of a step and of an evaluation by source, where its prompts have several."""

import functools
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from rlvr_cli.errors import DataError
from rlvr_cli.evaluation.measures import Measures
from rlvr_cli.storage.manifest import Damaged
from rlvr_cli.storage.shards import Shards

MOST = 16  # sources; of more, as where each row has an address of its own, there are no figures
_SHOWN = 4  # sources in a line
Figures = dict[str, dict[str, Any]]


@dataclass
class _Sum:
    """Sums over the completions of one source."""

    prompts: set[str] = field(default_factory=set)
    completions: int = 0
    tokens: int = 0
    reward: list[float] = field(default_factory=list)
    correct: list[float] = field(default_factory=list)

    def figures(self) -> dict[str, Any]:
        return {
            "prompts": len(self.prompts),
            "completions": self.completions,
            "reward": _mean(self.reward),
            "correct": _mean(self.correct),
            "length": self.tokens / self.completions,
        }


def of_step(here: Path) -> Figures:
    """The figures of the `rollouts` and `scores` of a folder, by source; none of a single one."""
    rollouts, scores = (Shards.open(here / name) for name in ("rollouts", "scores"))
    sources = _sources(rollouts)
    if not sources:
        return {}
    sums: dict[str, _Sum] = defaultdict(_Sum)
    for index in range(len(scores)):
        tokens = rollouts.part(index, ["token_ids"])["token_ids"]
        lengths = pc.fill_null(pc.list_value_length(tokens), 0).to_pylist()
        table = scores.part(index, ["prompt_id", "reward", "correct"])
        rows = zip(*(column.to_pylist() for column in table.columns), lengths, strict=True)
        for prompt_id, reward, correct, length in rows:
            total = sums[sources[prompt_id]]
            total.prompts.add(prompt_id)
            total.completions += 1
            total.tokens += length
            total.reward += [] if reward is None else [reward]
            total.correct += [] if correct is None else [float(correct)]
    return {source: sums[source].figures() for source in sorted(sums)}


def of_evaluation(here: Path, measures: Measures) -> Figures:
    """The figures of an evaluation, and Pass@k over the prompts of each source."""
    figures = of_step(here)
    sources = _sources(Shards.open(here / "rollouts")) if figures else {}
    names = [name for name in measures.names if name.startswith("pass@")]
    for source, values in figures.items():
        rows = [p for p, name in enumerate(measures.prompt_id) if sources[name] == source]
        cells = measures.of(rows).intervals() if rows else {}
        values.update({name: cells.get(name, [None, None, None]) for name in names})
    return figures


def _sources(rollouts: Shards) -> dict[str, str]:
    """The source of each prompt; empty where there is one, there are too many, or none is known."""
    try:
        prompts = rollouts.parent("prompts")
    except Damaged:
        raise
    except (LookupError, DataError):
        return {}  # moved away since
    return _sources_of(prompts.path.absolute(), prompts.digest)


@functools.lru_cache(maxsize=4)
def _sources_of(path: Path, digest: str) -> dict[str, str]:
    prompts = Shards.open(path)
    tables = (prompts.part(index, ["prompt_id", "source"]) for index in range(len(prompts)))
    pairs = [zip(*(c.to_pylist() for c in table.columns), strict=True) for table in tables]
    sources: dict[str, str] = {name: source for part in pairs for name, source in part}
    return sources if 1 < len(set(sources.values())) <= MOST else {}


def _mean(values: Iterable[float]) -> float | None:
    known = list(values)
    return sum(known) / len(known) if known else None


def line(figures: Figures, name: str) -> str:
    """One figure of each source in short, as in `gsm8k 0.50, math 0.25`; empty without any."""
    shown = []
    for source, values in list(figures.items())[:_SHOWN]:
        value = values.get(name)
        number = value[0] if isinstance(value, list) else value
        shown.append(f"{source} {'-' if number is None else format(number, '.2f')}")
    return ", ".join(shown + ["..."] * (len(figures) > _SHOWN))
