"""lighteval: the Parquet files of its details, with document, model response and metric."""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from rlvr_cli.interop.formats._common import Row

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


def recognises(names: set[str]) -> bool:
    """The three columns, with underscores (to 0.12) or without (from 0.13)."""
    parts = ("doc", "model_response", "metric")
    return set(parts) <= names or {f"__{part}__" for part in parts} <= names


def reader(file: str) -> Callable[[Row], list[Row]]:
    """A document's only metric is its verdict if it is 0 or 1 and there is one completion."""

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
        scores = [value for value in metric.values() if value is not None]
        if len(scores) == 1 and scores[0] in (0, 1) and len(texts) < 2:
            fields["correct"] = [bool(scores[0])] if texts else bool(scores[0])
        return [row | fields]

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
