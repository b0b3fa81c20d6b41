"""verl's data sets, as DAPO-Math-17k's and Search-R1's.

They have `prompt`, `data_source`, `ability` and `reward_model`.
"""

from typing import Any

from rlvr_cli.layouts import _common
from rlvr_cli.protocols import Layout, Unusable

SAYS = (
    "the gold is `reward_model.ground_truth`, the verifier math or code or qa as `ability` says, "
    "the source `data_source`"
)
_VERIFIERS = {"math": "math", "code": "code", "coding": "code", "fact-reasoning": "qa"}


def recognises(rows: list[dict[str, Any]]) -> bool:
    first = rows[0]
    if not _common.has(first, "data_source", "reward_model"):
        return False
    is_known = isinstance(first["reward_model"], dict) and "ground_truth" in first["reward_model"]
    return is_known and ("prompt" in first or "source_prompt" in first)


def build() -> Layout:
    def read(row: dict[str, Any]) -> dict[str, Any]:
        gold = (row.get("reward_model") or {}).get("ground_truth")
        if gold is None or gold == "":
            raise Unusable("it has no `reward_model.ground_truth`")
        prompt = row.get("prompt") or _common.value(row, "source_prompt")
        return {
            "prompt": prompt,
            "answer": gold,
            "verifier": _VERIFIERS.get(str(row.get("ability")).lower()),
            "source": row.get("data_source"),
            "used": {"prompt", "source_prompt", "reward_model"},
        }

    return read
