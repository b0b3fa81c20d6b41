"""lm-evaluation-harness: the JSON lines of `--log_samples`, one document per line."""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rlvr_cli.errors import DataError
from rlvr_cli.interop.formats._common import NAMES, Row, values
from rlvr_cli.interop.names import id_text

SUFFIX = ".jsonl"
# What says whether a completion is right, the first that a file has. Accuracies of choices come
# before those that are normalised by length, strict ones before loose ones.
PREFERRED = (
    *("exact_match", "acc", "pass@1", "pass_at_1", "prompt_level_strict_acc", "em", "math_verify"),
    *("acc_norm", "exact", "prompt_level_loose_acc"),
)


def recognises(names: set[str]) -> bool:
    """`doc_id` with `resps` and `filtered_resps`."""
    return {"doc_id", "resps", "filtered_resps"} <= names


def reader(file: str) -> Callable[[Row], list[Row]]:
    """The task is in the file's name; one metric is the verdict in all of the file.

    A file that holds a document under several filters is refused: they would count as several
    completions.
    """
    task = re.sub(r"^samples_|_\d{4}-\d\d-\d\dT.*$", "", file.partition(".jsonl")[0])
    filters: list[Any] = []
    metrics: list[str | None] = []

    def read(row: Row) -> list[Row]:
        if row.get("filter") not in filters:
            filters.append(row.get("filter"))
        if len(filters) > 1:
            raise DataError(
                f"`{file}` holds every document under the filters {filters[0]} and {filters[1]}",
                f"take one with --where {shlex.quote(f'filter={filters[0]}')}",
            )
        metrics[:] = metrics or [verdict(row)]
        texts = [text for request in row["resps"] for text in request if isinstance(text, str)]
        size = len(texts) or 1
        if size > 1 and "maj" in str(row.get("filter")):
            raise DataError(
                f"`{file}` has verdicts on what most of {size} completions answer, by the filter "
                f"{row['filter']}, and none on one of them",
                "take a filter that judges one, as in --where filter=score-first",
            )
        fields: Row = {"prompt_id": id_text(row["doc_id"]), "source": task,
                       "answer": row.get("target"), "sample_index": list(range(size))}  # fmt: skip
        if texts:
            fields["completions"] = texts
            # A filter that takes the first completion leaves the others without a verdict.
            fields |= {name: _spread(row[name], size) for name in _metrics(row) if name in row}
        if metrics[0]:
            value = row.get(metrics[0])
            fields |= {"correct": _spread(value, size), NAMES: {"correct": metrics[0]}}
        if texts and (answers := row["filtered_resps"]):
            flat = answers[0] if isinstance(answers[0], list) else answers
            fields["extracted"] = _spread(flat if len(flat) == size else flat[0], size)
        if prompt := row.get("arguments"):
            fields["prompt"] = _first_text(prompt)
        return [row | fields]

    return read


def _metrics(row: Row) -> list[str]:
    """A row's metrics; older files do not list them."""
    return row.get("metrics") or [name for name in PREFERRED if name in row]


def verdict(row: Row) -> str | None:
    """The metric that decides correctness: the first known one, or the only one; else None."""
    names = _metrics(row)
    known = [name for name in PREFERRED if name in names]
    return known[0] if known else names[0] if len(names) == 1 else None


def _spread(value: Any, size: int) -> list[Any]:
    return value if isinstance(value, list) else [value, *[None] * (size - 1)]


def _first_text(arguments: Any) -> Any:
    """The context of the first request: lists in older versions, named in newer ones."""
    while isinstance(arguments, list | dict) and arguments:
        arguments = next(iter(arguments.values())) if isinstance(arguments, dict) else arguments[0]
    return arguments


def write(groups: Iterable[Row]) -> Iterator[Row]:
    """One document a line; `exact_match` is a list where there are several completions."""
    for group in groups:
        prompt, completions = group["messages"], values(group, "completion")
        correct = [None if c is None else float(c) for c in values(group, "correct")]
        yield {
            "doc_id": group["prompt_id"],
            "doc": {"prompt": prompt, "answer": group["answer"], "source": group["source"]},
            "target": group["answer"],
            "arguments": [[prompt, {}]],
            "resps": [completions],
            "filtered_resps": [values(group, "extracted")],
            "filter": "none",
            "metrics": ["exact_match"],
            "exact_match": correct[0] if len(correct) == 1 else correct,
        }
