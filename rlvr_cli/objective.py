"""An objective is four pure functions; its loss is a weighted sum over tokens.

Shapes: N completions of the rollout batch, B rows of a micro-batch, T completion tokens.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from rlvr_cli import groups, lookup
from rlvr_cli.errors import UsageError

ADVANTAGE = "advantage"
LIMIT = 20.0  # nats; log ratios are clamped here before they are exponentiated


@dataclass(frozen=True)
class Step:
    """What an estimator may know of the N completions of a rollout batch."""

    reward_N: Tensor  # float64; 0 where missing
    present_N: Tensor  # bool; False where the verifier failed
    group_N: Tensor  # int64 in [0, groups)
    length_N: Tensor  # int64, tokens


@dataclass(frozen=True)
class TokenBatch:
    """A micro-batch: completion tokens at the left, padding at the right."""

    logp_BT: Tensor  # with gradient
    old_logp_BT: Tensor
    mask_BT: Tensor  # bool; True on trained tokens
    advantage_B: Tensor
    entropy_BT: Tensor  # with gradient where an objective needs it
    ref_logp_BT: Tensor | None = None
    columns: dict[str, Tensor] = field(default_factory=dict)  # per row, [B]


@dataclass(frozen=True)
class Totals:
    """The counts of the whole optimizer batch, over all micro-batches and ranks."""

    tokens: int
    sequences: int
    max_length: int  # the longest completion that sampling allows


Penalty = Callable[[TokenBatch], Tensor]


@dataclass(frozen=True)
class Objective:
    """The four slots, and the costs that modifiers add to a token.

    `columns` names what `advantage` returns beside the advantage; `needs` names the columns of a
    logprobs shard (or `entropy`, made by the forward pass) that the loss reads. `clip` gives the
    bounds (distances below and above 1) for the clip fraction. `group_relative` estimators need
    two rewards in a group and give 0 where all are equal.
    """

    advantage: Callable[[Step], dict[str, Tensor]]
    log_ratio: Callable[[TokenBatch], Tensor]
    surrogate: Callable[[TokenBatch, Tensor], Tensor]
    weight: Callable[[Tensor, Totals], Tensor]
    columns: tuple[str, ...] = ()
    needs: frozenset[str] = frozenset()
    penalties: tuple[Penalty, ...] = ()
    clip: tuple[float, float] | None = None
    group_relative: bool = True

    def with_penalty(self, penalty: Penalty, *needs: str) -> "Objective":
        return replace(
            self, penalties=(*self.penalties, penalty), needs=self.needs | frozenset(needs)
        )


Modifier = Callable[[Objective], Objective]


def build(spec: str) -> Objective:
    """The objective of a spec such as `grpo:clip_high=0.28+kl:beta=0.001`."""
    base, modifiers = _split(spec)
    objective = lookup.build("objectives", base)
    for modifier in modifiers:
        objective = lookup.build("modifiers", modifier)(objective)
    return objective


def canonical(spec: str) -> str:
    """The one spelling of a spec: every option of every part written out."""
    base, modifiers = _split(spec)
    parts = [lookup.canonical("objectives", base)]
    return "+".join(parts + [lookup.canonical("modifiers", m) for m in modifiers])


def _split(spec: str) -> tuple[str, list[str]]:
    base, *modifiers = spec.split("+")
    names = [modifier.strip().partition(":")[0] for modifier in modifiers]
    if len(set(names)) < len(names):
        raise UsageError(f"`{spec}` names a modifier twice", "name each modifier once")
    return base, modifiers


def advantages(objective: Objective, step: Step) -> dict[str, Tensor]:
    """The value columns of an advantages shard, and `constant`, as [N] tensors.

    A row without a reward leaves every statistic, gets NaN and is not kept. A group whose rewards
    are all equal gets exactly 0 from a group-relative estimator, and stays.
    """
    present_N = step.present_N
    size_N, mean_N, std_N = groups.statistics(step.reward_N, step.group_N, present_N)
    constant_N = groups.is_constant(step.reward_N, step.group_N, present_N)
    made = objective.advantage(Step(*(value_N[present_N] for value_N in vars(step).values())))
    columns = {name: _scatter(made[name], present_N) for name in (ADVANTAGE, *objective.columns)}
    if objective.group_relative:
        columns[ADVANTAGE] = torch.where(constant_N & present_N, 0.0, columns[ADVANTAGE])
    return columns | {
        "keep": present_N,
        "group_size": size_N,
        "group_mean": mean_N,
        "group_std": torch.where(constant_N & (size_N > 0), 0.0, std_N),
        "constant": constant_N,
    }


def _scatter(value: Tensor, present_N: Tensor) -> Tensor:
    out_N = torch.full(present_N.shape, torch.nan, dtype=torch.float64)
    out_N[present_N] = value.to(torch.float64)
    return out_N


@dataclass(frozen=True)
class Loss:
    """The loss of a micro-batch, and what to know of its tokens."""

    value: Tensor
    gain_BT: Tensor
    log_ratio_BT: Tensor


def loss(objective: Objective, batch: TokenBatch, totals: Totals) -> Loss:
    """The share of the optimizer batch's loss that these rows carry, to be minimised.

        L = sum_{b,t} weight_bt (-gain_bt + sum of penalties_bt)

    Summed over micro-batches and ranks it is the loss of the whole batch, however that is split.
    """
    log_ratio_BT = objective.log_ratio(batch)
    gain_BT = objective.surrogate(batch, log_ratio_BT)
    cost_BT = -gain_BT
    for penalty in objective.penalties:
        cost_BT = cost_BT + penalty(batch)
    weight_BT = objective.weight(batch.mask_BT.to(cost_BT.dtype), totals)
    value = (weight_BT * torch.where(batch.mask_BT, cost_BT, 0.0)).sum()
    return Loss(value, gain_BT.detach(), log_ratio_BT.detach())


def token_metrics(objective: Objective, batch: TokenBatch, result: Loss) -> dict[str, float]:
    """Sums (and extremes, by their suffix) over the trained tokens of a micro-batch."""
    mask_BT = batch.mask_BT
    log_ratio_N = result.log_ratio_BT[mask_BT].double()
    ratio_N = log_ratio_N.clamp(-LIMIT, LIMIT).exp()
    x_N = (batch.logp_BT.detach() - batch.old_logp_BT)[mask_BT].double().clamp(-LIMIT, LIMIT)
    clipped = 0.0
    if objective.clip:
        low, high = objective.clip
        advantage_N = batch.advantage_B[:, None].expand_as(mask_BT)[mask_BT]
        above_N = (advantage_N > 0) & (ratio_N > 1 + high)
        below_N = (advantage_N < 0) & (ratio_N < 1 - low)
        clipped = float((above_N | below_N).sum())
    return {
        "loss": float(result.value.detach()),
        "entropy": float(batch.entropy_BT.detach()[mask_BT].double().sum()),
        "clipped": clipped,
        "clamped": float((log_ratio_N.abs() > LIMIT).sum()),
        "kl": float((x_N.expm1() - x_N).sum()),
        "ratio": float(ratio_N.sum()),
        "ratio_min": float(ratio_N.min()) if len(ratio_N) else 1.0,
        "ratio_max": float(ratio_N.max()) if len(ratio_N) else 1.0,
    }
