"""simple-evals: the JSON of all results of an evaluation, `*_allresults.json`.

Source: `simple_evals.py`, `common.py` and `types.py` of openai/simple-evals. Its other JSON has
figures alone; the results of single questions are in pieces of HTML.
"""

import ast
import html
import re
from collections.abc import Callable
from typing import Any

from rlvr_cli.errors import DataError
from rlvr_cli.interop.formats._common import Row, correct_by, named

_FIELD = "<p>{}: (.*?)</p>"


def recognises(names: set[str]) -> bool:
    return {"score", "htmls", "convos"} <= names


def reader(file: str) -> Callable[[Row], list[Row]]:
    """The assistant turns at the end of a conversation are completions of the turns before them.

    Questions have no id, so equal ones are one. The score is in the HTML; HumanEval has several
    completions a question, and there the extracted answers are the verdicts on them.
    """

    def read(row: Row) -> list[Row]:
        if len(row["htmls"]) != len(row["convos"]):
            raise DataError(
                f"`{file}` has {len(row['htmls'])} results and {len(row['convos'])} conversations",
                "evaluate again",
            )
        return [_question(*one) for one in zip(row["htmls"], row["convos"], strict=True)]

    return read


def _question(page: str | None, turns: list[Row] | None) -> Row:
    turns = turns or []
    answers = 0
    while answers < len(turns) and turns[-1 - answers].get("role") == "assistant":
        answers += 1
    prompt, texts = turns[: len(turns) - answers], [turn["content"] for turn in turns[-answers:]]
    score, gold, extracted = (_field(page, n) for n in ("Score", "Correct Answer",
                                                        "Extracted Answer"))  # fmt: skip
    fields: Row = {"prompt_id": named(prompt), "prompt": prompt}
    if answers > 1:
        verdicts = _list(extracted)
        known = verdicts if len(verdicts) == answers else [None] * answers
        return fields | {"completions": texts} | correct_by("Extracted Answer", known)
    fields |= {"completion": texts[0] if answers else None, "answer": gold, "extracted": extracted}
    return fields | correct_by("Score", score)


def _field(page: str | None, name: str) -> str | None:
    """What a result's HTML says under a name; None where that is nothing or `None`."""
    match = re.search(_FIELD.format(name), page or "", re.DOTALL)
    text = html.unescape(match[1]).strip() if match else ""
    return None if text in ("", "None") else text


def _list(text: str | None) -> list[Any]:
    try:
        value = ast.literal_eval(text or "")
    except (ValueError, SyntaxError, RecursionError):
        return []
    return value if isinstance(value, list) else []
