"""lighteval: the Parquet files of its details, with document, model response and metric."""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from rlvr_cli.interop.formats._common import Row, correct_by

SUFFIX = ".parquet"
_TEXT = pa.large_string()
SCHEMA = pa.schema(
    [
        ("__doc__", pa.struct([("id", pa.string()), ("query", _TEXT), ("task_name", pa.string()),
                               ("choices", pa.list_(_TEXT)), ("gold_index", pa.int64())])),
        ("__model_response__", pa.struct([("text", pa.list_(_TEXT))])),
        ("__metric__", pa.struct([("correct", pa.float64())])),
    ]
)  # fmt: skip


# Of several metrics the first of these that a file has says whether a completion is right.
PREFERRED = ("extractive_match", "exact_match", "em", "qem", "acc")


def recognises(names: set[str]) -> bool:
    """The three columns, with underscores (to 0.12) or without (from 0.13)."""
    parts = ("doc", "model_response", "metric")
    return set(parts) <= names or {f"__{part}__" for part in parts} <= names


def reader(file: str) -> Callable[[Row], list[Row]]:
    """One metric is the verdict in all of the file: the only one, or the first known one.

    Each is a column of its own. A metric over several completions is no verdict on one of them.
    """
    chosen: list[str | None] = []

    def read(row: Row) -> list[Row]:
        doc, response, metric = (
            _plain(row.get(name, row.get(f"__{name}__")))
            for name in ("doc", "model_response", "metric")
        )
        texts = response.get("text") or []
        fields: Row = {"prompt_id": str(doc.get("id")), "prompt": doc.get("query"),
                       "source": doc.get("task_name"), "answer": _gold(doc)}  # fmt: skip
        if texts:
            fields["completions"] = texts
        if len(texts) > 1:
            return [row | fields]
        scores = {n: [value] if texts else value for n, value in metric.items()
                  if value is not None}  # fmt: skip
        if not chosen:
            known = [name for name in PREFERRED if name in scores]
            chosen.extend(known[:1] or (scores if len(scores) == 1 else [None]))
        unknown = [None] if texts else None
        return [row | scores | fields | correct_by(chosen[0], scores.get(chosen[0] or "", unknown))]

    return read


def _plain(value: Any) -> Row:
    return json.loads(value) if isinstance(value, str) else value or {}


def _gold(doc: Row) -> Any:
    choices, index = doc.get("choices") or [], doc.get("gold_index")
    index = index[0] if isinstance(index, list) and index else index
    return choices[index] if isinstance(index, int) and index < len(choices) else None


def write(groups: Iterable[Row]) -> Iterator[Row]:
    """One completion a row, so that each keeps its verdict; a group shares its document's id."""
    for group in groups:
        prompt = group["messages"]
        query = prompt if isinstance(prompt, str) else "\n".join(m["content"] for m in prompt)
        for completion in group["completions"]:
            correct = completion.get("correct")
            yield {
                "__doc__": {
                    "id": group["prompt_id"],
                    "query": query,
                    "task_name": group["source"],
                    "choices": [] if group["answer"] is None else [group["answer"]],
                    "gold_index": 0,
                },
                "__model_response__": {"text": [completion["completion"]]},
                "__metric__": {"correct": None if correct is None else float(correct)},
            }
