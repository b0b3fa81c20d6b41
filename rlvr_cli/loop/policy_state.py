"""The policy along a run: the one being trained with its trainer, and the one it started from."""

from rlvr_cli.config import RunConfig
from rlvr_cli.models import policy as policies
from rlvr_cli.models.policy import Loaded, Policy
from rlvr_cli.protocols import TrainingEngine
from rlvr_cli.stages import train_step


class PolicyState:
    """The policy as it is now, in memory and on disk."""

    def __init__(self, initial_policy: Policy, config: RunConfig) -> None:
        self.initial_policy = self.policy = initial_policy
        self.loaded: Loaded
        self.trainer: TrainingEngine
        self._options, self._seed = config.train_step, config.train.seed
        self._loaded_start: Loaded | None = None

    def load(self, policy: Policy) -> None:
        """Goes on from a checkpoint, or from the start."""
        self.policy = policy
        self.loaded = policies.load(policy)
        self.trainer = train_step.trainer(self.loaded, self._options, self._seed)

    def load_or_reuse(self, policy: Policy) -> Loaded:
        """The policy being trained, or the one it started from, which is loaded once."""
        if policy is self.policy and policy is not self.initial_policy:
            return policies.load(policy, frozen=True) if self.trainer.is_sharded else self.loaded
        if self._loaded_start is None:
            self._loaded_start = policies.load(self.initial_policy, frozen=True)
        return self._loaded_start
