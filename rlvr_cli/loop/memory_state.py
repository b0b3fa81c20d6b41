"""DLC's memory model along a run: what is sampled with, and its trainer, step by step."""

from pathlib import Path

from rlvr_cli.config import RunConfig
from rlvr_cli.models import policy as policies
from rlvr_cli.models.policy import Loaded, Policy
from rlvr_cli.protocols import TrainingEngine
from rlvr_cli.stages import memory_step, steps
from rlvr_cli.storage.shards import MANIFEST, Shards

_FOLDER = "memory"


class MemoryState:
    """The memory model as it is now, in memory and on disk."""

    def __init__(self, start: Policy, config: RunConfig) -> None:
        self.policy = start
        self.loaded: Loaded
        self._trainer: TrainingEngine
        self._options = config.memory_step
        self._micro_batch_tokens = config.train_step.micro_batch_tokens

    def load(self, step: Path | None) -> None:
        """Goes on from the checkpoint in a step's folder, or from the start."""
        if step:
            self.policy = policies.resolve(str(step / _FOLDER))
        self.loaded = policies.load(self.policy)
        self._trainer = memory_step.trainer(self.loaded, self._options, self._micro_batch_tokens)

    def update(self, rollouts: Shards, out: Path, *, save: bool) -> None:
        """Trains it on a step's completions."""
        made = memory_step.run(
            rollouts,
            out,
            self.policy,
            self._options,
            micro_batch_tokens=self._micro_batch_tokens,
            save=save,
            engine=lambda: self._trainer,
        )
        self.policy = steps.checkpoint_after(made, self.policy, save=save)

    @staticmethod
    def is_whole(step: Path) -> bool:
        """Whether the checkpoint in a step's folder is there as it was written."""
        made = step / _FOLDER
        return (made / MANIFEST).exists() and (
            policies.checkpoint_state(Shards.open(made, "steps")) == "whole"
        )

    @staticmethod
    def loss(step: Path) -> float:
        """The cross-entropy of a step's completions before the memory was trained on them."""
        return Shards.open(step / _FOLDER, "steps").summary["loss"]
