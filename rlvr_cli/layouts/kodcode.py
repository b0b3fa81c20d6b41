"""KodCode: `question`, `test` with functions for pytest, and `test_info`."""

from typing import Any

from rlvr_cli.layouts import _common
from rlvr_cli.protocols import Layout

SAYS = "the gold is `test`, the verifier code"
_ASK = "{question}\n\nDefine {functions}.\n"


def recognises(rows: list[dict[str, Any]]) -> bool:
    return _common.has(rows[0], "question", "test", "test_info", "solution")


def build() -> Layout:
    def read(row: dict[str, Any]) -> dict[str, Any]:
        question = _common.text(row, "question")
        named = [info for info in row.get("test_info") or [] if isinstance(info, dict)]
        begun = [str(info["function_declaration"]).strip().rstrip(":") for info in named
                 if info.get("function_declaration")]  # fmt: skip
        wanted = " and ".join(f"`{text}`" for text in begun)
        return {
            "prompt": _ASK.format(question=question, functions=wanted) if begun else question,
            "answer": str(_common.value(row, "test")),
            "verifier": "code",
            "used": {"question", "test", "solution", "conversations", "r1_solution"},
        }

    return read
