"""The optimal token baseline from its equations (arXiv:2602.07078)."""

import numpy as np
import pytest
import torch
from torch import tensor

from rlvr_cli.algorithms import objective
from rlvr_cli.algorithms.objective import Tokens

DEFAULTS = "otb:clip_low=0.2,clip_high=0.2,eps=1e-08"


def undrifted(spec, batch, weight_BT):
    """Weight and advantage where the policy has not moved: the tokens' own."""
    return weight_BT, batch.token_columns["advantage"]


def estimate(batch):
    """What the shard has is the reward less the group's mean."""
    return batch.by_group(lambda R: R - np.mean(R))


def baselines(batch, eps):
    """By group and place: the mean of the rewards, weighted by what came before."""
    energy = [
        np.cumsum(np.maximum(1 - 2 * np.exp(row.old_logp) + row.old_collision, 0))
        for row in batch.rows
    ]
    made = {}
    for group in np.unique(batch.group):
        members = np.flatnonzero(batch.group == group)
        for t in range(batch.length[members].max()):
            there = [j for j in members if batch.length[j] > t]
            weights = np.array([energy[j][t] for j in there])
            values = batch.columns["advantage"][there]
            made[group, t] = (weights @ values) / (weights.sum() + eps)
    return made


def cost(row, batch, *, low, high, eps):
    """PPO's clip of each token, its baseline of the group's completions that are so long."""
    if not batch.whole:
        batch.whole.update(baselines(batch, eps))
    group = batch.group[row.i]
    a = row.advantage - np.array([batch.whole[group, t] for t in range(row.length)])
    ratio = np.exp(row.log_ratio)
    free, clipped = ratio * a, np.clip(ratio, 1 - low, 1 + high) * a
    slope = np.where(free <= clipped, free, 0)
    return -np.minimum(free, clipped).sum() / batch.tokens, -slope / batch.tokens


@pytest.mark.parametrize(
    "spec, low, high, eps",
    [("otb", 0.2, 0.2, 1e-8), ("otb:clip_low=0.1,clip_high=0.4,eps=0.5", 0.1, 0.4, 0.5)],
)
def test_otb_is_its_equations(matches, spec, low, high, eps):
    matches(spec, estimate, lambda row, batch: cost(row, batch, low=low, high=high, eps=eps))


def tokens(rewards, probabilities, collisions):
    """Tokens of one group: a probability and a collision for each token of each completion."""
    lengths = tensor([len(row) for row in probabilities])
    row_K = torch.repeat_interleave(torch.arange(len(rewards)), lengths)
    flat = [
        tensor([v for row in rows for v in row]).double() for rows in (probabilities, collisions)
    ]
    return Tokens(
        row_K=row_K,
        group_K=torch.zeros_like(row_K),
        place_K=torch.cat([torch.arange(n) for n in lengths.tolist()]),
        advantage_K=tensor(rewards, dtype=torch.float64)[row_K],
        stored={"old_logp": flat[0].log(), "collision": flat[1]},
    )


def test_an_unlikely_completion_weighs_more_in_the_baseline():
    # Energies 1 - 2/2 + 1/2 = 1/2 and 1 - 2/4 + 1 = 3/2, then 1/2 + 1/2 = 1 for the first alone.
    seen = tokens([1.0, 0.0], [[0.5, 0.5], [0.25]], [[0.5, 0.5], [1.0]])
    made = objective.token_values(objective.build("otb:eps=0"), seen)["advantage"]
    assert made.tolist() == pytest.approx([1 - 0.5 / 2, 0, -0.5 / 2], abs=1e-12)


def test_a_token_that_was_certain_has_no_weight_and_no_error():
    seen = tokens([0.5, -0.5], [[1.0], [1.0]], [[1.0], [1.0 - 1e-7]])
    made = objective.token_values(objective.build("otb"), seen)["advantage"]
    assert made.tolist() == [0.5, -0.5]


def test_tokens_that_are_ranked_by_their_advantage_have_their_own():
    seen = tokens(
        [1.0, 0.0, -1.0], [[0.9, 0.1], [0.5, 0.2], [0.3]], [[0.8, 0.2], [0.4, 0.1], [0.3]]
    )
    values = objective.token_values(objective.build("otb+kl-cov:share=0.2"), seen)
    logp, own = seen.stored["old_logp"], values["advantage"]
    cov = (logp - logp.mean()) * (own - own.mean())
    assert values["cov_penalised"].argmax() == cov.argmax()
    assert values["cov_penalised"].sum() == 1


def test_without_weights_there_is_no_baseline():
    sure = {"old_logp": torch.zeros(2, dtype=torch.float64), "collision": tensor([1.0, 1.0])}
    tokens = Tokens(tensor([0, 1]), tensor([0, 0]), tensor([0, 0]), tensor([0.5, -0.5]), sure)
    for eps in ("0", "1e-08"):
        made = objective.token_values(objective.build(f"otb:eps={eps}"), tokens)
        assert made["advantage"].tolist() == [0.5, -0.5]
