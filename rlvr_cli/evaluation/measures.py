"""Named metrics of each prompt, and their means over prompts.

Shapes: P prompts, M metrics, U prompts that several files have.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlvr_cli.evaluation.metrics import intervals
from rlvr_cli.evaluation.tallies import Tally


@dataclass(frozen=True)
class Measures:
    """Named metrics of each prompt."""

    prompt_id: list[str]
    names: list[str]
    value_PM: np.ndarray

    def intervals(self) -> dict[str, list[float | None]]:
        """The mean over prompts of each metric and its 95% interval, None where it has none."""
        by_name: dict[str, list[float | None]] = self.estimates()["metrics"]
        return by_name

    def estimates(self) -> dict[str, dict[str, Any]]:
        """The `intervals` (metrics), their methods, and each mean's standard error."""
        estimate = intervals.of_means(self.names, self.value_PM)
        errors = map(finite, estimate.error_M.tolist())
        return {
            "metrics": dict(zip(self.names, as_cells(estimate), strict=True)),
            "standard_error": dict(zip(self.names, errors, strict=True)),
            "interval": dict(zip(self.names, estimate.method_M, strict=True)),
        }

    def of(self, rows: list[int]) -> "Measures":
        """Those of some of the prompts, by their place."""
        return Measures([self.prompt_id[p] for p in rows], self.names, self.value_PM[rows])

    def only(self, names: Sequence[str], prompt_ids: Sequence[str]) -> "Measures":
        """Some of the metrics, of some of the prompts by their names, in these orders."""
        row_of = {prompt_id: row for row, prompt_id in enumerate(self.prompt_id)}
        columns = [self.names.index(name) for name in names]
        value_PM = self.value_PM[[row_of[p] for p in prompt_ids]][:, columns]
        return Measures(list(prompt_ids), list(names), value_PM)


def finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def as_cells(estimate: intervals.Intervals) -> list[list[float | None]]:
    """[mean, low, high] of each metric, None where there is none."""
    rows = np.stack([estimate.mean_M, estimate.low_M, estimate.high_M], 1).tolist()
    return [list(map(finite, row)) for row in rows]


def joined(*measures: Measures) -> Measures:
    """Several measures of the same prompts as one."""
    first = measures[0]
    assert all(m.prompt_id == first.prompt_id for m in measures)
    names = [name for m in measures for name in m.names]
    return Measures(first.prompt_id, names, np.column_stack([m.value_PM for m in measures]))


def over_files(tallied: Tally, measures: Measures) -> Measures:
    """Each prompt's mean over the files or sources that have it.

    Those of several runs or steps are not independent: a prompt is one draw, however many have it.
    """
    labels = sorted(tallied.read.get("apart", ()), key=len, reverse=True)
    if not labels and not tallied.shared:
        return measures
    number: dict[tuple[str, str], int] = {}
    code_P = np.empty(len(tallied.ids), dtype=np.int64)
    for place, (source, prompt_id) in enumerate(zip(tallied.source, tallied.ids, strict=True)):
        of = (name for name in labels if f"{source}/".startswith(f"{name}/"))
        label = next(of) if labels else source or ""
        code_P[place] = number.setdefault(((source or "")[len(label) :], prompt_id), len(number))
    sum_UM = np.zeros((len(number), len(measures.names)))
    np.add.at(sum_UM, code_P, measures.value_PM)
    mean_UM = sum_UM / np.bincount(code_P)[:, None]
    names = [f"{source}/{prompt_id}".removeprefix("/") for source, prompt_id in number]
    return Measures(names, measures.names, mean_UM)
