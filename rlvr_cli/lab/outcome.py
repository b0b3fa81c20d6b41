"""What became of policies: success, sharpness, collapse.

Shapes: S seeds, R recorded steps, A actions, M correct actions (modes).
"""

from typing import Any

import numpy as np

from rlvr_cli.lab.bandit import Trajectories
from rlvr_cli.lab.systems import System

COLLAPSED = 0.95  # of the correct mass on one correct action
SOLVED = 0.95  # of all mass on correct actions


def curve(system: System, made: Trajectories, name: str) -> np.ndarray:
    """A named quantity of every seed at the recorded steps, [S, R].

    `success`; `larger` and `smaller`: the likeliest and the least likely correct action;
    `share`: larger / success; `entropy`, nats; `reward`; an action; `action@query`.
    """
    trained_SRA = made.probability_SRQA[:, :, 0].astype(np.float64)
    modes_SRM = trained_SRA[:, :, np.flatnonzero(system.correct)]
    if name == "success":
        return modes_SRM.sum(-1)
    if name == "larger":
        return modes_SRM.max(-1)
    if name == "smaller":
        return modes_SRM.min(-1)
    if name == "share":
        return modes_SRM.max(-1) / modes_SRM.sum(-1)
    if name == "entropy":
        return -(trained_SRA * np.log(np.maximum(trained_SRA, 1e-300))).sum(-1)
    if name == "reward":
        return trained_SRA @ np.array(system.reward)
    action, _, query = name.partition("@")
    q = list(system.queries).index(query) if query else 0
    return made.probability_SRQA[:, :, q, system.actions.index(action)].astype(np.float64)


def first_step(made: Trajectories, hit_SR: np.ndarray) -> np.ndarray:
    """The first recorded step at which it is so, [S]; infinity where it never is."""
    step_R = np.asarray(made.step_R, dtype=np.float64)
    return np.where(hit_SR.any(1), step_R[hit_SR.argmax(1)], np.inf)


def collapse_step(system: System, made: Trajectories) -> np.ndarray:
    """The first step at which one correct action holds 95% of the correct mass, [S]."""
    return first_step(made, curve(system, made, "share") >= COLLAPSED)


def solved_step(system: System, made: Trajectories) -> np.ndarray:
    """The first step at which the correct actions hold 95% of all mass, [S]."""
    return first_step(made, curve(system, made, "success") >= SOLVED)


def at_step(made: Trajectories, value_SR: np.ndarray, step_S: np.ndarray) -> np.ndarray:
    """The value at each seed's own step, [S]; at the last where that is infinite."""
    column_S = np.searchsorted(made.step_R, np.minimum(step_S, made.step_R[-1]))
    return value_SR[np.arange(len(value_SR)), column_S]


def over_time(made: Trajectories, value_SR: np.ndarray) -> np.ndarray:
    """The mean over all steps, [S]: of `share` it is how early and how far a policy sharpened."""
    step_R = np.asarray(made.step_R, dtype=np.float64)
    middle_SR = (value_SR[:, 1:] + value_SR[:, :-1]) / 2
    return middle_SR @ np.diff(step_R) / (step_R[-1] - step_R[0])


def summary(system: System, made: Trajectories) -> dict[str, Any]:
    """Means over seeds at the end, shares of seeds, and medians of steps (null if not reached)."""
    end = {n: float(curve(system, made, n)[:, -1].mean()) for n in ("success", "reward", "entropy")}
    if sum(system.correct) < 2:
        return end
    collapsed_S, solved_S = collapse_step(system, made), solved_step(system, made)
    return end | {
        "share": float(curve(system, made, "share")[:, -1].mean()),
        "collapsed": float(np.isfinite(collapsed_S).mean()),
        "collapse_step": _median(collapsed_S),
        "solved_step": _median(solved_S),
    }


def _median(step_S: np.ndarray) -> float | None:
    value = float(np.quantile(step_S, 0.5, method="lower"))
    return value if np.isfinite(value) else None
