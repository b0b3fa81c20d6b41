"""Comma-separated lists of the command line."""

import math
from typing import Any

from rlvr_cli.errors import UsageError


def ks(text: str | None) -> list[int]:
    """The values of k in `1,8,64`, in order; none if nothing was given."""
    if text is None:
        return []
    values = text.split(",")
    if not all(value.strip().isdecimal() and int(value) > 0 for value in values):
        raise UsageError(f"--k is `{text}`", "write integers from 1 on, as in --k 1,8,64")
    return sorted({int(value) for value in values})


def words(text: str | None) -> tuple[str, ...]:
    """The entries of a comma-separated list; none if nothing was given."""
    return tuple(word.strip() for word in (text or "").split(",") if word.strip())


def numbers(name: str, text: str | None, kind: type = float) -> tuple[Any, ...]:
    """The numbers of a comma-separated list, from 0 on; none if nothing was given."""
    try:
        values = tuple(kind(word) for word in words(text))
    except ValueError:
        values = (math.nan,)
    if not all(0 <= value < math.inf for value in values):
        what = "integers" if kind is int else "numbers"
        raise UsageError(f"{name} is `{text}`", f"write {what} from 0 on, as in {name} 1,2")
    return values


def thresholds(text: str) -> list[float]:
    """The numbers in `0.6,0.8`, in order, each once."""
    try:
        return sorted({float(value) for value in text.split(",")})
    except ValueError:
        raise UsageError(
            f"--threshold is `{text}`", "write numbers, as in --threshold 0.6,0.8"
        ) from None
