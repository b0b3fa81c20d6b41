"""MaxRL from its equations (arXiv:2602.02710)."""

import itertools

import numpy as np
import pytest

DEFAULTS = "maxrl:clip_low=0.2,clip_high=0.2,eps=1e-06,aggregation=token-mean"


def estimate(batch, *, eps):
    return batch.by_group(lambda R: (R - np.mean(R)) / (np.mean(R) + eps))


def cost(row, batch, *, low, high, weight):
    ratio, a = np.exp(row.log_ratio), row.advantage
    free, clipped = ratio * a, np.clip(ratio, 1 - low, 1 + high) * a
    w = weight(row, batch)
    return -w * np.minimum(free, clipped).sum(), -w * np.where(free <= clipped, free, 0)


def token_mean(row, batch):
    return 1 / batch.tokens


def sequence_sum(row, batch):
    return 1 / batch.sequences


@pytest.mark.parametrize(
    "spec, low, high, eps, weight",
    [
        ("maxrl", 0.2, 0.2, 1e-6, token_mean),
        ("maxrl:clip_low=0.1,clip_high=0.5,eps=0.1", 0.1, 0.5, 0.1, token_mean),
        ("maxrl:aggregation=seq-mean-token-sum", 0.2, 0.2, 1e-6, sequence_sum),
    ],
)
def test_maxrl_is_its_equations(matches, spec, low, high, eps, weight):
    matches(
        spec,
        lambda batch: estimate(batch, eps=eps),
        lambda row, batch: cost(row, batch, low=low, high=high, weight=weight),
    )


def test_a_success_counts_the_more_the_rarer_it_is(advantages):
    for right, up in [(1, 7), (2, 3), (4, 1), (7, 1 / 7)]:
        made = advantages("maxrl:eps=0", [1] * right + [0] * (8 - right))["advantage"]
        assert made == pytest.approx([up] * right + [-1] * (8 - right), rel=1e-12)


def test_a_group_of_errors_has_no_advantage_even_without_eps(advantages):
    assert advantages("maxrl:eps=0", [0, 0, 1, 1], 2, 2)["advantage"] == [0] * 4


def test_rewards_of_another_scale_have_the_same_advantages(advantages):
    one, ten = (advantages("maxrl:eps=0", [s, 0, 0.3 * s])["advantage"] for s in (1, 10))
    assert ten == pytest.approx(one, rel=1e-12)


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
def test_its_expectation_is_the_gradient_of_log_pass_at_1_less_terms_from_g_on(advantages, size, p):
    """log p = -sum_k (1 - p)^k / k, by the logit of success, over all groups of `size`."""
    mean = 0.0
    for rewards in itertools.product([1, 0], repeat=size):
        chance = np.prod([p if r else 1 - p for r in rewards])
        made = advantages("maxrl:eps=0", rewards)["advantage"]
        mean += chance * np.mean(
            [a * (1 - p if r else -p) for a, r in zip(made, rewards, strict=True)]
        )
    terms = [(1 - p) ** (k - 1) for k in range(1, size)]  # of the gradient by p
    assert mean == pytest.approx(p * (1 - p) * sum(terms), rel=1e-9)
