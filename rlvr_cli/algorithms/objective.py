"""An objective is four pure functions; its loss is a weighted sum over tokens.

Shapes: N completions of the rollout batch, B rows of a micro-batch, T completion tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from rlvr_cli import registry
from rlvr_cli.algorithms import group_stats
from rlvr_cli.algorithms.terms import ratio
from rlvr_cli.errors import UsageError
from rlvr_cli.runtime.later import torch
from rlvr_cli.specs import grammar

if TYPE_CHECKING:
    from torch import Tensor

ADVANTAGE = "advantage"
KEEP = "keep"
COMPLETION_KL = "completion_kl"


@dataclass(frozen=True)
class Part:
    """A term of a reward that is a weighted sum."""

    weight: float
    reward_N: Tensor  # float64, without its weight; NaN where the term skips a completion


@dataclass(frozen=True)
class Step:
    """The inputs of an estimator for the N completions of a rollout batch."""

    reward_N: Tensor  # float64; 0 where missing
    present_N: Tensor  # bool; False where the verifier failed
    correct_N: Tensor  # bool; the verifier's verdict
    group_N: Tensor  # int64 in [0, groups)
    length_N: Tensor  # int64, tokens
    max_length: int  # tokens, the longest completion that sampling allows
    parts: tuple[Part, ...] = ()  # of a reward that is a weighted sum, else empty
    truncated_N: Tensor | None = None  # bool; cut at the limit; if an objective needs it
    kl_N: Tensor | None = None  # nats, sum of log pi_old - log pi_ref; if an objective needs it
    whitened_later: bool = False  # a token rule whitens, so the estimator does not

    def only(self, chosen_N: Tensor) -> Step:
        """The rows where `chosen_N` is True."""
        return Step(
            self.reward_N[chosen_N],
            self.present_N[chosen_N],
            self.correct_N[chosen_N],
            self.group_N[chosen_N],
            self.length_N[chosen_N],
            self.max_length,
            tuple(Part(part.weight, part.reward_N[chosen_N]) for part in self.parts),
            None if self.truncated_N is None else self.truncated_N[chosen_N],
            None if self.kl_N is None else self.kl_N[chosen_N],
            self.whitened_later,
        )


@dataclass(frozen=True)
class Tokens:
    """The K trained tokens of a rollout batch, row after row, before its first update."""

    row_K: Tensor  # int64, the row of each token
    group_K: Tensor  # int64 in [0, groups)
    place_K: Tensor  # int64, from 0 in each completion
    advantage_K: Tensor  # float64
    stored: dict[str, Tensor]  # float64 [K], the columns that `needs` names as `stored_NAME`


@dataclass(frozen=True)
class TokenBatch:
    """A micro-batch: completion tokens at the left, padding at the right."""

    logp_BT: Tensor  # with gradient
    old_logp_BT: Tensor
    mask_BT: Tensor  # bool; True on trained tokens
    advantage_B: Tensor
    entropy_BT: Tensor  # with gradient where an objective needs it
    ref_logp_BT: Tensor | None = None
    behaviour_logp_BT: Tensor | None = None
    anchor_logp_BT: Tensor | None = None  # log of the policy's mass on the anchor set, gradient
    anchor_ref_logp_BT: Tensor | None = None  # log of the reference policy's mass on it
    columns: dict[str, Tensor] = field(default_factory=dict)  # per row, [B]
    token_columns: dict[str, Tensor] = field(default_factory=dict)  # [B, T]
    at_N: Tensor | None = None  # the trained tokens in the flattened mask, where they are known

    def trained(self, value_BT: Tensor) -> Tensor:
        """The values of trained tokens, row after row, [N].

        A GPU that has to look for them in the mask keeps the host waiting.
        """
        return value_BT[self.mask_BT] if self.at_N is None else value_BT.flatten()[self.at_N]

    @property
    def advantage_BT(self) -> Tensor:
        """Each token's own advantage where the objective has one, else that of its row, [B, 1]."""
        own = self.token_columns.get(ADVANTAGE)
        return self.advantage_B[:, None] if own is None else own


@dataclass(frozen=True)
class Totals:
    """The counts of an optimizer batch, over all micro-batches and ranks."""

    tokens: int
    sequences: int
    max_length: int  # the longest completion that sampling allows


