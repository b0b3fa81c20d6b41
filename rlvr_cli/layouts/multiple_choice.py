"""MMLU-Pro, MMLU, ARC, MedQA, OpenBookQA, AQuA: `question`, `options` or `choices`, the right one.

The prompt is the question and below it a line for each option, as in `B. 42`. The gold is a letter:
that of `answer`, or of `answer_index`, or of the labels `answerKey`, `answer_idx` and `correct`.
"""

import json
import re
import string
from typing import Any

from rlvr_cli.layouts import _common
from rlvr_cli.protocols import Layout, Unusable

SAYS = "options are lines `A. ...` below the question, the gold is a letter, the verifier choice"
_QUESTIONS = ("question", "question_stem")


def recognises(rows: list[dict[str, Any]]) -> bool:
    first = rows[0]
    is_known = any(name in first for name in ("answer", "answerKey", "answer_index", "correct"))
    options = first.get("options", first.get("choices"))
    is_asked = any(name in first for name in _QUESTIONS)
    return is_asked and is_known and isinstance(options, list | dict)


def build() -> Layout:
    def read(row: dict[str, Any]) -> dict[str, Any]:
        texts, labels = _options(row)
        letters = string.ascii_uppercase[: len(texts)]
        name = next(name for name in _QUESTIONS if name in row)
        return {
            "prompt": _common.with_options(_common.text(row, name), texts),
            "answer": _gold(row, letters, labels, texts),
            "verifier": "choice",
            "used": {*_QUESTIONS, "options", "choices"},
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
    return _unlettered(list(map(str, given))), named if len(named) == len(given) else letters


def _unlettered(texts: list[str]) -> list[str]:
    """Options without the letters that AQuA writes before them: `A)21`."""
    split = [re.fullmatch(r"([A-Z])\)\s*(.+)", text, re.DOTALL) for text in texts]
    if [one and one[1] for one in split] != list(string.ascii_uppercase[: len(texts)]):
        return texts
    return [one[2] for one in split if one]


def _gold(row: dict[str, Any], letters: str, labels: list[str], texts: list[str]) -> str:
    known = (row[name] for name in ("answerKey", "answer", "correct") if name in row)
    index, answer = row.get("answer_index"), next(known, None)
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
