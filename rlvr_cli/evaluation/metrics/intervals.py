"""The interval of each metric's mean over prompts, and of paired differences, by what holds for it.

Shapes: P prompts, M metrics. docs/evaluation.md has how often each method holds, by simulation.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rlvr_cli.errors import DataError
from rlvr_cli.evaluation.metrics import bootstrap, gaffke

EXACT = "Clopper-Pearson"
BOUNDED = "Gaffke"
RESAMPLED = "expanded percentile bootstrap"
STUDENT = "Student's t"
NONE = "none"
DIFFERING = 10  # prompts unlike the commonest value that other metrics need
# Shares of outcomes, which may all be the same. UCR and diversity are far from their bounds.
_SHARES = ("pass@", "maj@", "avg@", "truncated", "top-", "share")


@dataclass(frozen=True)
class Intervals:
    """The mean of each metric, the two ends of its 95% interval, and its standard error.

    Each array is [M], NaN where there is none. `chance_M` is the p-value of no difference, of
    differences; it is NaN if there are too few prompts for one.
    """

    mean_M: np.ndarray
    low_M: np.ndarray
    high_M: np.ndarray
    error_M: np.ndarray
    method_M: list[str]
    chance_M: np.ndarray


def bounded(names: Sequence[str], value_PM: np.ndarray) -> np.ndarray:
    """Which metrics [M] are shares of outcomes, with all values between 0 and 1."""
    known = [name.startswith(_SHARES) for name in names]
    inside_M: np.ndarray = np.all((value_PM >= 0) & (value_PM <= 1), axis=0)
    bounded_M: np.ndarray = np.array(known, dtype=bool) & inside_M
    return bounded_M


def of_means(names: Sequence[str], values_PM: ArrayLike) -> Intervals:
    """The mean over prompts of each metric, and its interval.

    Of shares of outcomes: Clopper and Pearson's where each value is 0 or 1, else Gaffke's.
    Of any other: the bootstrap, if at least `DIFFERING` prompts differ from the commonest value.
    One prompt has no interval; raises DataError without prompts.
    """
    value_PM = np.asarray(values_PM, dtype=np.float64)
    estimate = _without(value_PM)
    if len(value_PM) == 1:
        return estimate
    bounded_M = bounded(names, value_PM)
    exact_M = bounded_M & np.all((value_PM == 0) | (value_PM == 1), axis=0)
    for chosen_M, method, ends in (
        (exact_M, EXACT, _clopper_pearson),
        (bounded_M & ~exact_M, BOUNDED, gaffke.interval),
        (~bounded_M & _varied(value_PM), RESAMPLED, _resampled),
    ):
        if chosen_M.any():
            _fill(estimate, chosen_M, method, ends(value_PM[:, chosen_M]))
    return estimate


def of_differences(names: Sequence[str], a_PM: ArrayLike, b_PM: ArrayLike) -> Intervals:
    """The mean of a - b, prompt by prompt, its interval, and the chance of a mean difference of 0.

    Of shares of outcomes: Gaffke's over -1 to 1, with which McNemar's exact test of binary
    outcomes agrees; too few prompts are those of which even -1 in each would show nothing. Of
    others: Student's t, if at least `DIFFERING` prompts differ from the commonest difference.
    Row p of both must be the same prompt.
    """
    a_PM, b_PM = np.asarray(a_PM, dtype=np.float64), np.asarray(b_PM, dtype=np.float64)
    if a_PM.shape != b_PM.shape:
        raise DataError(
            f"prompts and metrics are {a_PM.shape} on one side, {b_PM.shape} on the other",
            hint="compare two runs over the same prompts",
        )
    gap_PM = a_PM - b_PM
    estimate, prompts = _without(gap_PM), len(gap_PM)
    if prompts == 1:
        return estimate
    bounded_M = bounded(names, a_PM) & bounded(names, b_PM)
    if bounded_M.any():
        own_PM = gap_PM[:, bounded_M]
        low_M, high_M = gaffke.interval((own_PM + 1) / 2)
        _fill(estimate, bounded_M, BOUNDED, (2 * low_M - 1, 2 * high_M - 1))
        if 2 * 0.5**prompts < 0.05:
            estimate.chance_M[bounded_M] = gaffke.chance_of_none(own_PM)
    student_M = ~bounded_M & _varied(gap_PM)
    if student_M.any():
        from scipy.special import stdtr, stdtrit

        mean_M, error_M = estimate.mean_M[student_M], estimate.error_M[student_M]
        half_M = stdtrit(prompts - 1, 0.975) * error_M
        _fill(estimate, student_M, STUDENT, (mean_M - half_M, mean_M + half_M))
        estimate.chance_M[student_M] = 2 * stdtr(prompts - 1, -np.abs(mean_M) / error_M)
    return estimate


def _without(value_PM: np.ndarray) -> Intervals:
    """Means and standard errors, before there are intervals."""
    prompts, metrics = value_PM.shape
    if not prompts:
        raise DataError("there are no prompts to take a mean over")
    error_M = np.full(metrics, np.nan)
    if prompts > 1:
        error_M = value_PM.std(axis=0, ddof=1) / np.sqrt(prompts)
    low_M, high_M, chance_M = (np.full(metrics, np.nan) for _ in range(3))
    mean_M = value_PM.mean(axis=0)
    return Intervals(mean_M, low_M, high_M, error_M, [NONE] * metrics, chance_M)


def _fill(
    estimate: Intervals, chosen_M: np.ndarray, method: str, ends: tuple[np.ndarray, np.ndarray]
) -> None:
    """The ends of the chosen metrics; rounding must not put a mean outside of them."""
    mean_M = estimate.mean_M[chosen_M]
    estimate.low_M[chosen_M] = np.minimum(ends[0], mean_M)
    estimate.high_M[chosen_M] = np.maximum(ends[1], mean_M)
    for at in np.flatnonzero(chosen_M):
        estimate.method_M[at] = method


def _varied(value_PM: np.ndarray) -> np.ndarray:
    """Of which metrics [M] enough prompts differ from the commonest value; not with a NaN."""
    return np.array([_differing(value_P) >= DIFFERING for value_P in value_PM.T], dtype=bool)


def _differing(value_P: np.ndarray) -> int:
    """How many prompts differ from the commonest value, but for its last digits."""
    if not np.isfinite(value_P).all():
        return 0
    size = np.abs(value_P).max()
    _, count_U = np.unique(np.round(value_P / (size or 1.0), 12), return_counts=True)
    return len(value_P) - int(count_U.max())


def _clopper_pearson(value_PM: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    from scipy.special import betaincinv

    right_M, prompts = value_PM.sum(axis=0), len(value_PM)
    wrong_M = prompts - right_M
    with np.errstate(invalid="ignore"):
        low_M = betaincinv(np.maximum(right_M, 1), wrong_M + 1, 0.025)
        high_M = betaincinv(right_M + 1, np.maximum(wrong_M, 1), 0.975)
    return np.where(right_M > 0, low_M, 0.0), np.where(wrong_M > 0, high_M, 1.0)


def _resampled(value_PM: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    estimate = bootstrap.mean_interval(value_PM)
    return estimate.low_M, estimate.high_M
