"""DRO from its equations (arXiv:2405.19107; Kimi k1.5, arXiv:2501.12599, eq. 3; verl, Tinker)."""

import numpy as np
import pytest

from rlvr_cli.algorithms import objective
from rlvr_cli.errors import UsageError

DEFAULTS = "dro:beta=0.1,ratio=token"


def estimate(batch):
    return batch.by_group(lambda R: R - np.mean(R))


def cost_of_tokens(row, batch, *, beta):
    """A log pi - beta / 2 d^2 of each token, the mean over all tokens."""
    d, a = row.log_ratio, row.advantage
    gain = a * row.logp - beta / 2 * d**2
    return -gain / batch.tokens, -(a - beta * d) / batch.tokens


def cost_of_completions(row, batch, *, beta):
    """A log pi - beta / 2 (log pi / pi_old)^2 of the completion, over the tokens of the batch."""
    d, a = np.sum(row.log_ratio), row.advantage
    terms = np.append(a * row.logp, -beta / 2 * d**2)
    return -terms / batch.tokens, np.full(row.length, -(a - beta * d) / batch.tokens)


@pytest.mark.parametrize(
    "spec, cost, beta",
    [
        ("dro", cost_of_tokens, 0.1),
        ("dro:beta=2", cost_of_tokens, 2),
        ("dro:ratio=sequence", cost_of_completions, 0.1),
        ("dro:beta=0.01,ratio=sequence", cost_of_completions, 0.01),
    ],
)
def test_dro_is_its_equations(matches, spec, cost, beta):
    matches(spec, estimate, lambda row, batch: cost(row, batch, beta=beta))


def slopes(gains, spec, nats, advantage):
    made = gains(spec, np.exp([nats]), [advantage]).slope[0]
    return made * len(nats)


def test_a_token_comes_to_rest_where_its_log_ratio_is_the_advantage_over_beta(gains):
    made = slopes(gains, "dro:beta=0.5", [0.0, 1.0, 2.0, 3.0, -1.0], 1.0)
    assert made == pytest.approx([1, 0.5, 0, -0.5, 1.5], rel=1e-12, abs=1e-12)


def test_a_completion_comes_to_rest_as_a_whole(gains):
    for nats in ([1.5, 0.5], [5.0, -3.0]):
        made = slopes(gains, "dro:beta=0.5,ratio=sequence", nats, 1.0)
        assert made == pytest.approx([0, 0], abs=1e-12)
    made = slopes(gains, "dro:beta=0.5,ratio=sequence", [2.0, 2.0], 1.0)
    assert made == pytest.approx([-1, -1], rel=1e-12)


@pytest.mark.parametrize("ratio", ["token", "sequence"])
def test_equal_rewards_pull_a_drifted_policy_back(gains, ratio):
    made = slopes(gains, f"dro:beta=1,ratio={ratio}", [1.0, 1.0], 0.0)
    assert (made < 0).all()


def test_a_policy_far_away_is_pulled_back_in_full(gains):
    made = gains("dro:beta=1", [np.exp(30.0)], [0.5]).slope
    assert made == pytest.approx([-29.5], rel=1e-12)


@pytest.mark.parametrize("beta", ["0", "-1", "inf"])
def test_a_pull_that_is_none_is_refused(beta):
    with pytest.raises(UsageError, match="beta must be above 0, and finite"):
        objective.build(f"dro:beta={beta}")


def test_over_what_its_ratio_spans():
    assert objective.build("dro").ratio == "token"
    assert objective.build("dro:ratio=sequence").ratio == "sequence"
