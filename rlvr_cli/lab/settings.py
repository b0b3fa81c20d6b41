"""How a policy of a small system is trained."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch

from rlvr_cli.errors import UsageError

Optimizer = Literal["sgd", "momentum", "adam", "adamw"]
OPTIMIZERS: dict[str, Callable[[list[Any], float], torch.optim.Optimizer]] = {
    "sgd": lambda weights, rate: torch.optim.SGD(weights, lr=rate),
    "momentum": lambda weights, rate: torch.optim.SGD(weights, lr=rate, momentum=0.9),
    "adam": lambda weights, rate: torch.optim.Adam(weights, lr=rate),
    "adamw": lambda weights, rate: torch.optim.AdamW(weights, lr=rate),
}


@dataclass(frozen=True)
class Settings:
    """How a policy is trained; `memory` is DLC's mu, 0 without a memory.

    The memory starts at weights of 0 and takes one step of gradient descent on the cross-entropy
    of each group. The samples' temperature is the policy's: pi = softmax(z / temperature).
    """

    algo: str = "dr-grpo"
    group_size: int = 8
    learning_rate: float = 1.0
    steps: int = 500
    optimizer: Optimizer = "sgd"
    temperature: float = 1.0
    epochs: int = 1
    memory: float = 0.0
    memory_learning_rate: float = 1.0

    def __post_init__(self) -> None:
        if self.group_size < 1 or self.steps < 1 or self.epochs < 1:
            raise UsageError("group size, steps and epochs must be 1 or more", "give such numbers")
        if self.temperature <= 0 or self.learning_rate <= 0 or self.memory < 0:
            raise UsageError(
                "temperature and learning rate must be above 0, mu at 0 or above",
                "give such numbers",
            )
        if self.optimizer not in OPTIMIZERS:
            raise UsageError(
                f"unknown optimizer `{self.optimizer}`", f"there are {', '.join(OPTIMIZERS)}"
            )
