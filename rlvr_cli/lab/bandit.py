"""Softmax policies over a few actions, one for each seed, all trained at once by our objectives.

Shapes: S seeds, G samples of a group, A actions, D features, Q queries, R recorded steps, B rows
(S * A), T completion tokens (1: an action is a completion of one token). Float64. A seed's group
is an optimizer batch of its own; no seed sees another.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from rlvr_cli.algorithms import objective as objectives
from rlvr_cli.algorithms.objective import ADVANTAGE, KEEP, Objective, TokenBatch, Totals
from rlvr_cli.errors import UsageError
from rlvr_cli.lab.settings import OPTIMIZERS, Optimizer, Settings
from rlvr_cli.lab.systems import System
from rlvr_cli.lab.table import AdvantageTable
from rlvr_cli.runtime import seeds as seeding

_BLOCK = 64  # steps whose random numbers are drawn at once
_DENSE = 50  # steps that are all recorded; later ones every 2%
_TINY = 1e-300


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
    objective = objectives.build(algo)
    if objective.longer_than:
        raise UsageError(
            f"`{algo}` shapes rewards by length, and an action is one token",
            "leave overlong out",
        )
    if objective.token_columns or not objective.is_alike:
        raise UsageError(
            f"`{algo}` treats actions of equal reward differently, at random or by their log-probs "
            "or entropies",
            "leave such a modifier out, or take an estimator that reads only rewards, as in "
            "pass-at-k:form=analytic",
        )
    for name, refused in (("mask-truncated", "truncated" in objective.needs),
                          ("normalize=true", bool(objective.batch_columns))):  # fmt: skip
        if refused:
            raise UsageError(
                f"`{algo}` has {name}, which means nothing if every action is one token",
                f"leave {name} out",
            )
    if objective.top_k > actions:
        raise UsageError(
            f"`{algo}` anchors to {objective.top_k} tokens, there are {actions} actions",
            f"write k={actions - 1} or less, as in apo:k=2",
        )
    return objective


def simulate(
    system: System, settings: Settings, seeds: Sequence[int], *, run_seed: int = 0
) -> Trajectories:
    """Trains one policy for each seed. A seed's policy does not depend on the other seeds.

    Runs of one seed and group size draw the same random numbers whatever else is set, so that
    their difference is paired.
    """
    (run,) = at_rates(system, settings, (settings.learning_rate,), seeds, run_seed=run_seed)
    return run


def at_rates(
    system: System,
    settings: Settings,
    rates: Sequence[float],
    seeds: Sequence[int],
    *,
    run_seed: int = 0,
) -> list[Trajectories]:
    """What `simulate` makes at each learning rate, trained at once: five cost less than two."""
    torch.set_num_threads(1)  # two threads are slower on tensors this small
    policies = Policies(system, settings, len(seeds), rates)
    at = recorded_steps(settings.steps)
    recorded = [policies.probabilities()]
    wanted = set(at)
    shape = (settings.steps, settings.group_size)
    for step, uniform_SG in enumerate(uniforms(run_seed, seeds, *shape), 1):
        policies.train(uniform_SG.repeat(len(rates), 1))
        if step in wanted:
            recorded.append(policies.probabilities())
    by_rate = np.split(np.stack(recorded, axis=1), len(rates))
    return [Trajectories(np.array(at), probability_SRQA) for probability_SRQA in by_rate]


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
    """The weights of S policies, their optimizer and their memories.

    S is `count` for each of `rates`, one rate after the other; without any, the settings' rate.
    """

    def __init__(
        self, system: System, settings: Settings, count: int, rates: Sequence[float] = ()
    ) -> None:
        self._settings = settings
        self._objective = admitted(settings.algo, len(system.actions))
        reward_A = torch.tensor(system.reward, dtype=torch.float64)
        self._table = AdvantageTable(self._objective, reward_A, settings.group_size)
        self._weights = _weights(self._objective, settings.group_size)
        self._feature_QD = torch.tensor(list(system.queries.values()), dtype=torch.float64)
        start_AD = torch.tensor(system.start, dtype=torch.float64)
        rates = rates or (settings.learning_rate,)
        self.weight_SAD = start_AD.repeat(count * len(rates), 1, 1).requires_grad_()
        self._memory_SAD = torch.zeros_like(self.weight_SAD)
        self._optimizer = _optimizer(settings.optimizer, self.weight_SAD, rates)
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
        count_SA = _counts(action_SG, old_SA.shape[1])
        columns = self._table(count_SA)
        for epoch in range(self._settings.epochs):
            logp_SA = self.log_probs() if epoch else logp_SA
            self._optimizer.zero_grad(set_to_none=False)
            torch.autograd.backward(self._loss(count_SA, columns, logp_SA, old_SA, behaviour_SA))
            self._optimizer.step()
        if self._settings.memory:
            self._remember(count_SA)
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
        count_SA: Tensor,
        columns: dict[str, Tensor],
        logp_SA: Tensor,
        old_SA: Tensor,
        behaviour_SA: Tensor,
    ) -> Tensor:
        """A number whose gradient is that of the sum of the groups' losses.

        Completions of one action are equal, and a loss is a sum over completions: each action is
        one row, and its share of the gradient is taken as often as it was sampled, under the
        counts of its own group's rows with KEEP. Actions that were not sampled are masked.
        """
        size, needs = self._settings.group_size, self._objective.needs
        mask_SA = columns[KEEP] & (count_SA > 0)
        counted_S1 = (count_SA * mask_SA).sum(1, keepdim=True)
        share_SA = count_SA * self._weights[counted_S1] / self._weights[size]

        def rows(value_SA: Tensor) -> Tensor:
            row_BT = value_SA.expand_as(logp_SA).reshape(-1, 1)
            if row_BT.requires_grad:
                row_BT.register_hook(  # type: ignore[no-untyped-call]
                    lambda gradient_BT: gradient_BT * share_SA.reshape(-1, 1)
                )
            return row_BT

        entropy_S1 = -(logp_SA.exp() * logp_SA).sum(1, keepdim=True)  # finite: no logit is -inf
        batch = TokenBatch(
            logp_BT=rows(logp_SA),
            old_logp_BT=rows(old_SA),
            mask_BT=rows(mask_SA),
            advantage_B=columns[ADVANTAGE].flatten(),
            entropy_BT=rows(entropy_S1),
            ref_logp_BT=rows(self._ref_logp_A) if "ref_logp" in needs else None,
            behaviour_logp_BT=rows(behaviour_SA),
            columns={name: columns[name].flatten() for name in self._objective.columns},
        )
        if self._objective.top_k:
            mass_SA = logp_SA.exp() @ self._anchors_AA.T
            ref_mass_A = self._anchors_AA @ self._ref_logp_A.exp()
            batch = replace(
                batch,
                anchor_logp_BT=rows(mass_SA.clamp(min=_TINY).log()),
                anchor_ref_logp_BT=rows(ref_mass_A.clamp(min=_TINY).log()),
            )
        totals = Totals(tokens=size, sequences=size, max_length=1)
        return objectives.loss(self._objective, batch, totals).value

    @torch.no_grad()
    def _remember(self, count_SA: Tensor) -> None:
        """One step of descent on the memory's cross-entropy of the group's actions."""
        logits_SA = self._memory_SAD @ self._trained / self._settings.temperature
        share_SA = count_SA / self._settings.group_size
        off_SA = (share_SA - logits_SA.softmax(-1)) / self._settings.temperature
        self._memory_SAD += self._settings.memory_learning_rate * off_SA[..., None] * self._trained


def _optimizer(
    name: Optimizer, weight_SAD: Tensor, rates: Sequence[float]
) -> torch.optim.Optimizer:
    """One of the weights' rows, split evenly among the rates; it owns their gradient."""
    weight_SAD.grad = torch.zeros_like(weight_SAD)
    parts = weight_SAD.detach().chunk(len(rates))
    for part_SAD, gradient_SAD in zip(parts, weight_SAD.grad.chunk(len(rates)), strict=True):
        part_SAD.grad = gradient_SAD
    groups = [{"params": [p], "lr": rate} for p, rate in zip(parts, rates, strict=True)]
    return OPTIMIZERS[name](groups, rates[0])


def _counts(action_SG: Tensor, actions: int) -> Tensor:
    """How often each group contains each action, int64 [S, A]."""
    count_SA = torch.zeros(len(action_SG), actions, dtype=torch.int64)
    return count_SA.scatter_add_(1, action_SG, torch.ones_like(action_SG))


def _weights(objective: Objective, group_size: int) -> Tensor:
    """A token's share of the loss of a group with 0 to G rows that count, [G + 1]."""
    mask_BT = torch.ones(1, 1, dtype=torch.float64)
    shares = [
        objective.weight(mask_BT, Totals(tokens=counted, sequences=counted, max_length=1))
        for counted in range(group_size + 1)
    ]
    return torch.cat(shares).flatten()


def _anchors(ref_logp_A: Tensor, k: int) -> Tensor:
    """Row a: 1 for the reference policy's k likeliest actions other than a, float64 [A, A]."""
    chosen_A = torch.zeros_like(ref_logp_A)
    chosen_A[ref_logp_A.topk(k).indices] = 1
    return chosen_A.repeat(len(chosen_A), 1).fill_diagonal_(0)
