"""HELM: the completions of `scenario_state.json`, and the verdicts of `display_predictions.json`.

Source: `src/helm/benchmark/adaptation/request_state.py`, `src/helm/common/request.py` and
`src/helm/benchmark/presentation/run_display.py` of stanford-crfm/helm.
"""

from collections.abc import Callable
from typing import Any

from rlvr_cli.errors import DataError
from rlvr_cli.interop.formats._common import Row, correct_by

# Of several metrics the first of these that a file has says whether a completion is right.
PREFERRED = (
    *("final_number_exact_match", "math_equiv_chain_of_thought", "math_equiv"),
    *("chain_of_thought_correctness", "exact_match", "quasi_exact_match"),
)


def recognises(names: set[str]) -> bool:
    return {"request_states", "adapter_spec"} <= names or (
        {"instance_id", "predicted_text", "stats"} <= names
    )


def reader(file: str) -> Callable[[Row], list[Row]]:
    """A trial of an instance is a sample; a perturbed instance is a prompt of its own.

    Each metric of a prediction is a column. An instance whose choices were measured one by one has
    a verdict and no completion.
    """
    chosen: list[str | None] = []

    def read(row: Row) -> list[Row]:
        if "stats" not in row:
            return _states(file, row["request_states"])
        stats = row["stats"]
        chosen[:] = chosen or [next((name for name in PREFERRED if name in stats), None)]
        fields = {
            "prompt_id": _id(row["instance_id"], row),
            "sample_index": row["train_trial_index"],
        }
        if row.get("reference_index") is None:
            fields["completion"] = row["predicted_text"]
        return [row | stats | fields | correct_by(chosen[0], stats.get(chosen[0] or ""))]

    return read


def _states(file: str, states: list[Row]) -> list[Row]:
    whole = [state for state in states if state.get("reference_index") is None]
    if states and not whole:
        raise DataError(
            f"`{file}` holds the likelihoods of choices, and no completions",
            "read the verdicts that `helm-summarize` writes beside it: display_predictions.json",
        )
    return [_state(state) for state in whole]


def _state(state: Row) -> Row:
    instance, request, result = state["instance"], state["request"], state.get("result") or {}
    texts = result.get("completions") or []
    right = [one["output"]["text"] for one in instance.get("references") or []
             if "correct" in one["tags"]]  # fmt: skip
    choices = state.get("output_mapping") or {}
    gold = [letter for letter, text in choices.items() if text in right] or right
    first, size = state["train_trial_index"] * len(texts), len(texts) or 1
    ends = [(one.get("finish_reason") or {}).get("reason") for one in texts]
    return {
        "prompt_id": _id(instance["id"], instance),
        "prompt": request.get("messages") or request["prompt"],
        "answer": gold[0] if len(gold) == 1 else gold or None,
        "completions": [one["text"] for one in texts] or [None],
        "finish_reason": ends or [None],
        "sample_index": list(range(first, first + size)),
    }


def _id(name: str, holder: Row) -> str:
    perturbation: Any = holder.get("perturbation") or {}
    return f"{name}:{perturbation['name']}" if perturbation else name
