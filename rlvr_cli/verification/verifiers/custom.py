"""A function of a user's file: `path.py:function`."""

import functools
import hashlib
import importlib.util
import math
import numbers
from collections.abc import Callable
from typing import Any

from rlvr_cli.errors import UsageError
from rlvr_cli.protocols import Equality, Isolated, Limits, Verdict
from rlvr_cli.specs import user_code

EQUALITY: Equality = "text"  # whether an answer of a user's function can be its gold is not known


def build(
    *, path: str = "", function: str = "verify", timeout_s: float = 10.0, memory_mib: int = 2048
) -> Isolated:
    """`function(completion, answer=..., extra=...)` of the file at `path`, in a process of its own.

    It returns True, False, a number, or a dict with a `reward` and maybe `correct` and `extracted`.
    A reward lies from 0 to 1, unless the file says otherwise, as in `REWARD_RANGE = (-1, 1)`;
    without a `correct` a completion is correct if it has the highest. What it raises, anything
    else that it returns, None and NaN are errors; what it prints goes to stderr.
    """
    if not path:
        raise UsageError("`custom` has no file", "name one: `--verifier path.py:function`")
    file = str(user_code.require_trust(path))
    source = user_code.read(path, "the verifier")
    if timeout_s <= 0 or memory_mib <= 0:
        raise ValueError("timeout_s and memory_mib must be above 0")

    def judge(extracted: str | None, answer: str, extra: dict[str, Any]) -> Verdict:
        call, bounds = _load(file, function)
        if extracted is None:  # the gold alone: only the function could know
            return Verdict("no_answer", reward=0.0, correct=False)
        return _verdict(call(extracted, answer=answer, extra=extra), bounds)

    return Isolated(
        extract=lambda completion, finished: completion,
        judge=judge,
        limits=Limits(timeout_s, memory_mib << 20),
        version=hashlib.sha256(source).hexdigest(),
        reads=("*",),
    )


@functools.cache
def _load(path: str, function: str) -> tuple[Callable[..., Any], tuple[float, float]]:
    """The function of a file, and the range of its rewards."""
    spec = importlib.util.spec_from_file_location("rlvr_custom_verifier", path)
    if spec is None or spec.loader is None:
        raise UsageError(f"`{path}` is no Python file", "its name must end with .py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    call = getattr(module, function, None)
    if not callable(call):
        raise UsageError(f"`{path}` has no function `{function}`", "name it after a colon")
    low, high = getattr(module, "REWARD_RANGE", (0.0, 1.0))
    return call, (float(low), float(high))


def _verdict(returned: Any, bounds: tuple[float, float]) -> Verdict:
    given = returned if isinstance(returned, dict) else {"reward": returned}
    correct, text = given.get("correct"), given.get("extracted")
    low, high = bounds
    if not isinstance(given.get("reward"), numbers.Real):
        return Verdict("error", extracted=f"it returned {_short(returned)}, no reward")
    reward = float(given["reward"])
    if not math.isfinite(reward) or not low <= reward <= high:
        return Verdict("error", extracted=f"its reward {reward} is not from {low:g} to {high:g}")
    return Verdict(
        status="ok",
        reward=reward,
        correct=bool(reward >= high if correct is None else correct),
        extracted=None if text is None else str(text),
    )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
