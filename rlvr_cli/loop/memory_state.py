"""DLC's memory model along a run: the one to sample with and its trainer, step by step."""

from dataclasses import dataclass
from pathlib import Path

from rlvr_cli.config import RunConfig
from rlvr_cli.models import policy as policies
from rlvr_cli.models.policy import Loaded, Policy
from rlvr_cli.protocols import TrainingEngine
from rlvr_cli.stages import memory_step, steps
from rlvr_cli.storage.atomic import Syncing
from rlvr_cli.storage.shards import MANIFEST, Shards

_FOLDER = "memory"


@dataclass
class MemoryState:
    """The memory model as it is now, in memory and on disk."""

    policy: Policy
    loaded: Loaded
    _trainer: TrainingEngine
    _config: RunConfig

    @staticmethod
    def checkpoint(initial: Policy, step: Path | None) -> Policy:
        """The model in a step's folder, or the one that the run starts from."""
        return policies.resolve(str(step / _FOLDER)) if step else initial

    @staticmethod
    def load(model: Policy, config: RunConfig) -> "MemoryState":
        """Resumes from a model."""
        loaded = policies.load(model)
        tokens = config.train_step.micro_batch_tokens
        trainer = memory_step.trainer(loaded, config.memory_step, tokens)
        return MemoryState(model, loaded, trainer, config)

    def update(self, rollouts: Shards, out: Path, *, save: bool, syncing: Syncing) -> None:
        """Trains it on a step's completions."""
        update = memory_step.run(
            rollouts,
            out,
            self.policy,
            self._config.memory_step,
            micro_batch_tokens=self._config.train_step.micro_batch_tokens,
            save=save,
            engine=lambda: self._trainer,
            syncing=syncing,
        )
        self.policy = steps.checkpoint_after(update, self.policy, save=save)

    @staticmethod
    def is_complete(step: Path) -> bool:
        """Whether the checkpoint in a step's folder is there as it was written."""
        update = step / _FOLDER
        return (update / MANIFEST).exists() and (
            policies.checkpoint_state(Shards.open(update, "steps")) == "whole"
        )

    @staticmethod
    def loss(step: Path) -> float:
        """The cross-entropy of a step's completions before the model was trained on them."""
        return float(Shards.open(step / _FOLDER, "steps").summary["loss"])
