"""The mass of an anchor set and the likeliest tokens, against plain softmaxes."""

import math

import pytest
import torch
from torch import tensor

from rlvr_cli.kernels import sizes
from rlvr_cli.kernels.reference import token_stats, top_k


def problem(rows, hidden, vocabulary, *, dtype=torch.float64):
    rng = torch.Generator().manual_seed(rows)
    hidden_NH = torch.randn(rows, hidden, generator=rng, dtype=torch.float64)
    head_VH = torch.randn(vocabulary, hidden, generator=rng, dtype=torch.float64) / hidden**0.5
    bias_V = torch.randn(vocabulary, generator=rng, dtype=torch.float64)
    target_N = torch.randint(vocabulary, (rows,), generator=rng)
    return hidden_NH.to(dtype), head_VH.to(dtype), bias_V.to(dtype), target_N


def ids_of(rows, vocabulary, k):
    """Ids that differ within a row; every third place of the second half is empty."""
    rng = torch.Generator().manual_seed(k)
    ids_NK = torch.stack([torch.randperm(vocabulary, generator=rng)[:k] for _ in range(rows)])
    ids_NK[rows // 2 :, ::3] = -1
    return ids_NK


def outside(ids_NK, vocabulary):
    """For each row the first token that is not among its ids, to be its target."""
    return tensor([min(set(range(vocabulary)) - set(ids_K)) for ids_K in ids_NK.tolist()])


def anchors(values, ids_NK, **options):
    hidden, head, bias, _ = values
    target = outside(ids_NK, len(head)).long()
    return token_stats(hidden, head, target, bias_V=bias, topk_NK=ids_NK, **options).anchor_logp_N


def probabilities(values, temperature):
    hidden, head, bias, _ = values
    return torch.softmax((hidden @ head.T + bias) / temperature, -1)


def masses(prob_NV, ids_NK):
    """The sums of the probabilities at the ids, place by place."""
    return tensor(
        [
            sum(float(prob_V[i]) for i in ids_K if i >= 0)
            for prob_V, ids_K in zip(prob_NV, ids_NK.tolist(), strict=True)
        ],
        dtype=torch.float64,
    )


def by_logits(values, ids_NK, **options):
    """The gradient of the anchors' sum by the logits, through a bias for each row."""
    hidden, head, bias, _ = values
    target = outside(ids_NK, len(head))
    logits_NV = (hidden @ head.T + bias).detach()
    rows = len(logits_NV)
    eye = torch.eye(rows, dtype=logits_NV.dtype)
    leaf_VN = logits_NV.T.contiguous().requires_grad_()
    stats = token_stats(eye, leaf_VN, target, topk_NK=ids_NK, **options)
    return torch.autograd.grad(stats.anchor_logp_N.exp().sum(), leaf_VN)[0].T


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
@pytest.mark.parametrize(("rows", "hidden", "vocabulary", "k"), [(1, 8, 11, 3), (7, 16, 63, 8)])
def test_the_anchor_is_the_log_of_the_softmax_mass_at_the_ids(
    rows, hidden, vocabulary, k, temperature
):
    values, ids = problem(rows, hidden, vocabulary), ids_of(rows, vocabulary, k)
    result = anchors(values, ids, temperature=temperature)
    truth = masses(probabilities(values, temperature), ids)
    torch.testing.assert_close(result.exp(), truth, rtol=1e-10, atol=1e-14)


def test_a_hand_worked_anchor():
    # Probabilities 1/8, 1/4, 5/8; token 0 and 2 are the anchors of the first row, 1 of the second.
    head = tensor([[math.log(1)], [math.log(2)], [math.log(5)]], dtype=torch.float64)
    ones = torch.ones(3, 1, dtype=torch.float64)
    ids = tensor([[0, 2], [-1, 1], [-1, -1]])
    stats = token_stats(ones, head, tensor([1, 0, 0]), topk_NK=ids).anchor_logp_N
    assert stats.tolist() == pytest.approx([math.log(3 / 4), math.log(1 / 4), -math.inf])
    gradient = by_logits((ones, head, torch.zeros(3), tensor([1, 0, 0])), ids)
    # pi_k (1 - P_S) in S, -pi_j P_S outside, and none where S is empty.
    expected = [[1 / 32, -3 / 16, 5 / 32], [-1 / 32, 3 / 16, -5 / 32], [0, 0, 0]]
    torch.testing.assert_close(gradient, tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
def test_the_gradient_pulls_up_inside_and_down_outside(temperature):
    values, ids = problem(7, 16, 33), ids_of(7, 33, 5)
    prob_NV = probabilities(values, temperature)
    inside_NV = torch.zeros_like(prob_NV, dtype=torch.bool)
    for inside_V, ids_K in zip(inside_NV, ids.tolist(), strict=True):
        inside_V[[i for i in ids_K if i >= 0]] = True
    mass_N1 = masses(prob_NV, ids)[:, None]
    expected = torch.where(inside_NV, prob_NV * (1 - mass_N1), -prob_NV * mass_N1) / temperature
    torch.testing.assert_close(
        by_logits(values, ids, temperature=temperature), expected, rtol=1e-9, atol=1e-14
    )


def test_the_gradient_is_that_of_finite_differences():
    hidden, head, bias, target = problem(3, 4, 6)
    ids = tensor([[0, 2, 5], [1, -1, -1], [3, 4, -1]])
    leaves = [value.requires_grad_() for value in (hidden, head, bias)]
    assert torch.autograd.gradcheck(
        lambda hidden, head, bias: anchors((hidden, head, bias, target), ids, temperature=0.7),
        leaves,
    )


def test_all_tokens_have_all_the_mass_and_no_gradient():
    values = problem(4, 8, 13)
    values[2][12] = -1e4  # the target, which no anchor set holds
    ids = torch.arange(12).expand(4, 12)
    torch.testing.assert_close(anchors(values, ids), torch.zeros(4).double(), rtol=0, atol=1e-14)
    assert float(by_logits(values, ids).abs().max()) < 1e-15


@pytest.mark.parametrize("of", [lambda a: a, lambda a: a.exp()])
@pytest.mark.parametrize("impossible", [False, True])
def test_an_empty_anchor_set_has_mass_0_and_no_nan_in_any_gradient(impossible, of):
    hidden, head, bias, target = problem(3, 4, 9)
    ids = tensor([[-1, -1], [4, 7], [2, 0]])
    if impossible:
        ids[0] = tensor([1, 5])
        bias[[1, 5]] = -torch.inf
    leaves = [value.requires_grad_() for value in (hidden, head, bias)]
    result = anchors((*leaves, target), ids)
    assert result.isneginf().tolist() == [True, False, False]
    by = torch.autograd.grad(of(result).sum(), leaves)
    assert all(bool(value.isfinite().all()) for value in by)
    assert by[0][0].tolist() == [0] * 4
    assert bool((by[0][1:] != 0).all())


def test_places_of_no_ids_at_all_are_empty_sets():
    result = anchors(problem(3, 4, 9), torch.zeros(3, 0, dtype=torch.int64))
    assert result.tolist() == [-math.inf] * 3


def test_the_order_of_the_ids_and_empty_places_change_nothing():
    values, ids = problem(6, 8, 21), ids_of(6, 21, 5)
    result = anchors(values, ids)
    torch.testing.assert_close(anchors(values, ids.flip(-1)), result, rtol=1e-14, atol=0)
    widened = torch.cat([ids, torch.full((6, 3), -1)], -1)
    torch.testing.assert_close(anchors(values, widened), result, rtol=1e-14, atol=0)


def test_without_ids_there_is_no_anchor():
    hidden, head, bias, target = problem(3, 4, 9)
    assert token_stats(hidden, head, target, bias_V=bias).anchor_logp_N is None


def test_the_other_statistics_have_the_same_bits_with_an_anchor_as_without():
    hidden, head, bias, _ = problem(7, 8, 21, dtype=torch.float32)
    ids = ids_of(7, 21, 4)
    target = outside(ids, 21)
    without = token_stats(hidden, head, target, bias_V=bias)
    stats = token_stats(hidden, head, target, bias_V=bias, topk_NK=ids)
    assert all(torch.equal(one, other) for one, other in zip(stats[:3], without[:3], strict=True))


@pytest.mark.parametrize("chunk_rows", [1, 2, 3, 6])
def test_chunks_of_rows_change_no_anchor_and_no_gradient(monkeypatch, chunk_rows):
    values, ids = problem(7, 8, 21), ids_of(7, 21, 5)
    complete, by_whole = anchors(values, ids), by_logits(values, ids)
    monkeypatch.setattr(sizes, "CHUNK_ELEMENTS", 21 * chunk_rows)
    torch.testing.assert_close(anchors(values, ids), complete, rtol=1e-12, atol=0)
    torch.testing.assert_close(by_logits(values, ids), by_whole, rtol=1e-12, atol=1e-16)


def test_no_rows_have_no_anchors():
    hidden, head, bias, target = problem(3, 4, 6)
    stats = token_stats(
        hidden[:0].requires_grad_(), head, target[:0], bias_V=bias, topk_NK=ids_of(3, 6, 2)[:0]
    )
    assert stats.anchor_logp_N.shape == (0,)
    stats.anchor_logp_N.sum().backward()


def test_half_precision_inputs_give_a_float32_anchor_near_the_truth():
    values, ids = problem(64, 32, 99, dtype=torch.bfloat16), ids_of(64, 99, 8)
    result = anchors(values, ids)
    assert result.dtype == torch.float32
    truth = masses(probabilities([v.double() for v in values[:3]] + [None], 1.0), ids).log()
    torch.testing.assert_close(result.double(), truth, rtol=0, atol=8 * 2.0**-8)


# The likeliest tokens.


def sorted_top_k(values, k, temperature=1.0):
    """By Python's own sort on (-log-prob, id)."""
    hidden, head, bias, _ = values
    logp_NV = ((hidden @ head.T + bias) / temperature).log_softmax(-1)
    ids = [sorted(range(len(p)), key=lambda i: (-float(p[i]), i))[:k] for p in logp_NV]
    return tensor(ids), logp_NV.gather(-1, tensor(ids))


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("k", [1, 3, 20, 21])
def test_the_likeliest_tokens_come_first_with_their_log_probs(k, temperature):
    values = problem(5, 8, 21)
    hidden, head, bias, _ = values
    ids, logp = top_k(hidden, head, k, bias_V=bias, temperature=temperature)
    expected_ids, expected_logp = sorted_top_k(values, k, temperature)
    assert ids.dtype == torch.int64 and torch.equal(ids, expected_ids)
    torch.testing.assert_close(logp, expected_logp, rtol=1e-12, atol=0)


def test_all_tokens_have_the_whole_mass_between_them():
    hidden, head, bias, _ = problem(5, 8, 21)
    _, logp = top_k(hidden, head, 21, bias_V=bias)
    torch.testing.assert_close(logp.logsumexp(-1), torch.zeros(5).double(), rtol=0, atol=1e-14)


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 6])
def test_of_equals_the_lower_id_comes_first(k):
    # Two rows of six tokens of three sizes; every cut lies between or within a run of equals.
    head = tensor([[1.0, 0], [3, 0], [1, 0], [3, 1], [1, 0], [0, 0]])
    ids, _ = top_k(tensor([[1.0, 0], [1, 1]]), head, k)
    assert ids.tolist() == [[1, 3, 0, 2, 4, 5][:k], [3, 1, 0, 2, 4, 5][:k]]