Cost = Callable[[TokenBatch], "Tensor"]  # [B, T]
Flat = Callable[[TokenBatch, "Tensor"], "Tensor"]  # bool, [B, T]
TokenRule = Callable[[Tokens], "Tensor"]  # [K]
Weight = Callable[["Tensor", Totals], "Tensor"]  # of a mask [B, T] as numbers, [B, T]
Count = Callable[[TokenBatch, "Tensor"], "tuple[Tensor, Tensor]"]  # hits, tokens they are out of
BatchNumber = Callable[[TokenBatch], float]  # over an optimizer batch


@dataclass(frozen=True)
class Objective:
    """The four slots, and what modifiers add to them.

    `columns` names what `advantage` returns besides the advantage (a `keep` of its own leaves rows
    out of the batch and its counts). `needs` names what the loss reads: columns of a logprobs
    shard, `behaviour_logp`, `entropy`, `ref_topk` (the `top_k` likeliest tokens of the reference
    policy), `stored_NAME` (a column of the time before the update), or, for the estimator,
    `correct`, `length`, `truncated`, `completion_kl` or `parts` (those of a reward that is a sum).
    `token_columns` are computed over a rollout batch before its first update, so that what they
    choose depends neither on mini-batches nor on micro-batches; one named `advantage` is that of
    the tokens. `batch_columns` are computed before each update, over a batch with old log-probs.
    `clip` gives the bounds (distances below and above 1, or the column that holds one), with
    `preserves_clipped` tokens beyond them keep a gradient; `flat` says where a rule other than a
    clip leaves a token without one; `ratio` says over what the importance ratio spans, `against`
    whether it is to the policy before the update or to the one that sampled.
    `group_relative` estimators need `least_group` rewards in a group and give 0 where all are equal
    (the one of reinforce-pp takes the batch's mean off that); one that `whitens` standardises over
    the tokens of the batch, unless the step says `whitened_later`; `sign` is that of every
    advantage, 0 where both occur; `positives` is what a modifier has made of the gains of A > 0;
    `least_reward` is the lowest reward that the estimator has a meaning for.
    """

    advantage: Callable[[Step], dict[str, Tensor]]
    log_ratio: Callable[[TokenBatch], Tensor]
    surrogate: Callable[[TokenBatch, Tensor], Tensor]
    weight: Weight
    columns: tuple[str, ...] = ()
    token_columns: tuple[tuple[str, TokenRule], ...] = ()
    needs: frozenset[str] = frozenset()
    top_k: int = 0
    ratio: Literal["token", "sequence", "none"] = "token"
    against: Literal["old", "behaviour"] = "old"
    clip: tuple[float | str, float | str] | None = None
    dual_clip: float | None = None
    flat: Flat | None = None
    preserves_clipped: bool = False
    group_relative: bool = True
    least_group: int = 2
    whitens: bool = False
    is_alike: bool = True  # whether completions of one reward in a group have one advantage
    sign: int = 0
    positives: Literal["own", "log-prob", "none"] = "own"
    least_reward: float = -math.inf
    longer_than: int = 0  # tokens; sampling must allow longer completions
    longest: int = 0  # tokens; the longest completion, in place of what sampling allows
    decoupled: bool = False  # whether samples may be from the policy less a memory (DLC)
    factors: tuple[Cost, ...] = ()  # multiply the gain, held constant
    penalties: tuple[Cost, ...] = ()  # added to a token's cost
    weighted: tuple[tuple[Cost, Weight], ...] = ()  # penalties with a weight of their own
    shares: tuple[tuple[str, Count], ...] = ()  # metrics of the step
    batch_columns: tuple[tuple[str, BatchNumber], ...] = ()  # of the loss, one number an update

    @property
    def loss_columns(self) -> tuple[str, ...]:
        """The columns of a batch: those of the advantages, and one number an update."""
        return (*self.columns, *(name for name, _ in self.batch_columns))

    def with_penalty(self, penalty: Cost, *needs: str, weight: Weight | None = None) -> Objective:
        """The objective with one cost more; without a `weight` it has the objective's own."""
        needed = self.needs | frozenset(needs)
        if weight is None:
            return replace(self, penalties=(*self.penalties, penalty), needs=needed)
        return replace(self, weighted=(*self.weighted, (penalty, weight)), needs=needed)


