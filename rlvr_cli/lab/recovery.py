"""How a policy that has collapsed on an error recovers, with APO's anchor and without.

(Anchored Policy Optimization, Elastic Recovery, sec. 4 and B.3)
"""

from rlvr_cli.lab import check, outcome
from rlvr_cli.lab.bandit import simulate
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


def runs() -> dict[str, LabRun]:
    """Training from a policy that has collapsed on an error, with and without the anchor."""
    system = bandit(RIGHT, COLLAPSED, REFERENCE)
    specs = {"grpo": "grpo:aggregation=token-mean", "apo:k=3": "apo:k=3",
             "nsr": "nsr", "nsr+anchor:k=3": "nsr+anchor:k=3"}  # fmt: skip
    return {
        name: LabRun(f"recovery {spec}", system, Settings(spec, 8, 0.5, STEPS))
        for name, spec in specs.items()
    }


def checks(seeds: int) -> list[Check]:
    """With the anchor the right action comes back sooner."""
    reward_S = {}
    for name, run in runs().items():
        trajectories = simulate(run.system, run.settings, range(seeds))
        reward_S[name] = outcome.over_time(
            trajectories, outcome.curve(run.system, trajectories, "reward")
        )
    return [
        check.mean(f"mean reward over {STEPS} steps, {a} less {b}", reward_S[a] - reward_S[b],
                   above=0.0)
        for a, b in (("apo:k=3", "grpo"), ("nsr+anchor:k=3", "nsr"))
    ]  # fmt: skip


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
