"""Log ratios, by hand."""

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
