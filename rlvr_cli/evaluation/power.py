"""How many prompts, and completions of each, would show a difference between two runs.

Shapes: P prompts.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.evaluation.tallies import Tally

POWER = 0.8
COMPLETIONS = (1, 4, 16, 64)
CORRELATIONS = (1.0, 0.8, 0.5)
MOST = 10**7


@dataclass(frozen=True)
class Spread:
    """The variance of pass rates between prompts, and of one completion within a prompt."""

    between: float
    within: float

    def of_difference(self, n: int, correlation: float) -> float:
        """The variance of a paired difference of Pass@1 with n completions a prompt in each run.

            2 between (1 - correlation) + 2 within / n                    (arXiv:2411.00640)

        The correlation is that of the two runs' pass rates over prompts; both are as variable.
        """
        return 2 * self.between * (1 - correlation) + 2 * self.within / n


def spread(tallied: Tally) -> Spread:
    """Both variances, without bias, from prompts with c of n right.

    Within a prompt c (n - c) / (n (n - 1)) estimates p (1 - p), so n must be 2 or more.
    """
    n_P, c_P = tallied.n_P.astype(np.float64), tallied.correct_P.astype(np.float64)
    if len(n_P) < 2 or n_P.min() < 2:
        raise DataError(
            "--power needs two prompts or more, and two completions or more of each: "
            f"there are {len(n_P)} prompts, one of them with {int(n_P.min())}",
            "sample several completions of each prompt, as in `rlvr rollout -n 8`",
        )
    within_P = c_P * (n_P - c_P) / (n_P * (n_P - 1))
    between = float((c_P / n_P).var(ddof=1) - (within_P / n_P).mean())
    return Spread(max(0.0, between), float(within_P.mean()))


def is_shown(difference: float, variance: float, prompts: int) -> bool:
    """Whether the paired interval leaves 0 out 80 times in 100, for a mean and a variance.

    With the mean m that 80 in 100 comparisons exceed, the weighted sum of Gaffke's bound is about
    normal, of mean P m and variance P (variance + m^2), and the worst prompt takes an exponential
    E of mean 1 off it: the chance that E is larger, in closed form, must be below 2.5%. Without E
    it is the usual P = (z_0.975 + z_0.8)^2 variance / difference^2.
    """
    from scipy.special import log_ndtr, ndtr, ndtri

    mean = difference - ndtri(POWER) * np.sqrt(variance / prompts)
    if mean <= 0:
        return False
    total, deviation = prompts * mean, np.sqrt(prompts * (variance + mean**2))
    over = -total + deviation**2 / 2 + log_ndtr(total / deviation - deviation)
    return bool(ndtr(-total / deviation) + np.exp(over) <= 0.025)


def prompts_needed(difference: float, variance: float) -> int | None:
    """The fewest prompts that show it; None if more than `MOST`."""
    low, high = 0, 8
    while not is_shown(difference, variance, high):
        low, high = high, 2 * high
        if low > MOST:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_shown(difference, variance, middle) else (middle, high)
    return high


def smallest_shown(variance: float, prompts: int) -> float | None:
    """The smallest difference that so many prompts show; None if not even 1."""
    if not is_shown(1.0, variance, prompts):
        return None
    low, high = 0.0, 1.0
    while high - low > 1e-5:
        middle = (low + high) / 2
        low, high = (low, middle) if is_shown(middle, variance, prompts) else (middle, high)
    return high


def of_tally(tallied: Tally, difference: float) -> dict[str, Any]:
    """The prompts needed by n and correlation, and what the tally's own prompts would show."""
    if not 0 < difference < 1:
        raise UsageError(
            f"--power is {difference:g}, a difference of Pass@1 is between 0 and 1",
            "two points are `--power 0.02`",
        )
    variance, n = spread(tallied), int(tallied.n_P.min())
    sizes = sorted({*COMPLETIONS, n})
    return {
        "difference": difference,
        "power": POWER,
        "between": variance.between,
        "within": variance.within,
        "correlations": list(CORRELATIONS),
        "prompts": {
            str(size): [
                prompts_needed(difference, variance.of_difference(size, correlation))
                for correlation in CORRELATIONS
            ]
            for size in sizes
        },
        "own": {
            "prompts": len(tallied.prompt_id),
            "n": n,
            "shows": [
                smallest_shown(variance.of_difference(n, correlation), len(tallied.prompt_id))
                for correlation in CORRELATIONS
            ],
        },
    }
