"""Subtracts the divergence from the reference policy from the reward (arXiv:1909.08593).

Elsewhere: verl (`use_kl_in_reward`), TRL's RLOO, OpenRLHF, NeMo-RL.
Use: To match baselines that put KL into the reward.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from rlvr_cli.algorithms.objective import (
    ADVANTAGE,
    COMPLETION_KL,
    Modifier,
    Objective,
    Step,
    Tokens,
)
from rlvr_cli.algorithms.terms import advantage, shaping, token_charge
from rlvr_cli.errors import UsageError
from rlvr_cli.runtime.later import torch

if TYPE_CHECKING:
    from torch import Tensor

EARLIER = {"per": "completion"}


def build(
    *, beta: float = 0.001, per: Literal["paper", "completion", "token"] = "paper"
) -> Modifier:
    """Takes beta times the sum of log pi_old - log pi_ref off the reward.

        completion: R_i - beta sum_s k_is, before the estimator      (arXiv:1909.08593, eq. 2)
        token: A_i - beta sum_{s >= t} k_is, after it                (arXiv:2501.03262, eq. 8)

    k is log pi_old - log pi_ref of a token, the policy's as the step begins, and stays over its
    updates. A charge of the completion is centred, whitened and clipped with the reward; one of
    tokens is taken off the advantage, before it is whitened over the batch if the objective does
    that. `paper` is token for objectives that whiten (REINFORCE++) and completion for all others.
    Where one ratio spans a completion (`gspo`, `quatro`), its gradient averages what its tokens are
    charged; `gspo-token` keeps it apart. Whether a group's rewards differ is judged before this:
    where they do not, an estimator that divides by the group's deviation (`grpo`, `dapo`) makes
    charges of completions as large as advantages of rewards, whatever beta is.
    """
    if not 0 < beta < math.inf:
        raise ValueError("beta must be above 0, and finite")

    def modify(objective: Objective) -> Objective:
        shaping.require_rewards(objective, "kl-in-reward", "charge it in the loss with +kl")
        if per == "token" or (per == "paper" and objective.whitens):
            return _of_tokens(objective, beta)
        return _of_completions(objective, beta)

    return modify


def _of_completions(objective: Objective, beta: float) -> Objective:
    if objective.least_reward > -math.inf or "parts" in objective.needs:
        raise UsageError(
            "kl-in-reward changes the sum of rewards and can make it negative, but this objective "
            "divides by a prompt's mean reward, or reads each reward separately",
            "leave kl-in-reward out, charge tokens with +kl-in-reward:per=token, or charge it in "
            "the loss with +kl",
        )

    def charge(step: Step) -> Tensor:
        assert step.kl_N is not None, "declared in needs"
        return -beta * step.kl_N

    charged = shaping.shaped(objective, "kl_in_reward", charge)
    return replace(charged, needs=objective.needs | {COMPLETION_KL}, is_alike=False)


def _of_tokens(objective: Objective, beta: float) -> Objective:
    if any(name == ADVANTAGE for name, _ in objective.token_columns):
        raise UsageError(
            "kl-in-reward:per=token gives each token an advantage, this objective has them already",
            "charge completions with +kl-in-reward:per=completion",
        )

    def rule(tokens: Tokens) -> Tensor:
        charged_K = tokens.advantage_K - beta * token_charge.divergence_ahead(tokens)
        if not objective.whitens:
            return charged_K
        return advantage.standardised(charged_K, torch.ones_like(charged_K))

    return replace(
        objective,
        advantage=lambda step: objective.advantage(replace(step, whitened_later=objective.whitens)),
        token_columns=((ADVANTAGE, rule), *objective.token_columns),
        needs=objective.needs | {"stored_old_logp", "stored_ref_logp"},
    )
