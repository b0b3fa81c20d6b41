"""Three and four actions: the panels of Figures 1, 5, 6 and 7, or of a sweep.

The paper's text names G = 2 and a learning rate of 0.1; its rewards and initial probabilities
appear only in the figures' titles, which its text lacks: those here are ours.
(Two-stage, arXiv:2510.04028, sec. 3.2, C.1 and C.4)
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from rlvr_cli.lab.panels import Figure, FigurePanel, PanelLine
from rlvr_cli.lab.settings import Optimizer, Settings
from rlvr_cli.lab.sweep import LabRun
from rlvr_cli.lab.systems import Floats, bandit

REWARDS = ((0.5, 1.0, 0.0),)
INITIAL = ((0.5, 0.05, 0.45),)
FOUR = {"rewards": ((0.6, 1.0, 0.3, 0.0),), "initial": ((0.4, 0.05, 0.3, 0.25),)}
# Objective, group size, temperature, optimizer, learning rate.
Way = tuple[str, int, float, Optimizer, float]
NEGATIVE_ONLY = "dr-grpo+negative-only"


@dataclass(frozen=True)
class TwoStageSweep:
    """Every combination of the listed values.

    Algorithm 1 steps by (1 - pi) A at every temperature, our gradient of log softmax(z / tau) by
    1 / tau of it: the learning rate is `learning_rate` times tau.
    """

    rewards: Sequence[Floats] = REWARDS
    initial: Sequence[Floats] = INITIAL
    algos: Sequence[str] = ("dr-grpo",)
    group_sizes: Sequence[int] = (2,)
    temperatures: Sequence[float] = (1.0,)
    optimizers: Sequence[Optimizer] = ("sgd",)
    learning_rates: Sequence[float] = (0.1,)
    steps: int = 1500

    def panels(self) -> list[FigurePanel]:
        """One for each combination; its lines are the actions' probabilities."""
        return [self._panel(*way) for way in product(self._ways(), self.rewards, self.initial)]

    def _ways(self) -> list[Way]:
        scales = (self.group_sizes, self.temperatures, self.optimizers, self.learning_rates)
        return list(product(self.algos, *scales))

    def _panel(self, way: Way, rewards: Floats, initial: Floats) -> FigurePanel:
        algo, size, temperature, optimizer, rate = way
        settings = Settings(
            algo=algo,
            group_size=size,
            learning_rate=rate * temperature,
            steps=self.steps,
            optimizer=optimizer,
            temperature=temperature,
        )
        system = bandit(rewards, initial)
        how = f"{algo} G={size} tau={temperature:g} {optimizer} lr={rate:g}"
        run = LabRun(f"{how} r=({_words(rewards)}) from ({_words(initial)})", system, settings)
        lines = [
            PanelLine(f"{a}, r={r:g}", run, a) for a, r in zip(system.actions, rewards, strict=True)
        ]
        title = f"{algo}, G={size}, tau={temperature:g}\nstart {_words(initial)}"
        return FigurePanel(title, "probability", tuple(lines))


def _words(values: Floats) -> str:
    return ", ".join(f"{value:g}" for value in values)


def published(base: TwoStageSweep) -> list[Figure]:
    """Figures 1, 5, 6 and 7, and negative gradients only, which the paper does not draw."""

    def figure(name: str, title: str, **changes: Any) -> Figure:
        return Figure(f"two-stage-{name}", title, tuple(replace(base, **changes).panels()))

    starts = ((0.5, 0.05, 0.45), (0.6, 0.1, 0.3), (0.7, 0.02, 0.28))
    rewards = ((0.3, 1.0, 0.0), (0.5, 1.0, 0.0), (0.8, 1.0, 0.0))
    return [
        figure("figure1a", "Figure 1, first row: initial probabilities", initial=starts),
        figure("figure1b", "Figure 1, second row: rewards", rewards=rewards),
        figure("figure5", "Figure 5: group sizes", group_sizes=(2, 3, 5, 10)),
        figure("figure6", "Figure 6: temperatures", temperatures=(1.0, 2.0, 5.0, 20.0)),
        figure("figure7", "Figure 7: four actions", **FOUR),
        figure("negative-only", "Negative gradients only", algos=(NEGATIVE_ONLY,)),
    ]


def swept(sweep: TwoStageSweep) -> list[Figure]:
    """One panel for each combination."""
    return [Figure("two-stage-sweep", "Sweep", tuple(sweep.panels()))]