def test_a_uniform_policy_has_the_first_ids_however_many_there_are():
    ids, logp = top_k(torch.ones(2, 1), torch.zeros(50_000, 1), 8)
    assert ids.tolist() == [list(range(8))] * 2
    assert logp.flatten().tolist() == pytest.approx([-math.log(50_000)] * 16, rel=1e-6)


def test_tokens_that_cannot_be_come_last_with_minus_infinity():
    head = torch.zeros(4, 1)
    ids, logp = top_k(torch.ones(1, 1), head, 4, bias_V=tensor([-torch.inf, 1, -torch.inf, 2]))
    assert ids.tolist() == [[3, 1, 0, 2]]
    assert logp[0, 2:].tolist() == [-math.inf] * 2 and bool(logp[0, :2].isfinite().all())


def test_a_nan_among_the_logits_shows_in_the_log_probs():
    ids, logp = top_k(torch.ones(1, 1), tensor([[1.0], [torch.nan], [2.0]]), 2)
    assert ids.shape == (1, 2) and bool(logp.isnan().all())


@pytest.mark.parametrize("chunk_rows", [0, 1, 2, 6])
def test_chunks_change_no_top_k(monkeypatch, chunk_rows):
    hidden, head, bias, _ = problem(7, 8, 21)
    complete = top_k(hidden, head, 4, bias_V=bias)
    monkeypatch.setattr(sizes, "CHUNK_ELEMENTS", 21 * chunk_rows)
    likeliest = top_k(hidden, head, 4, bias_V=bias)
    assert torch.equal(likeliest[0], complete[0])
    torch.testing.assert_close(likeliest[1], complete[1], rtol=1e-12, atol=0)


def test_no_rows_have_no_likeliest_tokens():
    hidden, head, bias, _ = problem(3, 4, 6)
    ids, logp = top_k(hidden[:0], head, 2, bias_V=bias)
    assert ids.shape == logp.shape == (0, 2)


def test_the_likeliest_tokens_have_no_gradient_and_float32_log_probs():
    hidden, head, bias, _ = problem(3, 4, 9, dtype=torch.bfloat16)
    _, logp = top_k(hidden.requires_grad_(), head, 2, bias_V=bias)
    assert not logp.requires_grad and logp.dtype == torch.float32
    truth = sorted_top_k([v.detach().double() for v in (hidden, head, bias)] + [None], 2)[1]
    torch.testing.assert_close(logp.double(), truth, rtol=0, atol=8 * 2.0**-8)


def test_the_log_probs_have_the_bits_of_the_token_statistics():
    hidden, head, bias, _ = problem(7, 8, 21, dtype=torch.float32)
    ids, logp = top_k(hidden, head, 1, bias_V=bias)
    stats = token_stats(hidden, head, ids[:, 0], bias_V=bias)
    assert torch.equal(stats.logp_N, logp[:, 0])
