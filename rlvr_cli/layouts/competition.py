"""AIME, AMC and OlympiadBench: a problem and its gold, which may be a list.

OlympiadBench has `question` and `final_answer`; AIME and AMC have `problem` and `answer` next to a
`url`, `year`, `problem_idx` or `problem_type`. A `context` goes before the question.
"""

from typing import Any

from rlvr_cli.layouts import _common
from rlvr_cli.protocols import Layout, Unusable

SAYS = "the gold is `answer` or `final_answer`, the verifier math"
_MARKS = ("url", "year", "problem_idx", "problem_type")


def recognises(rows: list[dict[str, Any]]) -> bool:
    first = rows[0]
    is_olympiad = _common.has(first, "question", "final_answer")
    is_contest = _common.has(first, "problem", "answer") and any(n in first for n in _MARKS)
    return is_olympiad or (is_contest and "question_type" not in first)


def build() -> Layout:
    def read(row: dict[str, Any]) -> dict[str, Any]:
        name = "question" if "final_answer" in row else "problem"
        if str(row.get("modality") or "").lower() == "multimodal":
            raise Unusable("it needs an image")
        before = [row["context"]] if row.get("context") else []
        return {
            "prompt": "\n\n".join(map(str, [*before, _common.value(row, name)])),
            "answer": _gold(row),
            "verifier": "math",
            "used": {name, "answer", "final_answer", "context"},
        }

    return read


def _gold(row: dict[str, Any]) -> str:
    """The answer; several follow one another, as they do in a completion."""
    if "final_answer" not in row:
        return _common.answered(row)
    answers = _common.value(row, "final_answer")
    listed = answers if isinstance(answers, list) else [answers]
    if not listed:
        raise Unusable("it has no `final_answer`")
    return ", ".join(
        _common.answered({"final_answer": answer}, "final_answer") for answer in listed
    )
