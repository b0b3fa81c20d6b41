"""Log ratios, by hand."""

import pytest
import torch
from torch import tensor

from rlvr_cli.algorithms.terms import ratio

LOGP = tensor([[-1.0, -2.0, -3.0], [-1.0, -5.0, -9.0], [-7.0, -7.0, -7.0]])
OLD = tensor([[-1.5, -1.0, -2.0], [-4.0, -1.0, -2.0], [-1.0, -1.0, -1.0]])
MASK = tensor([[True, True, True], [True, True, False], [False, False, False]])


def test_a_token_ratio_is_the_difference_of_the_log_probs_and_zero_where_masked():
    expected = [[0.5, -1, -1], [3, -4, 0], [0, 0, 0]]
    assert ratio.token(LOGP, OLD, MASK).tolist() == expected


def test_a_sequence_ratio_is_the_sum_over_trained_tokens_at_each_token():
    expected = [[-1.5] * 3, [-1] * 3, [0] * 3]
    assert ratio.sequence(LOGP, OLD, MASK).tolist() == expected


def test_a_length_normalized_ratio_is_the_mean_over_trained_tokens_at_each_token():
    expected = [[-0.5] * 3, [-0.5] * 3, [0] * 3]
    assert ratio.length_normalized(LOGP, OLD, MASK).tolist() == expected


def test_a_token_of_a_sequence_has_the_mean_as_value_and_a_gradient_of_its_own():
    logp = LOGP.clone().requires_grad_()
    made = ratio.token_of_sequence(logp, OLD, MASK)
    expected = ratio.length_normalized(LOGP, OLD, MASK)
    assert made[MASK].tolist() == expected[MASK].tolist()
    (2 * made[0, 1]).backward()
    assert logp.grad.tolist() == [[0, 2, 0], [0] * 3, [0] * 3]


def test_masked_tokens_get_no_gradient_from_any_ratio():
    for log_ratio in (
        ratio.token, ratio.sequence, ratio.length_normalized, ratio.token_of_sequence,
    ):  # fmt: skip
        logp = LOGP.clone().requires_grad_()
        log_ratio(logp, OLD, MASK).sum().backward()
        assert bool((logp.grad[~MASK] == 0).all()), log_ratio
        assert bool((logp.grad[MASK] > 0).all()), log_ratio


def test_a_log_ratio_is_clamped_at_twenty_nats_and_flat_outside():
    log_ratio = tensor([-200.0, -20.5, -19.5, 0.0, 19.5, 20.5, 200.0], requires_grad=True)
    clamped = ratio.clamp(log_ratio)
    clamped.sum().backward()
    assert clamped.tolist() == [-20, -20, -19.5, 0, 19.5, 20, 20]
    assert log_ratio.grad.tolist() == [0, 0, 1, 1, 1, 0, 0]


@pytest.mark.parametrize(
    "value, advantage, expected",
    [
        pytest.param(1.25, 1.0, False, id="a success at the upper bound"),
        pytest.param(1.26, 1.0, True, id="a success above it"),
        pytest.param(0.1, 1.0, False, id="a success far below"),
        pytest.param(0.5, -1.0, False, id="an error at the lower bound"),
        pytest.param(0.49, -1.0, True, id="an error below it"),
        pytest.param(9.0, -1.0, False, id="an error far above"),
        pytest.param(9.0, 0.0, False, id="no advantage"),
        pytest.param(0.1, 0.0, False, id="no advantage, fallen"),
    ],
)
def test_a_ratio_is_beyond_the_clip_on_the_side_where_the_advantage_pushes(
    value, advantage, expected
):
    log_ratio = tensor([[value]]).double().log()
    advantage = tensor([[advantage]]).double()
    assert ratio.is_beyond(log_ratio, advantage, low=0.5, high=0.25).item() is expected


def test_each_row_may_have_bounds_of_its_own():
    log_ratio, one = tensor([[1.5], [1.5]]).log(), tensor([[1.0], [1.0]])
    beyond = ratio.is_beyond(log_ratio, one, low=0.5, high=tensor([[0.25], [0.75]]))
    assert beyond.tolist() == [[True], [False]]


@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 9, 33])
def test_the_future_of_a_long_completion_is_the_plain_sum(length):
    d_BT = torch.arange(1.0, length + 1, dtype=torch.float64)[None]
    made = ratio.future(d_BT, discount=0.75)[0].tolist()
    plain = [sum(0.75 ** (k - t) * (k + 1) for k in range(t, length)) for t in range(length)]
    assert made == pytest.approx(plain, rel=1e-12)
