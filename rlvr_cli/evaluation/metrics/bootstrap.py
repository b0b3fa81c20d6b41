"""Confidence intervals by resampling prompts.

Shapes: P prompts, M metrics, R resamples.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from rlvr_cli.errors import DataError
from rlvr_cli.runtime import cores

CHUNK_PRODUCTS = 2**18  # OpenBLAS does as many without its threads, which spin for longer
MANY_PROMPTS = 1000
BLOCKS = 8


@dataclass(frozen=True)
class Interval:
    """The mean over prompts of each metric, the two ends of its interval, and its standard error.

    Each is [M]. The standard error is std (ddof 1) / sqrt(P), over prompts and not completions.
    """

    mean_M: np.ndarray
    low_M: np.ndarray
    high_M: np.ndarray
    error_M: np.ndarray


def mean_interval(
    values_PM: ArrayLike, *, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Interval:
    """The mean over prompts and its expanded percentile bootstrap interval.

        [Q(a), Q(1 - a)],    a = Phi(-sqrt(P / (P - 1)) t_{P-1}((1 + level) / 2))
                                                (Hesterberg, arXiv:1411.5279)

    Q is the quantile of the means of P prompts drawn with replacement; all metrics share the
    draws. The plain percentile a = (1 - level) / 2 is too narrow: it covered the mean of
    pass rates from Beta(0.2, 0.8) 93.6 times in 100 with 40 prompts, this one 94.6 (20,000 draws).
    Where nearly every prompt fails (mean 0.05, 40 prompts) they cover it 88.8 and 89.6 times.
    With equal values it has no width, and near the ends of a metric's range it is too narrow:
    `intervals` says where it may be used. One prompt gives NaN ends, a NaN makes its metric NaN;
    raises DataError without prompts.
    """
    values_PM = np.asarray(values_PM, dtype=np.float64)
    prompts = len(values_PM)
    if prompts == 0:
        raise DataError("there are no prompts to take a mean over")
    mean_M = values_PM.mean(axis=0)
    if prompts == 1:
        nothing_M = np.full_like(mean_M, np.nan)
        return Interval(mean_M, nothing_M, nothing_M, nothing_M)
    from scipy.special import ndtr, stdtrit

    tail = ndtr(-np.sqrt(prompts / (prompts - 1)) * stdtrit(prompts - 1, (1 + level) / 2))
    mean_RM = resampled_means(values_PM, resamples=resamples, seed=seed)
    low_M, high_M = np.quantile(mean_RM, [tail, 1 - tail], axis=0)
    return Interval(mean_M, low_M, high_M, values_PM.std(axis=0, ddof=1) / np.sqrt(prompts))


def resampled_means(values_PM: np.ndarray, *, resamples: int, seed: int) -> np.ndarray:
    """The means [R, M] of P prompts drawn with replacement, R times, in bounded memory.

    How often each prompt is drawn is multinomial. Of many prompts those with equal values are
    drawn together, which is the same distribution in less time, by one generator for each of
    `BLOCKS` shares of the draws, so that several cores may do it and their number changes nothing.
    """
    rng = np.random.default_rng(seed)
    if len(values_PM) <= MANY_PROMPTS:
        return _means(values_PM, np.ones(len(values_PM)), rng, resamples)
    values_UM, count_U = distinct(values_PM)
    shares = np.diff(np.linspace(0, resamples, BLOCKS + 1).astype(int)).tolist()
    means = partial(_means, values_UM, count_U)
    with ThreadPoolExecutor(cores.available()) as pool:
        return np.concatenate(list(pool.map(means, rng.spawn(BLOCKS), shares)))


def _means(
    values_UM: np.ndarray, count_U: np.ndarray, rng: np.random.Generator, resamples: int
) -> np.ndarray:
    """Resampled means [R, M] over prompts; `count_U` of them share each row of values."""
    prompts = int(count_U.sum())
    mean_RM = np.empty((resamples, values_UM.shape[1]))
    chunk = max(1, CHUNK_PRODUCTS // max(1, values_UM.size))
    for start in range(0, resamples, chunk):
        rows = slice(start, min(start + chunk, resamples))
        drawn_RU = rng.multinomial(prompts, count_U / prompts, size=rows.stop - rows.start)
        mean_RM[rows] = drawn_RU @ values_UM / prompts
    return mean_RM


def distinct(values_PM: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows and how many prompts have each; all of them where that saves nothing."""
    key_P = values_PM @ np.random.default_rng(0).random(values_PM.shape[1])
    _, first_U, where_P, count_U = np.unique(
        key_P, return_index=True, return_inverse=True, return_counts=True
    )
    if len(first_U) > len(key_P) // 2 or not np.array_equal(values_PM[first_U[where_P]], values_PM):
        # Few are equal, there is a NaN, or two rows have one key.
        return values_PM, np.ones(len(values_PM))
    return values_PM[first_U], count_U
