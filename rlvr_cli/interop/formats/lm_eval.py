"""lm-evaluation-harness: the JSON lines of `--log_samples`, one document a line."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rlvr_cli.errors import DataError
from rlvr_cli.interop.formats._common import Row, values

SUFFIX = ".jsonl"


def recognises(names: set[str]) -> bool:
    """`doc_id` with `resps` and `filtered_resps`."""
    return {"doc_id", "resps", "filtered_resps"} <= names


def reader(file: str) -> Callable[[Row], list[Row]]:
    """The task is in the file's name. A file that holds a document under several filters is
    refused: they would count as several completions."""
    task = re.sub(r"^samples_|_\d{4}-\d\d-\d\dT.*$", "", file.partition(".jsonl")[0])
    filters: list[Any] = []

    def read(row: Row) -> list[Row]:
        if row.get("filter") not in filters:
            filters.append(row.get("filter"))
        if len(filters) > 1:
            raise DataError(
                f"`{file}` holds every document under the filters {filters[0]} and {filters[1]}",
                f"keep one: jq -c 'select(.filter == \"{filters[0]}\")' {file} > one.jsonl",
            )
        texts = [text for request in row["resps"] for text in request if isinstance(text, str)]
        fields: Row = {"prompt_id": str(row["doc_id"]), "source": task, "answer": row.get("target")}
        if texts:
            fields["completions"] = texts
        size = len(texts) or 1
        verdict = _verdict(row)
        if verdict is not None:  # a filter that takes the first leaves the others without a verdict
            fields["correct"] = _spread(verdict, size) if texts else verdict
        if texts and (answers := row["filtered_resps"]):
            flat = answers[0] if isinstance(answers[0], list) else answers
            fields["extracted"] = _spread(flat if len(flat) == size else flat[0], size)
        if prompt := row.get("arguments"):
            fields["prompt"] = _first_text(prompt)
        return [row | fields]

    return read


def _spread(value: Any, size: int) -> list[Any]:
    return value if isinstance(value, list) else [value, *[None] * (size - 1)]


def _verdict(row: Row) -> Any:
    """The first of the row's metrics that is 0 or 1, or a list of such; None without one."""
    for name in row.get("metrics") or ("exact_match", "acc"):
        value = row.get(name)
        if all(v in (0, 1, None) for v in (value if isinstance(value, list) else [value])):
            return value
    return None


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
