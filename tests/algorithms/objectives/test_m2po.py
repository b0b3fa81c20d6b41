"""M2PO from its equation and its algorithm (arXiv:2510.01161, eq. 5 and alg. 1)."""

import numpy as np
import pytest
import torch
from torch import tensor

from rlvr_cli.algorithms import objective
from rlvr_cli.algorithms.objective import Tokens
from rlvr_cli.errors import UsageError

DEFAULTS = "m2po:threshold=0.04,eps=1e-06,ddof=1"


def trained(batch):
    """The tokens that get a gradient from the surrogate."""
    return batch.token_columns["m2_masked"] == 0


def undrifted(spec, batch, weight_BT):
    """Weight and advantage of each token's gradient where the policy has not moved."""
    return weight_BT * trained(batch), batch.advantage_B[:, None]


def estimate(batch, *, eps, ddof):
    return batch.by_group(lambda R: (R - np.mean(R)) / (np.std(R, ddof=ddof) + eps))


def masks(batch, threshold):
    """Algorithm 1, over the tokens of all rows: the largest goes until the mean is low enough."""
    log_r = [row.old_logp - row.behaviour_logp for row in batch.rows]
    sign = np.concatenate(
        [np.sign(a) * d for a, d in zip(batch.columns["advantage"], log_r, strict=True)]
    )
    moment = np.concatenate(log_r) ** 2
    left, kept = [*np.nonzero(sign > 0)[0]], np.ones(len(moment))
    while left and np.mean(moment[left]) > threshold:
        largest = max(left, key=lambda i: moment[i])
        kept[largest] = 0
        left.remove(largest)
    return np.split(kept, np.cumsum(batch.length)[:-1])


def cost(row, batch, *, threshold):
    if not batch.whole:
        batch.whole["kept"] = masks(batch, threshold)
    ratio = np.exp(np.clip(row.logp - row.behaviour_logp, -20, 20))
    gain = batch.whole["kept"][row.i] * ratio * row.advantage / batch.tokens
    return -gain, -gain


@pytest.mark.parametrize(
    "spec, threshold, eps, ddof",
    [
        ("m2po", 0.04, 1e-6, 1),
        ("m2po:threshold=0.5,eps=0.1,ddof=0", 0.5, 0.1, 0),
        ("m2po:threshold=0", 0, 1e-6, 1),
    ],
)
def test_m2po_is_its_equation(matches, spec, threshold, eps, ddof):
    matches(
        spec,
        lambda batch: estimate(batch, eps=eps, ddof=ddof),
        lambda row, batch: cost(row, batch, threshold=threshold),
    )


def dropped(moved, advantage, threshold=0.04):
    """The tokens that are dropped where the policy moved by so many nats from what sampled."""
    count = len(moved)
    seen = Tokens(
        row_K=torch.arange(count),
        group_K=torch.zeros(count, dtype=torch.int64),
        place_K=torch.zeros(count, dtype=torch.int64),
        advantage_K=tensor(advantage, dtype=torch.float64),
        stored={
            "old_logp": tensor(moved, dtype=torch.float64) - 2,
            "behaviour_logp": torch.full((count,), -2.0, dtype=torch.float64),
        },
    )
    values = objective.token_values(objective.build(f"m2po:threshold={threshold}"), seen)
    return values["m2_masked"].tolist()


def test_only_a_token_that_moved_where_its_advantage_pushes_is_dropped():
    moved = [1.0, -1.0, 1.0, -1.0, 1.0]
    assert dropped(moved, [1.0, 1.0, -1.0, -1.0, 0.0]) == [1, 0, 0, 1, 0]


def test_the_largest_go_until_the_mean_of_the_rest_is_the_threshold():
    moved = [0.1, 0.3, 0.2, 0.0, 0.5]  # of which the last is at no positive advantage
    advantage = [1.0, 1.0, 1.0, 1.0, -1.0]
    assert dropped(moved, advantage, threshold=0.14 / 3) == [0, 0, 0, 0, 0]
    assert dropped(moved, advantage, threshold=0.14 / 3 - 1e-6) == [0, 1, 0, 0, 0]
    assert dropped(moved, advantage, threshold=0.02) == [0, 1, 1, 0, 0]
    assert dropped(moved, advantage, threshold=0) == [1, 1, 1, 0, 0]


def test_equal_tokens_whose_mean_is_the_threshold_are_kept():
    assert dropped([0.2] * 7, [1.0] * 7, threshold=0.04) == [0] * 7


def test_of_no_tokens_none_is_dropped():
    assert dropped([], []) == []


def test_a_dropped_token_gives_no_gradient_and_counts(gains):
    columns = {"own": {"m2_masked": [1.0, 0.0]}, "behaviour_logp": [-1.5, -1.5]}
    gain = gains("m2po", [1.0, 1.0], [1.0, 1.0], logp=[-1.0, -1.0], **columns)
    assert gain.slope == pytest.approx([0, np.exp(0.5) / 2], rel=1e-12)


def test_the_share_of_dropped_tokens_is_the_clip_fraction():
    batch = objective.TokenBatch(
        **{f"{name}_BT": torch.zeros(1, 3) for name in ("old_logp", "behaviour_logp", "entropy")},
        logp_BT=torch.zeros(1, 3, requires_grad=True),
        mask_BT=tensor([[True, True, False]]),
        advantage_B=torch.ones(1),
        token_columns={"m2_masked": tensor([[1.0, 0.0, 1.0]])},
    )
    goal = objective.build("m2po")
    result = objective.loss(goal, batch, objective.Totals(tokens=2, sequences=1, max_length=3))
    assert objective.token_metrics(goal, batch, result)["clipped"] == 1


@pytest.mark.parametrize("option", ["-0.1", "inf"])
def test_a_threshold_that_is_none_is_refused(option):
    with pytest.raises(UsageError, match="threshold must be at 0 or above"):
        objective.build(f"m2po:threshold={option}")


def test_a_second_correction_for_the_sampler_is_refused():
    with pytest.raises(UsageError, match="is to that policy already"):
        objective.build("m2po+is-correction")
