"""verl's data sets, as DAPO-Math-17k's and Search-R1's.

They have `prompt`, `data_source`, `ability` and `reward_model`. The verifier is that of the source,
as verl's `default_compute_score` chooses it, else that of the ability.
"""

from typing import Any

from rlvr_cli.layouts import _common
from rlvr_cli.protocols import Layout, Unusable

SAYS = (
    "the gold is `reward_model.ground_truth`, the verifier math or code or qa as `data_source` or "
    "`ability` says, the source `data_source`"
)
_VERIFIERS = {"math": "math", "code": "code", "coding": "code", "fact-reasoning": "qa"}
_SOURCES = {
    "openai/gsm8k": "math",  # its questions ask for ####
    "lighteval/MATH": "math",
    "DigitalLearningGmbH/MATH-lighteval": "math",
    "HuggingFaceH4/MATH-500": "math",
    "HuggingFaceH4/aime_2024": "math",
    "math_dapo": "math",
    "math_dapo_reasoning": "math",
    "math": "math",
    "hiyouga/geometry3k": "math",
    "codecontests": "code",
    "apps": "code",
    "codeforces": "code",
    "taco": "code",
}
_BEGINNINGS = {"aime": "math", "numina_": "math", "searchR1_": "qa"}


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
            "verifier": _verifier(str(row.get("data_source")), str(row.get("ability")).lower()),
            "source": row.get("data_source"),
            "used": {"prompt", "source_prompt", "reward_model"},
        }

    return read


def _verifier(source: str, ability: str) -> str | None:
    begun = (name for beginning, name in _BEGINNINGS.items() if source.startswith(beginning))
    return _SOURCES.get(source) or next(begun, None) or _VERIFIERS.get(ability)
