"""rLLM: the JSON of its evaluations, and of its episodes, one per file.

Source: `rllm/eval/results.py`, `rllm/eval/episode_store.py` and `rllm/types.py` of rllm-org/rllm.
"""

from collections.abc import Callable
from typing import Any

from rlvr_cli.interop.formats._common import Row, correct_by


def recognises(names: set[str]) -> bool:
    """The `items` of a data set's evaluation, or the `trajectories` of an episode."""
    return {"items", "dataset_name", "agent"} <= names or {"trajectories", "is_correct"} <= names


def reader(file: str) -> Callable[[Row], list[Row]]:
    """An attempt that ended with an error has no verdict."""

    def read(row: Row) -> list[Row]:
        if "items" not in row:
            return [_episode(row)]
        return [
            item
            | {"prompt_id": item["idx"], "source": row["dataset_name"]}
            | {"sample_index": item.get("attempt", 0)}
            | correct_by("is_correct", None if item.get("error") else item["is_correct"])
            for item in row["items"]
        ]

    return read


def _episode(row: Row) -> Row:
    """The model's last turn is the completion; an episode's id is `task:sample`."""
    task = row.get("task")
    known = task if isinstance(task, dict) else {"instruction": task}
    task_id, _, sample = str(row.get("id")).partition(":")
    sample = sample if sample.isdecimal() else str(row.get("eval_idx", ""))
    fields: Row = {"prompt_id": known.get("id", task_id),
                   "prompt": known.get("instruction") or known.get("question"),
                   "completion": _last(row["trajectories"])}  # fmt: skip
    if sample:
        fields["sample_index"] = int(sample)
    ended = row.get("termination_reason")
    if ended == "max_response_length_exceeded":
        fields["finish_reason"] = "length"
    verdict = None if ended == "error" else row["is_correct"]
    return fields | correct_by("is_correct", verdict)


def _last(trajectories: list[Any]) -> str | None:
    steps = trajectories[-1].get("steps") if trajectories else None
    if not steps:
        return None
    turns = [turn for turn in steps[-1].get("chat_completions") or []
             if turn.get("role") == "assistant"]  # fmt: skip
    text = steps[-1].get("model_response") or (turns[-1].get("content") if turns else None)
    return text if isinstance(text, str) else None
