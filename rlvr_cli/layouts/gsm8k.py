"""GSM8K: `question`, and an `answer` that ends with #### and the gold."""

from typing import Any

from rlvr_cli.layouts import _common
from rlvr_cli.protocols import Layout, Unusable

SAYS = "the gold is what follows #### in `answer`, the verifier math:unanchored=true"


def recognises(rows: list[dict[str, Any]]) -> bool:
    return all(_common.has(r, "question", "answer") and "####" in str(r["answer"]) for r in rows)


def build() -> Layout:
    def read(row: dict[str, Any]) -> dict[str, Any]:
        _, marked, gold = str(_common.value(row, "answer")).rpartition("####")
        if not marked or not gold.strip():
            raise Unusable("its `answer` has nothing after ####")
        question = _common.value(row, "question")
        return {
            "prompt": question,
            "answer": gold.strip(),
            "verifier": "math:unanchored=true",  # the questions ask for no marked answer
            "used": {"question"},
        }

    return read
