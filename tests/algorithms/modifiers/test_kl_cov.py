"""KL-Cov from its equations (arXiv:2505.22617, sec. 4.2)."""

import math

import numpy as np
import pytest
import torch
from torch import tensor

from rlvr_cli.algorithms import objective
from rlvr_cli.algorithms.objective import Tokens
from rlvr_cli.errors import UsageError

DEFAULTS = "kl-cov:share=0.0002,beta=1.0"


def estimate(batch):
    return batch.by_group(lambda R: (R - np.mean(R)) / (np.std(R, ddof=1) + 1e-6))


def penalised(batch, share):
    """The tokens of largest (log pi_old - its mean) (A - its mean), a flag for each token."""
    logp = np.concatenate([row.old_logp for row in batch.rows])
    advantage = np.repeat(batch.columns["advantage"], batch.length)
    cov = (logp - logp.mean()) * (advantage - advantage.mean())
    count = max(1, math.floor(share * len(cov) + 1e-9))
    flags = np.zeros(len(cov))
    flags[np.argsort(-cov, kind="stable")[:count]] = 1
    return np.split(flags, np.cumsum(batch.length)[:-1])


def cost(row, batch, *, share, beta):
    """The plain ratio times A, and beta |log ratio| where a token is penalised, token mean."""
    if not batch.whole:
        batch.whole["flags"] = penalised(batch, share)
    flags = batch.whole["flags"][row.i]
    ratio, a, d = np.exp(row.log_ratio), row.advantage, row.log_ratio
    loss = -ratio * a + beta * flags * np.abs(d)
    return loss.sum() / batch.tokens, (-ratio * a + beta * flags * np.sign(d)) / batch.tokens


@pytest.mark.parametrize("share, beta", [(0.0002, 1.0), (0.3, 0.25)])
def test_kl_cov_is_its_equation(matches, share, beta):
    spec = f"grpo:clip_low=1,clip_high=inf,aggregation=token-mean+kl-cov:share={share},beta={beta}"
    matches(spec, estimate, lambda row, batch: cost(row, batch, share=share, beta=beta))


def chosen(spec, pairs):
    """The choice among so many pairs of a likely right and an unlikely wrong token."""
    every, zero = torch.arange(2 * pairs), torch.zeros(2 * pairs, dtype=torch.int64)
    seen = Tokens(
        row_K=every,
        group_K=zero,
        place_K=zero,
        advantage_K=tensor([1.0, -1.0] * pairs, dtype=torch.float64),
        stored={"old_logp": tensor([-1.0, -3.0] * pairs, dtype=torch.float64)},
    )
    return objective.token_values(objective.build(spec), seen)["cov_penalised"]


def test_of_equal_covariances_the_first_tokens_are_chosen():
    assert chosen("grpo+kl-cov:share=0.29", 5).tolist() == [1, 1, *[0] * 8]


def test_of_8192_tokens_one_is_chosen_and_not_one_of_each_micro_batch():
    """As was reported of another trainer, which chose eight in eight micro-batches."""
    assert chosen("grpo+kl-cov:share=0.0002", 4096).sum() == 1


def test_the_first_update_has_no_penalty_and_a_later_one_pulls_back(gains):
    chosen = {"cov_penalised": [1, 0, 1, 1]}
    gain = gains("grpo+kl-cov:beta=0.5", [1.0, 1.1, 1.1, 0.9], [0.0] * 4, own=chosen)
    assert gain.slope == pytest.approx([0, 0, -0.125, 0.125], rel=1e-12)
    expected = -0.5 * (math.log(1.1) - math.log(0.9)) / 4
    assert gain.value == pytest.approx(expected, rel=1e-12)


def test_the_share_of_tokens_that_are_penalised_is_counted(counted):
    assert counted("grpo+kl-cov", "cov_penalised") == (1, 2)


@pytest.mark.parametrize("option", ["share=0", "share=1.1", "beta=-1", "beta=inf"])
def test_a_share_or_a_beta_that_is_none_is_refused(option):
    with pytest.raises(UsageError, match=r"share|beta"):
        objective.build(f"grpo+kl-cov:{option}")
    for edge in ("share=1", "beta=0"):
        objective.build(f"grpo+kl-cov:{edge}")
