"""How a policy that has collapsed on an error recovers, with APO's anchor and without.

(Anchored Policy Optimization, Elastic Recovery, sec. 4 and B.3)
"""

from collections.abc import Sequence

from rlvr_cli.lab import check, outcome
from rlvr_cli.lab.bandit import at_rates
from rlvr_cli.lab.check import Check
from rlvr_cli.lab.panels import Figure, FigurePanel, PanelLine
from rlvr_cli.lab.settings import Settings
from rlvr_cli.lab.sweep import LabRun
from rlvr_cli.lab.systems import bandit

# A policy that has collapsed on a wrong action, and the reference policy that it came from.
COLLAPSED = (0.90, 0.004, 0.03, 0.03, 0.036)
REFERENCE = (0.40, 0.30, 0.15, 0.10, 0.05)
RIGHT = (0.0, 1.0, 0.0, 0.0, 0.0)
STEPS = 300
RATE = 0.5


def runs() -> dict[str, LabRun]:
    """Training from a policy that has collapsed on an error, with and without the anchor."""
    system = bandit(RIGHT, COLLAPSED, REFERENCE)
    specs = {"grpo": "grpo:aggregation=token-mean", "apo:k=3": "apo:k=3",
             "nsr": "nsr", "nsr+anchor:k=3": "nsr+anchor:k=3"}  # fmt: skip
    return {
        name: LabRun(f"recovery {spec}", system, Settings(spec, 8, RATE, STEPS))
        for name, spec in specs.items()
    }


def checks(seeds: int, rates: Sequence[float] = (RATE,)) -> list[Check]:
    """With the anchor the right action comes back sooner."""
    reward_S = {}
    for name, run in runs().items():
        trials = at_rates(run.system, run.settings, rates, range(seeds))
        for rate, trajectories in zip(rates, trials, strict=True):
            reward_SR = outcome.curve(run.system, trajectories, "reward")
            reward_S[name, rate] = outcome.over_time(trajectories, reward_SR)
    return check.at_each(rates, lambda rate: [
        check.mean(f"mean reward over {STEPS} steps, {a} less {b}",
                   reward_S[a, rate] - reward_S[b, rate], above=0.0)
        for a, b in (("apo:k=3", "grpo"), ("nsr+anchor:k=3", "nsr"))
    ])  # fmt: skip


def figures() -> list[Figure]:
    """The recovery of the right action, and of what the reference policy knew."""
    run_of = runs()
    shown = {"a2": "the right action", "a1": "the error it collapsed on"}
    panels = [
        FigurePanel(
            title,
            "probability",
            tuple(PanelLine(name, run, action) for name, run in run_of.items()),
        )
        for action, title in shown.items()
    ]
    return [Figure("squeeze-recovery", "Recovery from a collapse on an error", tuple(panels))]
