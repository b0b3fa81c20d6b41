"""Confidence intervals by resampling prompts.

Shapes: P prompts, M metrics, R resamples.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rlvr_cli.errors import DataError

CHUNK_ELEMENTS = 2**22


@dataclass(frozen=True)
class Interval:
    """The mean over prompts of each metric, and the two ends of its interval; each is [M]."""

    mean_M: np.ndarray
    low_M: np.ndarray
    high_M: np.ndarray


def mean_interval(
    values_PM: ArrayLike, *, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Interval:
    """The mean over prompts and its expanded percentile bootstrap interval.

        [Q(a), Q(1 - a)],    a = Phi(-sqrt(P / (P - 1)) t_{P-1}((1 + level) / 2))
                                                (Hesterberg, arXiv:1411.5279)

    Q is the quantile of the means of P prompts drawn with replacement; all metrics share the
    draws. The plain percentile a = (1 - level) / 2 is too narrow: it held the mean of pass
    rates from Beta(0.2, 0.8) 93.6 times in 100 with 40 prompts, this one 94.6 (20,000 draws).
    Where nearly every prompt fails (mean 0.05, 40 prompts) they hold it 88.8 and 89.6 times.
    One prompt gives NaN ends, a NaN makes its metric NaN, and equal values give no width;
    raises DataError without prompts.
    """
    values_PM = np.asarray(values_PM, dtype=np.float64)
    prompts = len(values_PM)
    if prompts == 0:
        raise DataError("there are no prompts to take a mean over")
    mean_M = values_PM.mean(axis=0)
    if prompts == 1:
        return Interval(mean_M, np.full_like(mean_M, np.nan), np.full_like(mean_M, np.nan))
    from scipy.stats import norm, t

    tail = norm.cdf(-np.sqrt(prompts / (prompts - 1)) * t.ppf((1 + level) / 2, prompts - 1))
    mean_RM = resampled_means(values_PM, resamples=resamples, seed=seed)
    low_M, high_M = np.quantile(mean_RM, [tail, 1 - tail], axis=0)
    return Interval(mean_M, low_M, high_M)


def paired_difference(
    a_PM: ArrayLike,
    b_PM: ArrayLike,
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """`mean_interval` of a - b, prompt by prompt; row p of both must be the same prompt."""
    a_PM, b_PM = np.asarray(a_PM, dtype=np.float64), np.asarray(b_PM, dtype=np.float64)
    if a_PM.shape != b_PM.shape:
        raise DataError(
            f"prompts and metrics are {a_PM.shape} on one side, {b_PM.shape} on the other",
            hint="compare two runs over the same prompts",
        )
    return mean_interval(a_PM - b_PM, level=level, resamples=resamples, seed=seed)


def resampled_means(values_PM: np.ndarray, *, resamples: int, seed: int) -> np.ndarray:
    """The means [R, M] of P prompts drawn with replacement, R times, in bounded memory."""
    rng = np.random.default_rng(seed)
    prompts = len(values_PM)
    share_P = np.full(prompts, 1.0 / prompts)
    mean_RM = np.empty((resamples, values_PM.shape[1]))
    chunk = max(1, CHUNK_ELEMENTS // prompts)
    for start in range(0, resamples, chunk):
        rows = slice(start, min(start + chunk, resamples))
        drawn_RP = rng.multinomial(prompts, share_P, size=rows.stop - rows.start)
        mean_RM[rows] = drawn_RP @ values_PM / prompts
    return mean_RM
