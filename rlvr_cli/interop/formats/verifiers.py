"""verifiers and prime-rl: results.jsonl, rollouts, and the traces of their newer versions.

Source: `verifiers/scripts/eval.py` of 2025, `verifiers/utils/save_utils.py`, and
`verifiers/v1/trace.py` and `episode.py` of PrimeIntellect-ai/verifiers; prime-rl's orchestrator
writes train_rollouts.jsonl, eval_rollouts.jsonl and traces.jsonl in the same layouts.
"""

from collections.abc import Callable
from typing import Any

from rlvr_cli.interop.formats._common import Row, named, rewarded_by


def recognises(names: set[str]) -> bool:
    """The columns of a rollout, a trace's `nodes` and `rewards`, or the `traces` of an episode."""
    rollout = {"prompt", "completion", "reward"} <= names and (
        "example_id" in names or {"id", "generation_ms"} <= names
    )
    return rollout or {"task", "nodes", "rewards"} <= names or {"task", "traces"} <= names


def reader(file: str) -> Callable[[Row], list[Row]]:
    """The reward is the sum of all functions; metrics are columns. What failed has no verdict.

    That is a rollout with an error, which is stored with a reward of 0, or without a completion.
    """

    def read(row: Row) -> list[Row]:
        if "traces" in row:
            return [_trace(trace, row.get("env_id")) for trace in row["traces"]]
        return [_trace(row, None) if "nodes" in row else _rollout(row)]

    return read


def _rollout(row: Row) -> Row:
    task = row.get("task")
    fields: Row = {"prompt_id": row.get("example_id", row.get("id")),
                   "completion": row["completion"] or None,
                   "answer": row.get("answer")}  # fmt: skip
    if isinstance(task, str) and task not in ("", "default"):
        fields["source"] = task
    if row.get("is_truncated"):
        fields["finish_reason"] = "length"
    failed = row.get("error") or not row["completion"]
    if failed:
        fields |= dict.fromkeys(row.get("metrics") or {})
    return row | fields | rewarded_by("reward", None if failed else row["reward"])


def _trace(trace: Row, environment: Any) -> Row:
    """Version 1: a graph of messages; those that the model sampled are the completion."""
    data = (trace.get("task") or {}).get("data") or {}
    nodes = trace.get("nodes") or []
    sampled = [node["message"] for node in nodes if node.get("sampled")]
    rewards = [reward for reward in (trace.get("rewards") or {}).values() if reward]
    failed = trace.get("stop_condition") == "error" or not sampled
    prompt = data.get("prompt")
    if prompt is None:
        prompt = [node["message"] for node in nodes[: _before(nodes)]]
    total = sum(reward["score"] * reward.get("weight", 1.0) for reward in rewards)
    return {
        **(trace.get("metrics") or {}),
        **{name: one and one["score"] for name, one in (trace.get("rewards") or {}).items()},
        "prompt_id": data["idx"] if data.get("idx") is not None else named(prompt),
        "prompt": prompt,
        "answer": data.get("answer"),
        "source": environment or (trace.get("task") or {}).get("type"),
        "completion": sampled or None,
        **rewarded_by("rewards", None if failed or not rewards else total),
    }


def _before(nodes: list[Row]) -> int:
    """How many messages come before the model's first."""
    return next((at for at, node in enumerate(nodes) if node.get("sampled")), len(nodes))
