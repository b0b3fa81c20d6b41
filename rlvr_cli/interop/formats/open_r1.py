"""OpenR1-Math: rows with `generations` and two verifiers' verdicts on each.

Source: the data sets open-r1/OpenR1-Math-220k and open-r1/OpenR1-Math-Raw of the Hugging Face Hub,
and `scripts/` of huggingface/open-r1.
"""

from collections.abc import Callable

from rlvr_cli.interop.formats._common import Row, correct_by

_RULE = "correctness_math_verify"


def recognises(names: set[str]) -> bool:
    return {"generations", _RULE} <= names


def reader(file: str) -> Callable[[Row], list[Row]]:
    """Math-Verify decides correctness; the column of the judge, Llama, is null in most rows."""

    def read(row: Row) -> list[Row]:
        completions = row["generations"]
        unknown = [None] * len(completions)
        judged = {n: unknown if row.get(n) is None else row[n] for n in row if n.startswith("corre")
                  and not n.endswith("_count")}  # fmt: skip
        fields: Row = {"prompt_id": row.get("uuid"), "prompt": row.get("problem"),
                       "answer": row.get("answer"), "completions": completions}  # fmt: skip
        if row.get("finish_reasons"):
            fields["finish_reason"] = row["finish_reasons"]
        return [row | judged | fields | correct_by(_RULE, judged[_RULE])]

    return read
