"""Inspect: its logs in JSON, and as `.eval`, which are zip files of the same.

Source: `src/inspect_ai/log/_log.py` and `src/inspect_ai/scorer/_metric.py` of
UKGovernmentBEIS/inspect_ai.
"""

import math
from collections.abc import Callable
from typing import Any

from rlvr_cli.interop.formats._common import Row, correct_by

_VALUES = {"C": 1, "I": 0, "P": 0.5, "N": 0}  # as Inspect's accuracy counts them
_ENDS = {"stop": "stop", "max_tokens": "length", "model_length": "length"}


def recognises(names: set[str]) -> bool:
    """A log's `eval`, `plan` and `version`."""
    return {"version", "eval", "plan"} <= names


def reader(file: str) -> Callable[[Row], list[Row]]:
    """Epochs are the samples of a prompt, the task is the source.

    Of several scorers the first is the verdict; each is a column of its own, and so is each value
    of a scorer that gives several, as `scorer.value`. A sample without a score has no verdict.
    """
    chosen: list[str] = []

    def read(row: Row) -> list[Row]:
        samples = row.get("samples") or []
        if not chosen:
            named = [score["name"] for score in (row.get("results") or {}).get("scores") or []]
            known = [name for sample in samples for name in _scores(sample)]
            chosen[:] = [name for name in named if name in known][:1] or known[:1]
        return [_sample(row["eval"].get("task"), sample, chosen) for sample in samples]

    return read


def _sample(task: Any, sample: Row, chosen: list[str]) -> Row:
    attachments = sample.get("attachments") or {}
    scores = _scores(sample)
    choices = (sample.get("output") or {}).get("choices") or [{}]
    text = _text((choices[0].get("message") or {}).get("content"), attachments)
    target = sample.get("target")
    fields: Row = {
        "prompt_id": sample["id"],
        "source": task,
        "sample_index": sample.get("epoch", 1),
        "prompt": _input(sample.get("input"), attachments),
        "answer": target[0] if isinstance(target, list) and len(target) == 1 else target,
        "completion": text,
        "finish_reason": _ENDS.get(choices[0].get("stop_reason") or ""),
    }
    others = {name: value for name, value in scores.items() if name not in fields}
    if not chosen:
        return others | fields
    answer = ((sample.get("scores") or {}).get(chosen[0].partition(".")[0]) or {}).get("answer")
    extracted = {"extracted": answer} if answer is None or isinstance(answer, str) else {}
    return others | fields | extracted | correct_by(chosen[0], scores.get(chosen[0]))


def _scores(sample: Row) -> Row:
    """The values of a sample's scorers: letters as numbers, NaN as None; lists are left out."""
    scores: Row = {}
    for name, score in (sample.get("scores") or {}).items():
        value = score.get("value") if isinstance(score, dict) else score
        if isinstance(value, dict):
            scores |= {f"{name}.{key}": _value(one) for key, one in value.items()}
        elif not isinstance(value, list):
            scores[name] = _value(value)
    return scores


def _value(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return None
    return _VALUES.get(value, value) if isinstance(value, str) else value


def _input(value: Any, attachments: dict[str, str]) -> Any:
    if not isinstance(value, list):
        return _text(value, attachments)
    return [{"role": turn.get("role"), "content": _text(turn.get("content"), attachments)}
            for turn in value]  # fmt: skip


def _text(content: Any, attachments: dict[str, str]) -> str | None:
    """The text of a message: of its text parts only, or from where the log stores it separately."""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if part.get("type") == "text"]
        return "".join(_text(part, attachments) or "" for part in parts)
    if isinstance(content, str) and content.startswith(("attachment://", "tc://")):
        return attachments.get(content.partition("://")[2], content)
    return content if isinstance(content, str) else None
