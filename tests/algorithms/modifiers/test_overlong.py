"""Overlong reward shaping (DAPO, arXiv:2503.14476, eq. 13)."""

import numpy as np
import pytest

from rlvr_cli.algorithms import objective
from rlvr_cli.errors import UsageError
from rlvr_cli.stages.advantage_checks import check_length

DEFAULTS = "overlong:buffer=4096,longest=0"
SHORT = "overlong:buffer=3"  # the default is too long for the completions of property tests


def refuses(objective):
    """Whether it says of an objective that they do not go together."""
    return objective.least_reward == 0 or bool({"parts", "correct"} & objective.needs)


def penalty(batch, buffer):
    return np.minimum(-(batch.length - (batch.max_length - buffer)) / buffer, 0)


def estimate(batch, *, buffer, base):
    shaping = penalty(batch, buffer)
    return {"advantage": base(batch, batch.reward + shaping), "overlong": shaping}


def group_norm(batch, reward):
    return batch.by_group(lambda R: (R - np.mean(R)) / (np.std(R, ddof=1) + 1e-6), reward)


def leave_one_out(batch, reward):
    return batch.by_group(lambda R: (R - np.mean(R)) * len(R) / (len(R) - 1), reward)


def raw(batch, reward):
    return reward


def cost(row, batch, *, high, c):
    """The clipped token ratio of DAPO, RLOO and REINFORCE, token mean."""
    ratio, a = np.exp(row.log_ratio), row.advantage
    free, clipped = ratio * a, np.clip(ratio, 0.8, 1 + high) * a
    gain, slope = np.minimum(free, clipped), np.where(free <= clipped, free, 0)
    if a < 0:
        gain, slope = np.maximum(gain, c * a), np.where(gain >= c * a, slope, 0)
    return -gain.sum() / batch.tokens, -slope / batch.tokens


@pytest.mark.parametrize(
    "spec, buffer, base, high, c",
    [
        ("dapo+overlong:buffer=16", 16, group_norm, 0.28, 10),
        ("rloo+overlong:buffer=39", 39, leave_one_out, 0.2, np.inf),
        ("reinforce+overlong:buffer=10", 10, raw, 0.2, np.inf),
    ],
)
def test_overlong_is_its_equation(matches, spec, buffer, base, high, c):
    matches(
        spec,
        lambda batch: estimate(batch, buffer=buffer, base=base),
        lambda row, batch: cost(row, batch, high=high, c=c),
    )


def test_the_penalty_grows_from_zero_at_the_buffer_to_one_at_the_longest(advantages):
    lengths = [1, 60, 70, 80, 100]
    columns = advantages(
        "reinforce+overlong:buffer=40", [1, 1, 0, 0, 1], lengths=lengths, max_length=100
    )
    assert columns["overlong"] == pytest.approx([0, 0, -0.25, -0.5, -1], rel=1e-12)
    assert columns["advantage"] == pytest.approx([1, 1, -0.25, -0.5, 0], rel=1e-12)


def test_equal_rewards_of_unequal_lengths_differ_once_they_are_shaped(advantages):
    columns = advantages("dr-grpo+overlong:buffer=10", [1, 1], lengths=[20, 15], max_length=20)
    assert columns["advantage"] == pytest.approx([-0.25, 0.25], rel=1e-12)
    # The filter for mixed groups looks at the reward before shaping.
    assert columns["constant"] == [True, True]


def test_unequal_rewards_that_shaping_makes_equal_give_zero(advantages):
    columns = advantages("grpo+overlong:buffer=10", [1, 0.5], lengths=[15, 1], max_length=20)
    assert columns["advantage"] == [0, 0]


def test_a_buffer_as_long_as_the_longest_completion_is_refused():
    check_length(objective.build("dapo+overlong:buffer=19"), 20)
    with pytest.raises(UsageError, match="buffer of 20 tokens"):
        check_length(objective.build("dapo+overlong:buffer=20"), 20)


@pytest.mark.parametrize("modifiers", ["overlong:buffer=10+iac", "iac+overlong:buffer=10"])
def test_iac_counts_successes_after_shaping_wherever_it_is_written(advantages, modifiers):
    # Shaped rewards 0, 1, 0, mean 1/3: one success of three. Of the plain ones two are.
    columns = advantages(f"dr-grpo+{modifiers}", [1, 1, 0], lengths=[20, 1, 1], max_length=20)
    assert columns["advantage"] == pytest.approx([-1 / 3, 4 / 3, -1 / 3], rel=1e-12)


def test_two_lengths_for_one_longest_completion_are_refused():
    objective.build("dr-grpo:longest=16+overlong:longest=16,buffer=2")
    with pytest.raises(UsageError, match="longest is 8 tokens, the objective's 16") as refused:
        objective.build("dr-grpo:longest=16+overlong:longest=8,buffer=2")
    assert "write overlong:longest=16" in refused.value.hint
