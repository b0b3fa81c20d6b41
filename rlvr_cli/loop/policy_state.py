"""The policy along a run: the one being trained with its trainer, and the one it started from."""

from dataclasses import dataclass, field
from typing import Protocol

from rlvr_cli.config import RunConfig
from rlvr_cli.models import policy as policies
from rlvr_cli.models.policy import Loaded, Policy
from rlvr_cli.protocols import HoldsWeights, TrainingEngine
from rlvr_cli.stages import train_step


class InMemory(Protocol):
    """A policy in memory that is another one from step to step, as a sampler takes it."""

    @property
    def initial_policy(self) -> Policy: ...
    @property
    def policy(self) -> Policy: ...
    @property
    def loaded(self) -> Loaded: ...
    @property
    def trainer(self) -> HoldsWeights: ...
    def load_or_reuse(self, policy: Policy) -> Loaded: ...


@dataclass
class PolicyState:
    """The policy as it is now, in memory and on disk."""

    initial_policy: Policy
    policy: Policy
    loaded: Loaded
    trainer: TrainingEngine
    _loaded_initial: Loaded | None = field(default=None, init=False)

    @staticmethod
    def load(initial_policy: Policy, policy: Policy, config: RunConfig) -> "PolicyState":
        """Resumes from `policy`: a checkpoint of the run, or the policy that it starts from."""
        loaded = policies.load(policy)
        trainer = train_step.trainer(loaded, config.train_step, config.train.seed)
        return PolicyState(initial_policy, policy, loaded, trainer)

    def load_or_reuse(self, policy: Policy) -> Loaded:
        """The policy being trained, or the one it started from, which is loaded once."""
        if policy is self.policy and policy is not self.initial_policy:
            return policies.load(policy, frozen=True) if self.trainer.is_sharded else self.loaded
        if self._loaded_initial is None:
            self._loaded_initial = policies.load(self.initial_policy, frozen=True)
        return self._loaded_initial
