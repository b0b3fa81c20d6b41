"""A policy in memory into which a sampler reads those that a run publishes, one after the other."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from rlvr_cli.models import checkpoint_names, policy as policies, pretrained, processors
from rlvr_cli.models.policy import Loaded, Policy
from rlvr_cli.protocols import Row
from rlvr_cli.runtime import later
from rlvr_cli.runtime.later import torch


class Reader:
    """The policy that `aim` named last, loaded on first use."""

    is_sharded = False

    def __init__(self, initial_policy: Policy) -> None:
        self.initial_policy = self.policy = initial_policy
        self._loaded: Loaded | None = None
        self._held: Policy | None = None

    def aim(self, policy: Policy) -> None:
        """From now on this is the policy."""
        if policy != self.policy:
            self.policy = policy

    @property
    def trainer(self) -> "Reader":
        return self

    @property
    def loaded(self) -> Loaded:
        if self._loaded is None or self._held is not self.policy:
            is_same_kind = self._loaded and not self.policy.base and not self._loaded.policy.base
            if self._loaded and is_same_kind:
                _copy(self.policy, self._loaded.model)
            else:
                self._loaded = policies.load(self.policy, frozen=True)
            self._held = self.policy
        return self._loaded

    def load_or_reuse(self, policy: Policy) -> Loaded:
        return self.loaded

    @later.no_grad
    def logp(self, rows: list[Row], temperature: float) -> list[np.ndarray]:
        """The policy's log-probs of the rows' tokens."""
        from rlvr_cli.models import logprobs

        stats = logprobs.completion_stats(self.loaded.model, rows, temperature=temperature)
        return logprobs.unpad(stats.logp_BT, rows)

    def weights(self) -> Iterator[tuple[str, Any]]:
        """The policy's weights as its checkpoint has them, in the precision that it computes in."""
        return checkpoint_names.weights_of(self.loaded.model)


@later.no_grad
def _copy(policy: Policy, model: Any) -> None:
    """Reads the weights of a policy into a model in place: where engines refer to it they stay."""
    from rlvr_cli.models import tensor_files

    weights = tensor_files.read(policy.path)
    named = dict(model.named_parameters())
    if not named.keys() <= weights.keys():  # tied, or under the names of another layout
        reads_images = processors.of(model) is not None
        other = pretrained.model(policy.path, reads_images=reads_images, dtype=torch.float32)
        weights = dict(other.named_parameters())
    for name, parameter in named.items():
        parameter.copy_(weights[name])
