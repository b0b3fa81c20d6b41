"""Qwen2.5-Math's evaluation: JSON lines with a list of completions, answers and scores each.

Source: `evaluation/math_eval.py` and `evaluation/evaluate.py` of QwenLM/Qwen2.5-Math; forks
of it write the same.
"""

from collections.abc import Callable

from rlvr_cli.interop.formats._common import Row, correct_by


def recognises(names: set[str]) -> bool:
    """`code` and `pred` with `idx` and `gt`."""
    return {"idx", "gt", "code", "pred"} <= names


def reader(file: str) -> Callable[[Row], list[Row]]:
    """`code` is the completion, whether or not it is a program; `score` says if `pred` is right."""

    def read(row: Row) -> list[Row]:
        fields: Row = {"prompt_id": row["idx"], "completions": row["code"], "answer": row["gt"],
                       "extracted": row["pred"]}  # fmt: skip
        if "question" in row:
            fields["prompt"] = row["question"]
        if "score" in row:
            fields |= correct_by("score", row["score"])
        return [row | fields]

    return read
