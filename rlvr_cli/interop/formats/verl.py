"""verl: its Parquet data sets with responses and scores, and its JSON lines of rollouts."""

import json
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from rlvr_cli.interop.formats._common import (
    NAMES,
    Row,
    images,
    messages,
    named,
    values,
    with_images,
    with_places,
)
from rlvr_cli.interop.names import id_text

SUFFIX = ".parquet"
_MESSAGE = pa.struct([("role", pa.string()), ("content", pa.large_string())])
SCHEMA = pa.schema(
    [
        ("data_source", pa.string()),
        ("prompt", pa.list_(_MESSAGE)),
        ("ability", pa.string()),
        ("reward_model", pa.struct([("style", pa.string()), ("ground_truth", pa.large_string())])),
        ("extra_info", pa.struct([("index", pa.string()), ("extra", pa.large_string())])),
        ("responses", pa.list_(pa.large_string())),
        ("scores", pa.list_(pa.float64())),
    ]
)
KEEPS_IMAGES = True
SCHEMA_WITH_IMAGES = with_images(SCHEMA)


def recognises(names: set[str]) -> bool:
    """`responses` with `data_source`, or the `input`, `output` and `score` of a dumped step."""
    return {"responses", "data_source"} <= names or {"input", "output", "score"} <= names


def reader(file: str) -> Callable[[Row], list[Row]]:
    def read(row: Row) -> list[Row]:
        if "input" in row:
            return [row | {"prompt_id": named(row["input"]), "prompt": row["input"],
                           "completion": row["output"], "reward": row["score"],
                           "answer": row.get("gts"), NAMES: {"reward": "score"}}]  # fmt: skip
        index = (row.get("extra_info") or {}).get("index")
        fields: Row = {"prompt_id": named(row.get("prompt")) if index is None else id_text(index)}
        fields |= {"completions": row["responses"], "source": row["data_source"]}
        fields["answer"] = (row.get("reward_model") or {}).get("ground_truth")
        if row.get("scores"):
            fields |= {"reward": row["scores"], NAMES: {"reward": "scores"}}
        return [row | fields]

    return read


def write(groups: Iterable[Row]) -> Iterator[Row]:
    """One prompt a row, as verl's data sets and its evaluation have them.

    Images are in `images`, and `<image>` is at their places in the text.
    """
    for group in groups:
        yield {
            "data_source": group["source"],
            "prompt": messages(with_places(group["messages"], group["prompt_id"])),
            "ability": group["verifier"],
            "reward_model": {"style": "rule", "ground_truth": group["answer"]},
            "extra_info": {"index": group["prompt_id"], "extra": json.dumps(group["extra"])},
            "responses": values(group, "completion"),
            "scores": values(group, "reward"),
            "images": images(group),
        }