Modifier = Callable[[Objective], Objective]


def build(spec: str, *, named_by: str = "") -> Objective:
    """The objective of a spec such as `grpo:clip_high=0.28+kl:beta=0.001`.

    `named_by` says what the spec was read from, if that is not the command line.
    """
    base, modifiers = _split(spec)
    objective = _objective(registry.build("objectives", base, named_by=named_by), base)
    for modifier in modifiers:
        modify = registry.build("modifiers", modifier, named_by=named_by)
        objective = _objective(modify(objective) if callable(modify) else None, modifier)
    return objective


def canonical(spec: str, stored: str | None = None, *, named_by: str = "") -> str:
    """The one spelling of a spec: every option of every part written out.

    With `stored`, the spec that a directory was begun with, what `spec` leaves out is as it was.
    """
    base, modifiers = _split(spec)
    before_base, before = (None, []) if stored is None else _split(stored)
    by_name = {grammar.read(modifier).name: modifier for modifier in before}
    parts = [registry.canonical("objectives", base, before_base, named_by=named_by)]
    for modifier in modifiers:
        name = grammar.read(modifier).name
        begun = None if stored is None else by_name.get(name, name)
        parts.append(registry.canonical("modifiers", modifier, begun, named_by=named_by))
    return "+".join(parts)


def versions(spec: str) -> dict[str, int]:
    """The version of what each part of a spec does."""
    base, modifiers = _split(spec)
    parts = [("objectives", base), *(("modifiers", modifier) for modifier in modifiers)]
    return {f"`{grammar.read(s).name}`": registry.version(folder, s) for folder, s in parts}


def origins(spec: str) -> dict[str, str]:
    """The files and packages of those parts of a spec that are not rlvr's own."""
    base, modifiers = _split(spec)
    origin = registry.origins("objectives", base)
    for modifier in modifiers:
        origin |= registry.origins("modifiers", modifier)
    return origin


def _split(spec: str) -> tuple[str, list[str]]:
    if spec.strip().lower().startswith("reinforce++"):  # a name, of which the signs are a part
        return "reinforce++", []
    base, *modifiers = grammar.pieces(spec)
    names = [grammar.read(modifier).name for modifier in modifiers]
    if len(set(names)) < len(names):
        raise UsageError(f"`{spec}` names a modifier twice", "name each modifier once")
    return base, modifiers


def _objective(value: object, spec: str) -> Objective:
    """What code of the user's own returned, if it is an objective."""
    if isinstance(value, Objective):
        return value
    raise UsageError(
        f"`{spec}` does not give an Objective",
        "a builder returns an `rlvr_cli.algorithms.objective.Objective`; that of a modifier "
        "returns a function that takes one and returns one",
    )


def advantages(objective: Objective, step: Step) -> dict[str, Tensor]:
    """The value columns of an advantages shard, and `constant`, as [N] tensors.

    A row without a reward leaves every statistic, gets NaN and is not kept. A group whose rewards
    are all equal gets exactly 0 from most group-relative estimators, and stays.
    """
    present_N = step.present_N
    size_N, mean_N, std_N = group_stats.statistics(step.reward_N, step.group_N, present_N)
    constant_N = group_stats.is_constant(step.reward_N, step.group_N, present_N)
    estimates = objective.advantage(step.only(present_N))
    columns = {
        name: _scatter(estimates[name], present_N) for name in (ADVANTAGE, *objective.columns)
    }
    keep_N = present_N.clone()
    if KEEP in estimates:
        keep_N[present_N] = estimates[KEEP]
    return columns | {
        KEEP: keep_N,
        "group_size": size_N,
        "group_mean": mean_N,
        "group_std": torch.where(constant_N & (size_N > 0), 0.0, std_N),
        "constant": constant_N,
    }


