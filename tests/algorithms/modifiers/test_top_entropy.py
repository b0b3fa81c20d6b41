"""Gradient at the tokens of highest entropy alone (arXiv:2506.01939, sec. 5)."""

import numpy as np
import pytest
import torch
from torch import tensor

from rlvr_cli.algorithms import objective
from rlvr_cli.algorithms.objective import Tokens
from rlvr_cli.errors import UsageError

DEFAULTS = "top-entropy:share=0.2"


def trained(batch):
    """The tokens that get a gradient from the surrogate."""
    return batch.mask_BT & (batch.token_columns["top_entropy"] > 0)


def estimate(batch):
    return batch.by_group(lambda R: (R - np.mean(R)) / (np.std(R, ddof=1) + 1e-6))


def cost(row, batch, *, share, c=10, high=0.28):
    """DAPO's gain at tokens at or above numpy's quantile of all entropies, over all tokens."""
    if not batch.whole:
        every = np.concatenate([r.old_entropy for r in batch.rows])
        batch.whole["tau"] = np.quantile(every, 1 - share)
    counts = row.old_entropy >= batch.whole["tau"] - 1e-12
    ratio, a = np.exp(row.log_ratio), row.advantage
    free, clipped = ratio * a, np.clip(ratio, 0.8, 1 + high) * a
    gain, slope = np.minimum(free, clipped), np.where(free <= clipped, free, 0)
    if a < 0:
        gain, slope = np.maximum(gain, c * a), np.where(gain >= c * a, slope, 0)
    return -(gain * counts).sum() / batch.tokens, -slope * counts / batch.tokens


@pytest.mark.parametrize("share", [0.2, 0.75])
def test_top_entropy_is_its_equation(matches, share):
    spec = "dapo+top-entropy" + ("" if share == 0.2 else f":share={share}")
    matches(spec, estimate, lambda row, batch: cost(row, batch, share=share))


def chosen(entropy, share):
    count = len(entropy)
    seen = Tokens(
        row_K=torch.arange(count),
        group_K=torch.zeros(count, dtype=torch.int64),
        place_K=torch.zeros(count, dtype=torch.int64),
        advantage_K=torch.ones(count, dtype=torch.float64),
        stored={"entropy": tensor(entropy, dtype=torch.float64)},
    )
    goal = objective.build(f"grpo+top-entropy:share={share}")
    return objective.token_values(goal, seen)["top_entropy"].tolist()


def test_the_upper_fifth_of_ten_tokens_is_two():
    entropy = [0.1, 0.9, 0.2, 0.3, 0.4, 0.5, 0.8, 0.6, 0.7, 0.0]
    assert chosen(entropy, 0.2) == [0, 1, 0, 0, 0, 0, 1, 0, 0, 0]


def test_of_eleven_tokens_it_is_three_as_the_quantile_is_one_of_them():
    assert sum(chosen([n / 10 for n in range(11)], 0.2)) == 3


def test_equal_entropies_are_all_chosen_or_none():
    assert chosen([0.0] * 8 + [1.0, 1.0, 1.0], 0.1) == [0] * 8 + [1] * 3
    assert chosen([0.5] * 4, 0.01) == [1] * 4


def test_all_tokens_are_chosen_at_a_share_of_one():
    assert chosen([0.3, 0.0, 2.0], 1) == [1, 1, 1]


def test_the_share_of_tokens_that_are_trained_is_counted(counted):
    assert counted("grpo+top-entropy", "top_entropy") == (1, 2)


@pytest.mark.parametrize("option", ["share=0", "share=1.1", "share=nan"])
def test_a_share_that_is_none_is_refused(option):
    with pytest.raises(UsageError, match="share"):
        objective.build(f"grpo+top-entropy:{option}")
