"""Softmax policies over a few actions, one for each seed, all trained at once by our objectives.

Shapes: S seeds, G samples of a group, A actions, D features, Q queries, R recorded steps, B rows
(S * G), T completion tokens (1: an action is a completion of one token). Float64. A seed's group
is an optimizer batch of its own; no seed sees another.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from rlvr_cli import objective as objectives
from rlvr_cli import seeds as seeding
from rlvr_cli.errors import UsageError
from rlvr_cli.lab.systems import System
from rlvr_cli.lab.table import Table
from rlvr_cli.objective import ADVANTAGE, KEEP, Objective, TokenBatch, Totals

Optimizer = Literal["sgd", "momentum", "adam", "adamw"]
OPTIMIZERS: dict[str, Callable[[list[Tensor], float], torch.optim.Optimizer]] = {
    "sgd": lambda weights, rate: torch.optim.SGD(weights, lr=rate),
    "momentum": lambda weights, rate: torch.optim.SGD(weights, lr=rate, momentum=0.9),
    "adam": lambda weights, rate: torch.optim.Adam(weights, lr=rate),
    "adamw": lambda weights, rate: torch.optim.AdamW(weights, lr=rate),
}
_BLOCK = 64  # steps whose random numbers are drawn at once
_DENSE = 50  # steps that are all recorded; later ones every 2%
_TINY = 1e-300


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


@dataclass(frozen=True)
class Trajectories:
    """The policies' probabilities of every action of every query, at the recorded steps."""

    step_R: np.ndarray
    probability_SRQA: np.ndarray  # float32


def recorded_steps(steps: int) -> list[int]:
    """0 to 50, then each at least 2% after the one before, and the last."""
    chosen = list(range(min(steps, _DENSE) + 1))
    while chosen[-1] < steps:
        chosen.append(min(steps, max(chosen[-1] + 1, int(chosen[-1] * 1.02))))
    return chosen


def admitted(algo: str, actions: int) -> Objective:
    """The objective of a spec; an error where actions of one token give it no meaning."""
    made = objectives.build(algo)
    if made.longer_than:
        raise UsageError(
            f"`{algo}` shapes rewards by length, and an action is one token",
            "leave overlong out",
        )
    if made.top_k > actions:
        raise UsageError(
            f"`{algo}` anchors to {made.top_k} tokens, there are {actions} actions",
            f"write k={actions - 1} or less, as in apo:k=2",
        )
    return made


def simulate(
    system: System, settings: Settings, seeds: Sequence[int], *, run_seed: int = 0
) -> Trajectories:
    """Trains one policy for each seed. A seed's policy does not depend on the other seeds.

    Runs of one seed and group size draw the same random numbers whatever else is set, so that
    their difference is paired.
    """
    torch.set_num_threads(1)  # two threads are slower on tensors this small
    policies = Policies(system, settings, len(seeds))
    at = recorded_steps(settings.steps)
    kept = [policies.probabilities()]
    wanted = set(at)
    shape = (settings.steps, settings.group_size)
    for step, uniform_SG in enumerate(uniforms(run_seed, seeds, *shape), 1):
        policies.train(uniform_SG)
        if step in wanted:
            kept.append(policies.probabilities())
    return Trajectories(np.array(at), np.stack(kept, axis=1))


def uniforms(run_seed: int, seeds: Sequence[int], steps: int, group_size: int) -> Iterator[Tensor]:
    """[S, G] numbers of each step, from a stream of each seed's own."""
    streams = [
        np.random.Generator(np.random.Philox(key=seeding.derive("lab", run_seed, seed)))
        for seed in seeds
    ]
    for start in range(0, steps, _BLOCK):
        size = (min(_BLOCK, steps - start), group_size)
        yield from torch.from_numpy(np.stack([s.random(size) for s in streams], axis=1))


