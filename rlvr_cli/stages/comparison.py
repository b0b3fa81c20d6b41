"""The stage that compares two runs, or two scores directories, over the same prompts."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rlvr_cli.errors import DataError
from rlvr_cli.metrics import bootstrap
from rlvr_cli.shards import MANIFEST, Shards
from rlvr_cli.stages import evaluate
from rlvr_cli.stages.evaluate import Measures, finite

Cell = list[float | None]  # mean, low, high


@dataclass(frozen=True)
class Comparison:
    """For each metric its value in the first and in the second, and second - first."""

    title: str
    rows: dict[str, list[Cell]]

    def as_json(self) -> dict[str, Any]:
        names = ("first", "second", "difference")
        return {
            "title": self.title,
            "metrics": {k: dict(zip(names, v, strict=True)) for k, v in self.rows.items()},
        }


def compare(first: Path, second: Path) -> Comparison:
    """Paired differences over the prompts of both; an error unless those are the same."""
    a, b = _measures(first), _measures(second)
    return difference(a, b, f"held-out prompts: {len(a.prompt_id)}")


def over_common_prompts(a: Measures, b: Measures) -> tuple[Measures, Measures]:
    """Both, over the prompts that both have, in the order of the first."""
    in_b = set(b.prompt_id)
    common = [prompt_id for prompt_id in a.prompt_id if prompt_id in in_b]
    made = (Measures(common, m.names, _values(m, m.names, common)) for m in (a, b))
    return next(made), next(made)


def difference(a: Measures, b: Measures, title: str) -> Comparison:
    """The metrics that both have, with the interval of b - a over prompts."""
    if sorted(a.prompt_id) != sorted(b.prompt_id):
        only = sorted(set(a.prompt_id) ^ set(b.prompt_id))
        raise DataError(
            f"the two do not have the same prompts: `{only[0]}` is in one of them only",
            "compare runs over the same held-out prompts",
        )
    names = [name for name in a.names if name in b.names]
    value_a = _values(a, names, a.prompt_id)
    value_b = _values(b, names, a.prompt_id)
    made = bootstrap.paired_difference(value_b, value_a)
    delta = np.stack([made.mean_M, made.low_M, made.high_M], 1).tolist()
    first, second = a.intervals(), b.intervals()
    rows = {
        name: [first[name], second[name], list(map(finite, delta[m]))]
        for m, name in enumerate(names)
    }
    return Comparison(title, rows)


def _values(measures: Measures, names: list[str], prompt_ids: list[str]) -> np.ndarray:
    row_of = {prompt_id: row for row, prompt_id in enumerate(measures.prompt_id)}
    columns = [measures.names.index(name) for name in names]
    return measures.value_PM[[row_of[p] for p in prompt_ids]][:, columns]


def _measures(path: Path) -> Measures:
    """Of a run: its last evaluation. Of a scores directory: Pass@k and UCC@k."""
    evaluations = sorted(path.glob(f"eval/*/logprobs/{MANIFEST}"))
    if evaluations:
        return evaluate.run_measures(evaluations[-1].parent.parent)
    if (path / "eval").exists() or (path / "config.toml").exists():
        raise DataError(f"`{path}` has no complete evaluation", "go on with its `rlvr train`")
    tallied = evaluate.of_scores(Shards.open(path, "scores"), texts=True)
    ks = evaluate.default_ks(tallied)
    return evaluate.joined(
        evaluate.pass_measures(tallied, ks), evaluate.ucc_measures(tallied, [ks[-1]])
    )
