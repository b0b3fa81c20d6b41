"""What a reward function returned, as verdicts: numbers, arrays, tensors, dicts and results."""

import math
import numbers
from collections.abc import Sized
from typing import Any

from rlvr_cli.protocols import Verdict

Bounds = tuple[float, float]


def verdict(returned: Any, bounds: Bounds) -> Verdict:
    """The verdict of one completion.

    A reward is a bool, a number, an array or tensor of one element, or is in a dict under
    `reward` or `score` (with `correct` or `acc`, `extracted` or `pred`), or is the `score` of an
    object, as open-instruct returns.
    """
    given = _as_dict(returned)
    reward = _number(given.get("reward"))
    if reward is None:
        return Verdict("error", reason=f"it returned {_short(returned)}, no reward")
    low, high = bounds
    if not math.isfinite(reward) or not low <= reward <= high:
        why = f"its reward {reward} is not from {low:g} to {high:g}; say range=[LOW,HIGH]"
        return Verdict("error", reason=why)
    correct, text = given.get("correct"), given.get("extracted")
    number = _number(correct)
    return Verdict(
        status="ok",
        reward=reward,
        correct=reward >= high if correct is None else bool(correct if number is None else number),
        extracted=None if text is None else str(text),
    )


def verdicts(returned: Any, count: int, bounds: Bounds, *, may_skip: bool) -> list[Verdict]:
    """The verdicts of so many completions; of a list of another length each is an error.

    Where a function `may_skip`, None says that it does not judge a completion.
    """
    values = returned.tolist() if hasattr(returned, "tolist") else returned
    if not isinstance(values, Sized) or isinstance(values, str | bytes | dict):
        what = f"it returned {_short(returned)}, a list of {count} rewards was expected"
    elif len(values) != count:
        what = f"it returned {len(values)} rewards for {count} completions"
    else:
        skipped = Verdict("skipped")
        return [
            skipped if value is None and may_skip else verdict(value, bounds)
            for value in list(values)  # type: ignore[call-overload]
        ]
    return [Verdict("error", reason=what)] * count


def _as_dict(returned: Any) -> dict[str, Any]:
    if isinstance(returned, dict):
        named = {"reward": "score", "correct": "acc", "extracted": "pred"}
        return {name: returned.get(name, returned.get(other)) for name, other in named.items()}
    if _number(returned) is None and hasattr(returned, "score"):
        return {"reward": returned.score}
    return {"reward": returned}


def _number(value: Any) -> float | None:
    """A number, also of an array or a tensor of one element; None if it is none."""
    if not isinstance(value, numbers.Real | str) and callable(getattr(value, "item", None)):
        try:
            value = value.item()
        except (TypeError, ValueError, RuntimeError):  # of several elements
            return None
    return float(value) if isinstance(value, numbers.Real) else None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