def token_values(objective: Objective, tokens: Tokens) -> dict[str, Tensor]:
    """The token columns of an objective, [K] each; an advantage of tokens is seen by later ones."""
    values: dict[str, Tensor] = {}
    for name, rule in objective.token_columns:
        values[name] = rule(tokens)
        if name == ADVANTAGE:
            tokens = replace(tokens, advantage_K=values[name])
    return values


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

        L = sum_{b,t} weight_bt (-gain_bt * product of factors_bt + sum of penalties_bt)

    A penalty of `weighted` has its own weight in the place of weight_bt. Summed over micro-batches
    and ranks it is the loss of the full batch, however that is split.
    """
    log_ratio_BT = objective.log_ratio(batch)
    gain_BT = _gain(objective, batch, log_ratio_BT)
    cost_BT = -gain_BT
    for penalty in objective.penalties:
        cost_BT = cost_BT + penalty(batch)
    trained_BT = batch.mask_BT.to(cost_BT.dtype)
    value = (objective.weight(trained_BT, totals) * torch.where(batch.mask_BT, cost_BT, 0.0)).sum()
    for penalty, weight in objective.weighted:
        charge_BT = torch.where(batch.mask_BT, penalty(batch), 0.0)
        value = value + (weight(trained_BT, totals) * charge_BT).sum()
    return Loss(value, gain_BT.detach(), log_ratio_BT.detach())


def _gain(objective: Objective, batch: TokenBatch, log_ratio_BT: Tensor) -> Tensor:
    """The surrogate, dual-clipped and times its factors.

    A dual clip bounds the gain of A < 0 by c A from below (arXiv:1912.09729, eq. 5).
    """
    gain_BT = objective.surrogate(batch, log_ratio_BT)
    if objective.dual_clip is not None:
        advantage_BT = batch.advantage_BT
        bounded_BT = torch.maximum(gain_BT, objective.dual_clip * advantage_BT)
        gain_BT = torch.where(advantage_BT < 0, bounded_BT, gain_BT)
    for factor in objective.factors:
        gain_BT = gain_BT * factor(batch)
    return gain_BT


def _bounds(objective: Objective, batch: TokenBatch) -> tuple[Tensor, Tensor]:
    """The bounds of the clip as distances below and above 1, [B, 1] or scalars."""
    assert objective.clip is not None
    low, high = (
        batch.columns[bound][:, None] if isinstance(bound, str) else torch.as_tensor(bound)
        for bound in objective.clip
    )
    return low, high


def token_metrics(objective: Objective, batch: TokenBatch, result: Loss) -> dict[str, Tensor]:
    """Sums (and extremes, by their suffix) over the trained tokens of a micro-batch, in float64."""
    log_ratio_N = batch.trained(result.log_ratio_BT).double()
    ratio_N = ratio.clamp(log_ratio_N).exp()
    gap_BT = batch.logp_BT.detach() - batch.old_logp_BT
    x_N = ratio.clamp(batch.trained(gap_BT).double())
    sums = {
        "loss": result.value.detach(),
        "entropy": batch.trained(batch.entropy_BT.detach()).double().sum(),
        "clipped": batch.trained(_is_clipped(objective, batch, result)).sum(),
        "clamped": (log_ratio_N.abs() > ratio.LIMIT).sum(),
        "kl": (x_N.expm1() - x_N).sum(),
        "ratio": ratio_N.sum(),
        "ratio_min": ratio_N.min() if len(ratio_N) else torch.ones(()),
        "ratio_max": ratio_N.max() if len(ratio_N) else torch.ones(()),
    }
    for name, share in objective.shares:
        hit_BT, among_BT = share(batch, result.log_ratio_BT)
        sums[name] = (hit_BT & among_BT & batch.mask_BT).sum()
        sums[f"{name}_among"] = (among_BT & batch.mask_BT).sum()
    return {name: value.double() for name, value in sums.items()}


def _is_clipped(objective: Objective, batch: TokenBatch, result: Loss) -> Tensor:
    """Whether a token is beyond the objective's clip, on the side that is clipped, [B, T]."""
    if objective.flat is not None:
        return objective.flat(batch, result.log_ratio_BT)
    if objective.clip is None:
        return torch.zeros_like(batch.mask_BT)
    low, high = _bounds(objective, batch)
    log_ratio_BT = result.log_ratio_BT.double()
    return ratio.is_beyond(log_ratio_BT, batch.advantage_BT, low=low, high=high)
