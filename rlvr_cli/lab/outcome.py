"""How policies end up: success, sharpness, collapse.

Shapes: S seeds, R recorded steps, A actions, M correct actions (modes).
"""

from typing import Any

import numpy as np

from rlvr_cli.lab.bandit import Trajectories
from rlvr_cli.lab.systems import System

COLLAPSED = 0.95  # of the correct mass on one correct action
SOLVED = 0.95  # of all mass on correct actions


def curve(system: System, trajectories: Trajectories, name: str) -> np.ndarray:
    """A named quantity of every seed at the recorded steps, [S, R].

    `success`; `larger` and `smaller`: the likeliest and the least likely correct action;
    `share`: larger / success; `entropy`, nats; `reward`; an action; `action@query`.
    """
    trained_SRA = trajectories.probability_SRQA[:, :, 0].astype(np.float64)
    modes_SRM = trained_SRA[:, :, np.flatnonzero(system.correct)]
    success_SR: np.ndarray = modes_SRM.sum(-1)
    larger_SR: np.ndarray = modes_SRM.max(-1)
    if name == "success":
        return success_SR
    if name == "larger":
        return larger_SR
    if name == "share":
        share_SR: np.ndarray = larger_SR / success_SR
        return share_SR
    if name == "smaller":
        smaller_SR: np.ndarray = modes_SRM.min(-1)
        return smaller_SR
    if name == "entropy":
        log_SRA = np.log(np.maximum(trained_SRA, 1e-300))
        entropy_SR: np.ndarray = -(trained_SRA * log_SRA).sum(-1)
        return entropy_SR
    if name == "reward":
        reward_SR: np.ndarray = trained_SRA @ np.array(system.reward)
        return reward_SR
    action, _, query = name.partition("@")
    q = list(system.queries).index(query) if query else 0
    return trajectories.probability_SRQA[:, :, q, system.actions.index(action)].astype(np.float64)


def first_step(trajectories: Trajectories, hit_SR: np.ndarray) -> np.ndarray:
    """The first recorded step at which a flag is set, [S]; infinity where it never is."""
    step_R = np.asarray(trajectories.step_R, dtype=np.float64)
    return np.where(hit_SR.any(1), step_R[hit_SR.argmax(1)], np.inf)


def collapse_step(system: System, trajectories: Trajectories) -> np.ndarray:
    """The first step at which one correct action holds 95% of the correct mass, [S]."""
    return first_step(trajectories, curve(system, trajectories, "share") >= COLLAPSED)


def solved_step(system: System, trajectories: Trajectories) -> np.ndarray:
    """The first step at which the correct actions hold 95% of all mass, [S]."""
    return first_step(trajectories, curve(system, trajectories, "success") >= SOLVED)


def at_step(trajectories: Trajectories, value_SR: np.ndarray, step_S: np.ndarray) -> np.ndarray:
    """The value at each seed's own step, [S]; at the last where that is infinite."""
    column_S = np.searchsorted(trajectories.step_R, np.minimum(step_S, trajectories.step_R[-1]))
    value_S: np.ndarray = value_SR[np.arange(len(value_SR)), column_S]
    return value_S


def over_time(trajectories: Trajectories, value_SR: np.ndarray) -> np.ndarray:
    """The mean over all steps, [S]: of `share` it is how early and how far a policy sharpened."""
    step_R = np.asarray(trajectories.step_R, dtype=np.float64)
    middle_SR = (value_SR[:, 1:] + value_SR[:, :-1]) / 2
    mean_S: np.ndarray = middle_SR @ np.diff(step_R) / (step_R[-1] - step_R[0])
    return mean_S


def summary(system: System, trajectories: Trajectories) -> dict[str, Any]:
    """Means over seeds at the end, shares of seeds, and medians of steps (null if not reached)."""
    end = {
        n: float(curve(system, trajectories, n)[:, -1].mean())
        for n in ("success", "reward", "entropy")
    }
    if sum(system.correct) < 2:
        return end
    collapsed_S, solved_S = collapse_step(system, trajectories), solved_step(system, trajectories)
    return end | {
        "share": float(curve(system, trajectories, "share")[:, -1].mean()),
        "collapsed": float(np.isfinite(collapsed_S).mean()),
        "collapse_step": _median(collapsed_S),
        "solved_step": _median(solved_S),
    }


def _median(step_S: np.ndarray) -> float | None:
    value = float(np.quantile(step_S, 0.5, method="lower"))
    return value if np.isfinite(value) else None