class Policies:
    """The weights of S policies, their optimizer and their memories."""

    def __init__(self, system: System, settings: Settings, count: int) -> None:
        self._settings = settings
        self._objective = admitted(settings.algo, len(system.actions))
        reward_A = torch.tensor(system.reward, dtype=torch.float64)
        self._table = Table(self._objective, reward_A, settings.group_size)
        self._feature_QD = torch.tensor(list(system.queries.values()), dtype=torch.float64)
        start_AD = torch.tensor(system.start, dtype=torch.float64)
        self.weight_SAD = start_AD.repeat(count, 1, 1).requires_grad_()
        self._memory_SAD = torch.zeros_like(self.weight_SAD)
        self._optimizer = OPTIMIZERS[settings.optimizer]([self.weight_SAD], settings.learning_rate)
        reference_AD = torch.tensor(system.reference or system.start, dtype=torch.float64)
        self._ref_logp_A = (reference_AD @ self._trained / settings.temperature).log_softmax(-1)
        self._anchors_AA = _anchors(self._ref_logp_A, self._objective.top_k)

    @property
    def _trained(self) -> Tensor:
        return self._feature_QD[0]

    def log_probs(self) -> Tensor:
        """Of each action of the trained query, [S, A], with gradient."""
        return (self.weight_SAD @ self._trained / self._settings.temperature).log_softmax(-1)

    @torch.no_grad()
    def probabilities(self) -> np.ndarray:
        """Of each action of every query, [S, Q, A]."""
        logits_SAQ = self.weight_SAD @ self._feature_QD.T / self._settings.temperature
        return logits_SAQ.softmax(1).transpose(1, 2).float().numpy()

    def train(self, uniform_SG: Tensor) -> Tensor:
        """Samples a group of each policy and updates it, once an epoch, then its memory.

        Actions [S, G] are the inverse of the distribution function at `uniform_SG`.
        """
        logp_SA = self.log_probs()
        old_SA = logp_SA.detach()
        behaviour_SA = self._behaviour(old_SA)
        action_SG = torch.searchsorted(behaviour_SA.exp().cumsum(-1), uniform_SG, right=True)
        action_SG.clamp_(max=old_SA.shape[1] - 1)
        columns = self._table(action_SG)
        for epoch in range(self._settings.epochs):
            logp_SA = self.log_probs() if epoch else logp_SA
            self._optimizer.zero_grad()
            self._loss(action_SG, columns, logp_SA, old_SA, behaviour_SA).backward()
            self._optimizer.step()
        if self._settings.memory:
            self._remember(action_SG)
        return action_SG

    def _behaviour(self, logp_SA: Tensor) -> Tensor:
        """log pi_sample, proportional to exp((f_theta - mu f_phi) / temperature), [S, A].

        (DLC, When Sharpening Becomes Collapse, sec. 3.2)
        """
        if not self._settings.memory:
            return logp_SA
        memory_SA = self._memory_SAD @ self._trained / self._settings.temperature
        return (logp_SA - self._settings.memory * memory_SA).log_softmax(-1)

    def _loss(
        self,
        action_SG: Tensor,
        columns: dict[str, Tensor],
        logp_SA: Tensor,
        old_SA: Tensor,
        behaviour_SA: Tensor,
    ) -> Tensor:
        """The sum over seeds of each group's loss, under the counts of its own kept rows."""
        batch = self._batch(action_SG, columns, logp_SA, old_SA, behaviour_SA)
        if bool(columns[KEEP].all()):
            totals = Totals(tokens=action_SG.shape[1], sequences=action_SG.shape[1], max_length=1)
            return objectives.loss(self._objective, batch, totals).value
        kept_S = columns[KEEP].sum(1)
        value = 0 * logp_SA.sum()
        for count in kept_S.unique().tolist():
            if count:
                rows_B = (kept_S == count).repeat_interleave(action_SG.shape[1])
                part = _only(batch, rows_B)
                totals = Totals(tokens=count, sequences=count, max_length=1)
                value = value + objectives.loss(self._objective, part, totals).value
        return value

    def _batch(
        self,
        action_SG: Tensor,
        columns: dict[str, Tensor],
        logp_SA: Tensor,
        old_SA: Tensor,
        behaviour_SA: Tensor,
    ) -> TokenBatch:
        needs = self._objective.needs

        def taken(value_SA: Tensor) -> Tensor:
            return value_SA.gather(1, action_SG).reshape(-1, 1)

        entropy_S1 = -(logp_SA.exp() * logp_SA).sum(1, keepdim=True)  # finite: no logit is -inf
        batch = TokenBatch(
            logp_BT=taken(logp_SA),
            old_logp_BT=taken(old_SA),
            mask_BT=columns[KEEP].reshape(-1, 1),
            advantage_B=columns[ADVANTAGE].flatten(),
            entropy_BT=taken(entropy_S1.expand_as(logp_SA)),
            ref_logp_BT=taken(self._ref_logp_A.expand_as(logp_SA)) if "ref_logp" in needs else None,
            behaviour_logp_BT=taken(behaviour_SA),
            columns={name: columns[name].flatten() for name in self._objective.columns},
        )
        if not self._objective.top_k:
            return batch
        mass_SA = logp_SA.exp() @ self._anchors_AA.T
        ref_mass_A = self._anchors_AA @ self._ref_logp_A.exp()
        return replace(
            batch,
            anchor_logp_BT=taken(mass_SA.clamp(min=_TINY).log()),
            anchor_ref_logp_BT=taken(ref_mass_A.clamp(min=_TINY).log().expand_as(logp_SA)),
        )

    @torch.no_grad()
    def _remember(self, action_SG: Tensor) -> None:
        """One step of descent on the memory's cross-entropy of the group's actions."""
        logits_SA = self._memory_SAD @ self._trained / self._settings.temperature
        actions = logits_SA.shape[1]
        share_SA = torch.nn.functional.one_hot(action_SG, actions).double().mean(1)
        off_SA = (share_SA - logits_SA.softmax(-1)) / self._settings.temperature
        self._memory_SAD += self._settings.memory_learning_rate * off_SA[..., None] * self._trained


def _anchors(ref_logp_A: Tensor, k: int) -> Tensor:
    """Row a: 1 for the reference policy's k likeliest actions other than a, float64 [A, A]."""
    chosen_A = torch.zeros_like(ref_logp_A)
    chosen_A[ref_logp_A.topk(k).indices] = 1
    return chosen_A.repeat(len(chosen_A), 1).fill_diagonal_(0)


def _only(batch: TokenBatch, rows_B: Tensor) -> TokenBatch:
    """The rows of a batch that are True in `rows_B`."""
    values: dict[str, Any] = {f.name: getattr(batch, f.name) for f in fields(batch)}
    columns = {name: value_B[rows_B] for name, value_B in values.pop("columns").items()}
    chosen: dict[str, Any] = {name: None if v is None else v[rows_B] for name, v in values.items()}
    return TokenBatch(**chosen, columns=columns)
