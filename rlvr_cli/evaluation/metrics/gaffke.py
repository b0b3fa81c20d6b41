"""Gaffke's bounds on the mean of a bounded variable, which hold with few prompts and near 0 or 1.

Shapes: P prompts, U distinct rows of values, M metrics.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from rlvr_cli.evaluation.metrics.bootstrap import distinct

_FEWEST, _MOST = -9.0, 42.0  # of the logarithm of a tilt
_STEPS = 100


def interval(value_PM: ArrayLike, *, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """The two ends [M] of an interval for the mean of values [P, M] between 0 and 1.

        low = the (1 - level) / 2 quantile of sum_p D_p x_p,   D ~ Dirichlet(1, ..., 1)
                          over the P values x and one more, 0      (Gaffke 2005; arXiv:1905.06208)

    `high` is the same from above, with one more value of 1: what an unseen prompt could be at
    worst. Values of 0 and 1 give Clopper and Pearson's interval. It is conjectured to hold for
    every distribution between 0 and 1, whatever P.
    """
    from scipy.special import ndtri

    value_UM, count_U = distinct(np.asarray(value_PM, dtype=np.float64))
    quantile = float(ndtri((1 - level) / 2))
    return _low(value_UM, count_U, quantile), 1 - _low(1 - value_UM, count_U, quantile)


def chance_of_none(difference_PM: ArrayLike) -> np.ndarray:
    """The two-sided p-value [M] of no mean difference, of differences [P, M] from -1 to 1.

    It is below 1 - level just where the `interval` of the differences, from -1 to 1, leaves 0 out.
    Of differences of -1, 0 and 1 it is that of McNemar's exact test.
    """
    value_UM, count_U = distinct((np.asarray(difference_PM, dtype=np.float64) + 1) / 2)
    tails = [_chance_below(values, count_U, 0.5) for values in (value_UM, 1 - value_UM)]
    chance_M: np.ndarray = np.minimum(1.0, 2 * np.minimum(*tails))
    return chance_M


def _low(value_UM: np.ndarray, count_U: np.ndarray, quantile: float) -> np.ndarray:
    """The lower ends [M]; 0 where all values are."""
    x, k = _with_worst(value_UM, count_U)
    tilt_M = _root(lambda tilt_M: _tail(x, k, tilt_M)[1] - quantile, x.shape[1])
    return np.where(x.max(axis=0) > 0, _tail(x, k, tilt_M)[0], 0.0)


def _chance_below(value_UM: np.ndarray, count_U: np.ndarray, mean: float) -> np.ndarray:
    """The probability [M] that the weighted mean, of the values and 0, is at most `mean`.

    1 where it is above a half.
    """
    from scipy.special import ndtr

    x, k = _with_worst(value_UM, count_U)
    tilt_M = _root(lambda tilt_M: _tail(x, k, tilt_M)[0] - mean, x.shape[1])
    above_M = (k * x).sum(axis=0) / k.sum() > mean
    return np.where(above_M, ndtr(_tail(x, k, tilt_M)[1]), 1.0)


def _with_worst(value_UM: np.ndarray, count_U: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    x = np.concatenate([value_UM, np.zeros((1, value_UM.shape[1]))])
    return x, np.append(count_U, 1.0)[:, None]


def _tail(x: np.ndarray, k: np.ndarray, tilt_M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A mean below the centre, and the normal quantile of the chance of one as low, [M] each.

    sum D x <= m is sum E (x - m) <= 0 with independent exponential E, whose saddlepoint gives
    the chance as Phi(r + log(v / r) / r) (Barndorff-Nielsen's r*), to within some thousandths
    of itself. The tilt `s = -exp(tilt)` of the weights 1 / (1 - s x) gives m, and the saddlepoint
    t = s / (1 - s m), without a search.
    """
    s_M = -np.exp(tilt_M)
    weight_UM = k / (1 - s_M * x)
    mean_M = (weight_UM * x).sum(axis=0) / weight_UM.sum(axis=0)
    t_M = s_M / (1 - s_M * mean_M)
    gap_UM = x - mean_M
    tilted_UM = t_M * gap_UM
    r_M = -np.sqrt(np.maximum(2 * (k * np.log1p(-tilted_UM)).sum(axis=0), 0.0))
    v_M = t_M * np.sqrt((k * (gap_UM / (1 - tilted_UM)) ** 2).sum(axis=0))
    with np.errstate(divide="ignore", invalid="ignore"):
        quantile_M = r_M + np.log(v_M / r_M) / r_M
    return mean_M, np.where(np.isfinite(quantile_M), quantile_M, 0.0)


def _root(falling: Callable[[np.ndarray], np.ndarray], size: int) -> np.ndarray:
    """Where falling functions [M] of the tilt are 0, by false position that halves where stuck."""
    low_M, high_M = np.full(size, _FEWEST), np.full(size, _MOST)
    middle_M: np.ndarray = low_M
    at_low_M, at_high_M = falling(low_M), falling(high_M)
    for step in range(_STEPS):
        with np.errstate(divide="ignore", invalid="ignore"):
            middle_M = low_M + (high_M - low_M) * at_low_M / (at_low_M - at_high_M)
        inside_M = (middle_M > low_M) & (middle_M < high_M)
        middle_M = np.where(inside_M & (step % 3 > 0), middle_M, (low_M + high_M) / 2)
        value_M = falling(middle_M)
        below_M = value_M > 0
        low_M, high_M = np.where(below_M, middle_M, low_M), np.where(below_M, high_M, middle_M)
        at_low_M = np.where(below_M, value_M, at_low_M)
        at_high_M = np.where(below_M, at_high_M, value_M)
        if np.all(np.minimum(high_M - low_M, np.abs(value_M)) < 1e-9):
            break
    return middle_M
