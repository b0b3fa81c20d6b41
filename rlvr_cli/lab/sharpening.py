"""The Cat, Dog, Persian and Siamese system: the panels of Figures 1 to 5, or of a sweep.

(When Sharpening Becomes Collapse, sec. 2.4, G and H)
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from rlvr_cli.errors import UsageError
from rlvr_cli.lab.panels import Figure, FigurePanel, PanelLine
from rlvr_cli.lab.settings import Settings
from rlvr_cli.lab.sweep import LabRun
from rlvr_cli.lab.systems import SIAMESE, classes

ESTIMATORS = ("reinforce", "dr-grpo", "grpo")  # raw, mean-shifted, normalised
GROUP_SIZES = (4, 8, 16, 32)
_CALIBRATED = "grpo+iac"


@dataclass(frozen=True)
class SharpeningSweep:
    """Every combination of the listed values; the paper gives no learning rate."""

    algos: Sequence[str] = ESTIMATORS
    group_sizes: Sequence[int] = GROUP_SIZES
    optimizers: Sequence[str] = ("sgd",)
    learning_rates: Sequence[float] = (1.0,)
    memories: Sequence[float] = (0.0,)
    similarities: Sequence[str] = tuple(SIAMESE)
    init: str = "uniform"
    steps: int = 500

    def __post_init__(self) -> None:
        for name in self.similarities:
            if name not in SIAMESE:
                raise UsageError(f"--similarity is `{name}`", f"write some of {', '.join(SIAMESE)}")

    def panels(self, *, held_out: bool) -> list[FigurePanel]:
        """One for each combination but the group size, whose values are its lines."""
        ways = product(self.algos, self.optimizers, self.learning_rates, self.memories)
        panels = []
        for algo, optimizer, rate, memory in ways:
            runs = {G: self._run(algo, G, optimizer, rate, memory) for G in self.group_sizes}
            title = f"{algo}, {optimizer} {rate:g}" + (f", DLC {memory:g}" if memory else "")
            if not held_out:
                panels.append(_modes(title, runs))
            else:
                panels += [_siamese(title, name, runs) for name in self.similarities]
        return panels

    def _run(self, algo: str, size: int, optimizer: str, rate: float, memory: float) -> LabRun:
        settings = Settings(
            algo=algo,
            group_size=size,
            learning_rate=rate,
            steps=self.steps,
            optimizer=optimizer,  # type: ignore[arg-type]
            memory=memory,
            memory_learning_rate=1.0,
        )
        name = f"{algo} G={size} {optimizer} lr={rate:g}" + (f" mu={memory:g}" if memory else "")
        return LabRun(name, classes(self.init), settings)


def _modes(title: str, runs: dict[int, LabRun]) -> FigurePanel:
    """The likelier and the less likely of Cat and Persian: which wins is chance."""
    lines = [
        PanelLine(f"{which}, G={size}", run, which)
        for which in ("larger", "smaller")
        for size, run in runs.items()
    ]
    return FigurePanel(title, "the larger and the smaller of P(Cat), P(Persian)", tuple(lines))


def _siamese(title: str, similarity: str, runs: dict[int, LabRun]) -> FigurePanel:
    quantity = f"siamese@siamese-{similarity}"
    lines = [PanelLine(f"G={size}", run, quantity) for size, run in runs.items()]
    return FigurePanel(f"{title}, {similarity}", "P(Siamese) of Siamese", tuple(lines))


def published(base: SharpeningSweep) -> list[Figure]:
    """Figures 1 to 5; group sizes, learning rates, start and steps are the sweep's."""

    def figure(number: int, title: str, held_out: bool = False, **changes: Any) -> Figure:
        panels = replace(base, **changes).panels(held_out=held_out)
        return Figure(f"sharpening-figure{number}", f"Figure {number}. {title}", tuple(panels))

    both: dict[str, Any] = {"optimizers": ("sgd", "adamw"), "memories": (0.0, 0.5)}
    return [
        figure(1, "Advantage estimators and group sizes"),
        figure(2, "Accuracy on the held-out Siamese", True, algos=("grpo",)),
        figure(3, "RLOO and REINFORCE++", algos=("rloo", "reinforce-pp:kl=0")),
        figure(4, "Optimizers", algos=("grpo",), optimizers=("momentum", "adamw")),
        figure(5, "IAC alone and with DLC", algos=(_CALIBRATED,), **both),
    ]


def swept(sweep: SharpeningSweep, *, held_out: bool) -> list[Figure]:
    """The panels of every combination, and of the held-out class if wanted."""
    shown = {"modes": False, "held-out": True} if held_out else {"modes": False}
    return [
        Figure(f"sharpening-{name}", f"Sweep: {name}", tuple(sweep.panels(held_out=which)))
        for name, which in shown.items()
    ]
