"""A line of metrics.jsonl as the flat numbers that trackers take."""

import math
from typing import Any


def flat(record: dict[str, Any]) -> tuple[dict[str, float], list[str]]:
    """The figures of a record, and the names of values that are neither numbers nor null.

    A figure within another has both names, with `/` in between. An interval `[mean, low, high]`
    is three figures: the mean under its own name, the bounds with `_low` and `_high`. What is
    null or not finite is left out, as is the step itself.
    """
    figures: dict[str, float] = {}
    others: list[str] = []
    for name, value in record.items():
        if name != "step":
            _add(name, value, figures, others)
    return figures, others


def _add(name: str, value: Any, figures: dict[str, float], others: list[str]) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            _add(f"{name}/{key}", inner, figures, others)
    elif _is_interval(value):
        for suffix, number in zip(("", "_low", "_high"), value, strict=True):
            _add(f"{name}{suffix}", number, figures, others)
    elif isinstance(value, int | float):
        if math.isfinite(value):
            figures[name] = float(value)
    elif value is not None:
        others.append(name)


def _is_interval(value: Any) -> bool:
    is_triple = isinstance(value, list) and len(value) == 3
    return is_triple and all(x is None or isinstance(x, int | float) for x in value)
