"""MMLU-Pro, MMLU, ARC and MedQA: `question`, its `options` or `choices`, and the right one.

The prompt is the question and below it a line for each option, as in `B. 42`. The gold is a letter:
that of `answer`, or of `answer_index`, or of the labels `answerKey` and `answer_idx`.
"""

import json
import string
from typing import Any

from rlvr_cli.layouts import _common
from rlvr_cli.protocols import Layout, Unusable

SAYS = "options are lines `A. ...` below the question, the gold is a letter, the verifier choice"


def recognises(rows: list[dict[str, Any]]) -> bool:
    first = rows[0]
    is_known = any(name in first for name in ("answer", "answerKey", "answer_index"))
    options = first.get("options", first.get("choices"))
    return "question" in first and is_known and isinstance(options, list | dict)


def build() -> Layout:
    def read(row: dict[str, Any]) -> dict[str, Any]:
        texts, labels = _options(row)
        letters = string.ascii_uppercase[: len(texts)]
        lines = [f"{letter}. {text}" for letter, text in zip(letters, texts, strict=True)]
        question = _common.text(row, "question")
        return {
            "prompt": "\n".join([question, "", *lines]),
            "answer": _gold(row, letters, labels, texts),
            "verifier": "choice",
            "used": {"question", "options", "choices"},
            "extra": {"options": texts},
        }

    return read


def _options(row: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The texts of the options and what they are called."""
    given = row.get("options", row.get("choices"))
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            given = None
    labels = None
    if isinstance(given, dict) and given.keys() <= set(string.ascii_uppercase):
        given = {name: text for name, text in sorted(given.items()) if text is not None}
        labels, given = list(given), list(given.values())
    elif isinstance(given, dict):
        labels, given = given.get("label"), given.get("text")
    if not isinstance(given, list) or not 2 <= len(given) <= 26:
        raise Unusable("it has no list of 2 to 26 options")
    letters = list(string.ascii_uppercase[: len(given)])
    named = list(map(str, labels)) if isinstance(labels, list) else letters
    return list(map(str, given)), named if len(named) == len(given) else letters


def _gold(row: dict[str, Any], letters: str, labels: list[str], texts: list[str]) -> str:
    index, answer = row.get("answer_index"), row.get("answerKey", row.get("answer"))
    if isinstance(row.get("answer_idx"), str):  # of MedQA, whose `answer` is the text
        answer = row["answer_idx"]
    if isinstance(answer, int) and not isinstance(answer, bool):
        index, answer = (answer if index is None else index), None
    if answer is not None:
        text = str(answer).strip()
        if text in labels:
            return letters[labels.index(text)]
        if text.upper() in letters and len(text) == 1:
            return text.upper()
        if texts.count(str(answer)) == 1:
            return letters[texts.index(str(answer))]
        raise Unusable(f"its answer `{text[:40]}` is none of its options")
    if not isinstance(index, int) or not 0 <= index < len(letters):
        raise Unusable(f"its answer is `{index}`, of {len(letters)} options")
    return letters[index]
