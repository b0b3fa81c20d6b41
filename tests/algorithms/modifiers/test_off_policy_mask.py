"""The off-policy sequence mask (DeepSeek-V3.2, arXiv:2512.02556, eq. 9)."""

import numpy as np
import pytest
import torch

from rlvr_cli.algorithms import objective
from rlvr_cli.errors import UsageError

DEFAULTS = "off-policy-mask:delta=0.1,against=behaviour"


def estimate(batch):
    return batch.by_group(lambda R: (R - np.mean(R)) / (np.std(R, ddof=1) + 1e-6))


def cost(row, batch, *, delta, against="behaviour", beta=0.0):
    """GRPO's gain, unless A < 0 and the policy is delta below what sampled the completion."""
    ratio, a, x = np.exp(row.log_ratio), row.advantage, row.logp - row.ref_logp
    free, clipped = ratio * a, np.clip(ratio, 0.8, 1.2) * a
    before = row.behaviour_logp if against == "behaviour" else row.old_logp
    counts = 0.0 if a < 0 and np.mean(before - row.logp) > delta else 1.0
    gain, slope = np.minimum(free, clipped), np.where(free <= clipped, free, 0)
    share = 1 / (batch.sequences * row.length)
    return share * np.sum(-counts * gain + beta * x**2 / 2), share * (-counts * slope + beta * x)


@pytest.mark.parametrize(
    "spec, options",
    [
        ("off-policy-mask:delta=0.02,against=old", {"delta": 0.02, "against": "old"}),
        ("off-policy-mask+kl:beta=0.3,estimator=k2", {"delta": 0.1, "beta": 0.3}),
    ],
)
def test_the_off_policy_mask_is_its_equation(matches, spec, options):
    matches(f"grpo+{spec}", estimate, lambda row, batch: cost(row, batch, **options))


def test_errors_alone_are_dropped_and_only_where_the_policy_fell(gains):
    # The policy's log-prob less the sampler's: it fell by 0.2, by just under 0.1, or rose by 0.2.
    fell = np.array([0.2, 0.2, 0.1 - 1e-9, -0.2])
    gain = gains("gpg+off-policy-mask", [1.0] * 4, [1.0, -1.0, -1.0, -1.0], behaviour_logp=fell - 1)
    assert gain.slope == pytest.approx([1 / 4, 0, -1 / 4, -1 / 4], rel=1e-12)


def test_a_completion_as_far_as_delta_is_kept(gains):
    gain = gains("gpg+off-policy-mask:delta=0.5", [1.0], [-1.0], logp=[-1.0], behaviour_logp=[-0.5])
    assert gain.slope == pytest.approx([-1])


def test_the_share_of_errors_that_is_dropped_is_counted():
    logp_BT = torch.zeros(3, 2, dtype=torch.float64, requires_grad=True)
    batch = objective.TokenBatch(
        logp_BT=logp_BT,
        old_logp_BT=logp_BT.detach(),
        mask_BT=torch.tensor([[True, True], [True, False], [True, True]]),
        advantage_B=torch.tensor([-1.0, -1.0, 1.0], dtype=torch.float64),
        entropy_BT=torch.zeros(3, 2),
        behaviour_logp_BT=torch.tensor([[1.0, 1.0], [0.0, 9.0], [1.0, 1.0]]).double(),
    )
    algo = objective.build("grpo+off-policy-mask")
    result = objective.loss(algo, batch, objective.Totals(tokens=5, sequences=3, max_length=2))
    metrics = objective.token_metrics(algo, batch, result)
    assert (metrics["off_policy_masked"], metrics["off_policy_masked_among"]) == (2, 3)


def test_of_tokens_with_advantages_of_their_own_those_below_0_are_dropped():
    behind_BT = torch.ones(2, 2, dtype=torch.float64)
    batch = objective.TokenBatch(
        logp_BT=torch.zeros_like(behind_BT),
        old_logp_BT=torch.zeros_like(behind_BT),
        mask_BT=behind_BT.bool(),
        advantage_B=torch.tensor([1.0, -1.0], dtype=torch.float64),
        entropy_BT=torch.zeros_like(behind_BT),
        behaviour_logp_BT=behind_BT,
        token_columns={"advantage": torch.tensor([[0.5, -0.5], [0.0, -0.25]]).double()},
    )
    algo = objective.build("otb+off-policy-mask")
    result = objective.loss(algo, batch, objective.Totals(tokens=4, sequences=2, max_length=2))
    assert result.gain_BT.tolist() == [[0.5, 0], [0, 0]]
    metrics = objective.token_metrics(algo, batch, result)
    assert (metrics["off_policy_masked"], metrics["off_policy_masked_among"]) == (2, 2)


def test_against_old_needs_no_log_probs_of_the_sampler():
    assert not objective.build("grpo+off-policy-mask:against=old").needs
    assert objective.build("grpo+off-policy-mask").needs == {"behaviour_logp"}


@pytest.mark.parametrize("delta", ["0", "-1", "inf"])
def test_a_delta_that_drops_everything_or_nothing_is_refused(delta):
    with pytest.raises(UsageError, match="delta must be above 0 nats"):
        objective.build(f"grpo+off-policy-mask:delta={delta}")
