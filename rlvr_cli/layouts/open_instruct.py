"""open-instruct's data sets, as RLVR-IFeval and RLVR-GSM: `messages`, `ground_truth`, `dataset`.

`dataset` names the verifier; it and `ground_truth` may be lists of one.
"""

from typing import Any

from rlvr_cli.layouts import _common
from rlvr_cli.protocols import Layout, Unusable

SAYS = "the gold is `ground_truth`, the verifier qa or math or ifeval or code as `dataset` says"
_VERIFIERS = {
    "gsm8k": "math:unanchored=true",
    "math": "math",
    "strict_math": "math",
    "ifeval": "ifeval",
    "ifeval_old": "ifeval",
    "string_f1": "qa:metric=f1",
    "re_search_f1": "qa:metric=f1",
    "re_search": "qa",
    "string_matcher": "qa",
    "puzzle": "qa",
    "flan": "qa",
    "code": "code",
}


def recognises(rows: list[dict[str, Any]]) -> bool:
    return _common.has(rows[0], "messages", "ground_truth", "dataset")


def build() -> Layout:
    def read(row: dict[str, Any]) -> dict[str, Any]:
        name, gold = _alone(row.get("dataset")), _alone(_common.value(row, "ground_truth"))
        messages = _common.value(row, "messages")
        if isinstance(messages, list):
            roles = [turn.get("role") for turn in messages]
            if roles[-1] == "assistant":
                messages = messages[:-1]
            if "user" not in roles:
                raise Unusable("its `messages` have no user's turn")
        return {
            "prompt": messages,
            "answer": gold,
            "verifier": _VERIFIERS.get(str(name).lower()),
            "source": name if isinstance(name, str) else None,
            "used": {"messages", "ground_truth"},
        }

    return read


def _alone(value: Any) -> Any:
    """The only item of a list of one, as newer data sets store texts."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value
