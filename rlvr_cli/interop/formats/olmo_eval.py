"""OLMo-Eval: the JSON lines of its predictions, `*-predictions.jsonl`.

Source: `src/olmo_eval/runners/io/builders.py` of allenai/olmo-eval, and `oe_eval` of allenai/olmes.
"""

import re
from collections.abc import Callable
from typing import Any

from rlvr_cli.interop.formats._common import Row, correct_by

PREFERRED = ("exact_match", "exact_match_simple", "exact_match_flex", "acc_raw", "accuracy",
             "pass_at_1", "pass@1", "code_execution")  # fmt: skip


def recognises(names: set[str]) -> bool:
    return {"doc_id", "native_id", "model_output"} <= names


def reader(file: str) -> Callable[[Row], list[Row]]:
    """The task is in the file's name; one metric is the verdict in all of the file.

    It is the first known one, or the only one. Each output is a completion, unless its likelihood
    was measured: then the outputs are choices, and the document has one verdict and no completion.
    Metrics of a document are no verdicts of its several completions.
    """
    task = re.sub(r"^task-\d+-|(_[0-9a-f]{6})?-predictions\.jsonl.*$", "", file)
    chosen: list[str | None] = []

    def read(row: Row) -> list[Row]:
        outputs = row["model_output"] or []
        overall = _flat(row.get("instance_metrics") or row.get("metrics") or {})
        each = [_flat(output.get("sample_metrics") or {}) for output in outputs]
        is_choice = len(outputs) > 1 and all("sum_logits" in output for output in outputs)
        if is_choice or len(outputs) < 2:
            each = [overall]
        if not chosen:
            chosen.append(_chosen(each))
        fields: Row = {"prompt_id": row["native_id"], "source": task, "answer": row.get("label")}
        if outputs and not is_choice:
            fields["completions"] = [o.get("text", o.get("continuation")) for o in outputs]
            if any("extracted_answer" in output for output in outputs):
                fields["extracted"] = [output.get("extracted_answer") for output in outputs]
        names = dict.fromkeys(name for metrics in each for name in metrics)
        columns = {name: [metrics.get(name) for metrics in each] for name in names}
        verdict = columns.get(chosen[0] or "", [None] * len(each))
        return [row | columns | fields | correct_by(chosen[0], verdict)]

    return read


def _chosen(each: list[Row]) -> str | None:
    names = list(dict.fromkeys(name for metrics in each for name in metrics))
    known = [name for name in PREFERRED if name in names]
    return known[0] if known else names[0] if len(names) == 1 else None


def _flat(metrics: Row) -> dict[str, Any]:
    """The metrics by their names; those of several scorers as `metric.scorer`."""
    flat: Row = {}
    for name, value in metrics.items():
        if not isinstance(value, dict):
            flat[name] = value
        elif len(value) == 1:
            flat[name] = next(iter(value.values()))
        else:
            flat |= {f"{name}.{scorer}": one for scorer, one in value.items()}
    return {name: value for name, value in flat.items() if isinstance(value, int | float)}
