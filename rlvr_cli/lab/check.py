"""Checks: a statistic's interval against bounds that were set before it was computed."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

State = Literal["holds", "fails", "open"]
LEVEL = 0.99


@dataclass(frozen=True)
class Check:
    """A statement, its statistic's mean and interval, and the bounds of the interval.

    It holds if all of the interval is within the bounds, fails if all of it is beyond one of them,
    and is open otherwise. An `exact` number has no width. `rate` is the learning rate, where a
    claim names none and several are tried.
    """

    statement: str
    mean: float
    low: float
    high: float
    above: float
    below: float
    n: int
    exact: bool = False
    rate: float | None = None

    @property
    def state(self) -> State:
        if self.low > self.above and self.high < self.below:
            return "holds"
        if self.high <= self.above or self.low >= self.below:
            return "fails"
        return "open"

    @property
    def bounds(self) -> str:
        if math.isinf(self.below):
            return f"above {_short(self.above)}"
        if math.isinf(self.above):
            return f"below {_short(self.below)}"
        return f"between {_short(self.above)} and {_short(self.below)}"

    @property
    def number(self) -> str:
        """The statistic and its interval, as a reader sees them."""
        if self.exact:
            return _short(self.mean)
        return f"{_short(self.mean)} [{_short(self.low)}, {_short(self.high)}]"


def mean(
    statement: str,
    values: Sequence[float] | np.ndarray,
    *,
    above: float = -math.inf,
    below: float = math.inf,
    level: float = LEVEL,
) -> Check:
    """The mean over seeds and its Student t interval; open wherever a value is not finite."""
    from scipy.stats import t

    values = np.asarray(values, dtype=np.float64)
    n = len(values)
    middle = float(values.mean())
    if n < 2 or not np.isfinite(values).all():
        return Check(statement, middle, -math.inf, math.inf, above, below, n)
    half = float(t.ppf((1 + level) / 2, n - 1) * values.std(ddof=1) / math.sqrt(n))
    return Check(statement, middle, middle - half, middle + half, above, below, n)


def share(
    statement: str,
    flags: Sequence[bool] | np.ndarray,
    *,
    above: float = -math.inf,
    below: float = math.inf,
    level: float = LEVEL,
) -> Check:
    """The share of seeds for which it is true, and its exact (Clopper-Pearson) interval."""
    from scipy.stats import binomtest

    flags = np.asarray(flags, dtype=bool)
    interval = binomtest(int(flags.sum()), len(flags)).proportion_ci(level)
    return Check(
        statement, float(flags.mean()), interval.low, interval.high, above, below, len(flags)
    )


def exact(
    statement: str, value: float, *, above: float = -math.inf, below: float = math.inf
) -> Check:
    """A number without randomness, such as the error of an identity."""
    value = float(value)
    return Check(statement, value, value, value, above, below, 1, exact=True)


def at_each(rates: Sequence[float], checks: Callable[[float], Sequence[Check]]) -> list[Check]:
    """The checks at each learning rate, for a claim that names none; of one rate as they are."""
    if len(rates) == 1:
        return list(checks(rates[0]))
    return [
        replace(check, statement=f"{check.statement}, rate {rate:g}", rate=rate)
        for rate in rates
        for check in checks(rate)
    ]


def _short(value: float) -> str:
    return "inf" if value == math.inf else f"{value:.4g}"
