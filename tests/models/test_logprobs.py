"""Log-probs of stored completions, against the model's own logits."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from rlvr_cli.errors import DataError, UserError
from rlvr_cli.models import logprobs
from rlvr_cli.protocols import Row

# Prompts and completions of unlike lengths; one completion is empty, one of a single token, and
# one holds the pad id (0) and the end-of-sequence id (1) in its middle.
ROWS = [
    Row([20, 30, 40], [9, 8, 7, 6, 1]),
    Row([3], [0, 1, 0, 4]),
    Row([5, 6, 7, 8, 9, 10, 11], [12]),
    Row([50, 51], []),
    Row([98, 0, 0], [13, 14, 15]),
]


def expected(loaded, row, temperature):
    """Log-probs, entropies and largest probabilities of one row, unpadded."""
    tokens = torch.tensor([row.prompt_token_ids + row.token_ids])
    with torch.no_grad():
        logp_SV = (loaded.model(tokens).logits[0] / temperature).log_softmax(-1)
    start = len(row.prompt_token_ids)
    at = range(start - 1, start - 1 + len(row.token_ids))
    logps = [float(logp_SV[i, token]) for i, token in zip(at, row.token_ids, strict=True)]
    entropies = [-float((logp_SV[i].exp() * logp_SV[i]).sum()) for i in at]
    return logps, entropies, [float(logp_SV[i].max().exp()) for i in at]


@pytest.mark.parametrize("temperature", [0.6, 1.0, 1.7])
def test_a_padded_batch_has_the_statistics_of_each_row_alone(loaded, temperature):
    with torch.no_grad():
        stats = logprobs.completion_stats(loaded.model, ROWS, temperature=temperature)
    for index, row in enumerate(ROWS):
        for made_BT, truth in zip(stats[1:4], expected(loaded, row, temperature), strict=True):
            result = made_BT[index, : len(row.token_ids)].tolist()
            assert result == pytest.approx(truth, abs=1e-5)


def test_the_mask_is_made_of_lengths_and_all_else_is_zero(loaded):
    with torch.no_grad():
        stats = logprobs.completion_stats(loaded.model, ROWS, temperature=1.0)
    assert stats.mask_BT.sum(-1).tolist() == [5, 4, 1, 0, 3]
    assert stats.mask_BT.tolist() == [[t < n for t in range(5)] for n in (5, 4, 1, 0, 3)]
    for value_BT in stats[1:4]:
        assert bool((value_BT[~stats.mask_BT] == 0).all())
        assert bool((value_BT[stats.mask_BT] != 0).all())


def test_rows_without_a_single_completion_token_have_no_statistics(loaded):
    stats = logprobs.completion_stats(loaded.model, [ROWS[3], ROWS[3]], temperature=1.0)
    assert [value_BT.shape for value_BT in stats[:4]] == [(2, 0)] * 4
    assert stats.anchor_logp_BT is None


def test_a_completion_without_a_prompt_is_refused(loaded):
    # The first token has nothing before it: there is no hidden state to take its log-prob from.
    with pytest.raises((UserError, ValueError)):
        logprobs.completion_stats(loaded.model, [Row([], [9, 8, 7])], temperature=1.0)


@pytest.mark.parametrize("entropy_gradient", [False, True])
def test_gradients_reach_the_weights(loaded, entropy_gradient):
    stats = logprobs.completion_stats(
        loaded.model, ROWS[:2], temperature=1.0, entropy_gradient=entropy_gradient
    )
    assert stats.entropy_BT.requires_grad == entropy_gradient
    weight = next(loaded.model.parameters())
    (gradient,) = torch.autograd.grad(stats.logp_BT.sum(), weight)
    assert float(gradient.abs().sum()) > 0


def length(row):
    return len(row.prompt_token_ids) + len(row.token_ids)


@pytest.mark.parametrize("tokens", [1, 8, 9, 16, 20, 100])
def test_micro_batches_hold_each_row_once_within_their_size(tokens):
    batches = list(logprobs.micro_batches(ROWS, tokens))
    assert sorted(index for batch in batches for index in batch) == list(range(len(ROWS)))
    for batch in batches:
        assert len(batch) == 1 or max(length(ROWS[i]) for i in batch) * len(batch) <= tokens


def test_micro_batches_are_filled_up_longest_first_and_equals_keep_their_order():
    # Lengths 8, 5, 8, 2, 6: 2 * 8 = 16 tokens hold two rows, 3 * 8 = 24 three.
    cuts = {tokens: list(logprobs.micro_batches(ROWS, tokens)) for tokens in (10, 15, 16, 24, 40)}
    assert cuts[10] == [[0], [2], [4], [1, 3]]
    assert cuts[15] == [[0], [2], [4, 1], [3]]
    assert cuts[16] == [[0, 2], [4, 1], [3]]
    assert cuts[24] == [[0, 2, 4], [1, 3]]
    assert cuts[40] == [[0, 2, 4, 1, 3]]
    assert list(logprobs.micro_batches([], 16)) == []


def test_the_cut_depends_on_lengths_alone():
    others = [dataclasses.replace(row, advantage=2.0, old_logp=[0.0]) for row in ROWS]
    assert list(logprobs.micro_batches(others, 16)) == list(logprobs.micro_batches(ROWS, 16))


def test_unpad_undoes_pad():
    mask_BT = torch.tensor([[True] * 5, [True] * 4 + [False], [True] + [False] * 4])
    values = [[1.0, 2, 3, 4, 5], [6.0, 7, 8, 9], [10.0]]
    padded_BT = logprobs.pad(values, mask_BT, torch.float32)
    assert padded_BT.tolist() == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 0], [10, 0, 0, 0, 0]]
    assert [value_T.tolist() for value_T in logprobs.unpad(padded_BT, ROWS[:3])] == values


def test_pad_refuses_values_that_are_fewer_than_the_tokens():
    mask_BT = torch.tensor([[True, True], [True, False]])
    with pytest.raises(RuntimeError):
        logprobs.pad([[], [1.0]], mask_BT, torch.float32)


# The reference policy's likeliest tokens.


def with_top_k(loaded, rows, k, temperature=1.0):
    """The rows with their likeliest tokens as a logprobs directory has them."""
    with torch.no_grad():
        stats, top = logprobs.with_top_k(loaded.model, rows, k, temperature=temperature)
    ids, logps = (logprobs.unpad(value_BTK, rows) for value_BTK in top)
    return stats, [
        dataclasses.replace(row, ref_topk_ids=i.astype(np.int32), ref_topk_logp=logp)
        for row, i, logp in zip(rows, ids, logps, strict=True)
    ]


@pytest.mark.parametrize("temperature", [0.6, 1.0, 1.7])
def test_the_likeliest_tokens_are_those_of_each_row_alone(loaded, temperature):
    stats, rows = with_top_k(loaded, ROWS, 5, temperature)
    with torch.no_grad():
        alone = logprobs.completion_stats(loaded.model, ROWS, temperature=temperature)
    assert all(torch.equal(one, other) for one, other in zip(stats[:4], alone[:4], strict=True))
    for row in rows:
        assert row.ref_topk_ids.shape == row.ref_topk_logp.shape == (len(row.token_ids), 5)
        tokens = torch.tensor([row.prompt_token_ids + row.token_ids])
        with torch.no_grad():
            logp_SV = (loaded.model(tokens).logits[0] / temperature).log_softmax(-1)
        start = len(row.prompt_token_ids) - 1
        truth = logp_SV[start : start + len(row.token_ids)].topk(5)
        assert row.ref_topk_ids.tolist() == truth.indices.tolist()
        assert row.ref_topk_logp == pytest.approx(truth.values.numpy(), abs=1e-5)


def test_likeliest_tokens_are_0_where_masked(loaded):
    with torch.no_grad():
        stats, top = logprobs.with_top_k(loaded.model, ROWS, 3, temperature=1.0)
    assert top.ids_BTK.shape == top.logp_BTK.shape == (5, 5, 3)
    assert not top.ids_BTK[~stats.mask_BT].any() and not top.logp_BTK[~stats.mask_BT].any()


def anchor_truth(loaded, row, k):
    """The log of the policy's own mass on its k likeliest tokens without the sampled one."""
    tokens = torch.tensor([row.prompt_token_ids + row.token_ids])
    with torch.no_grad():
        prob_SV = loaded.model(tokens).logits[0].double().softmax(-1)
    start = len(row.prompt_token_ids) - 1
    results = []
    for t, token in enumerate(row.token_ids):
        anchor = [i for i in prob_SV[start + t].topk(k).indices.tolist() if i != token]
        mass = float(sum(prob_SV[start + t, i] for i in anchor))
        results.append(math.log(mass) if anchor else -math.inf)
    return results


@pytest.mark.parametrize("k", [1, 3, 98])
def test_an_anchor_leaves_out_the_sampled_token_on_both_sides(loaded, k):
    greedy = []  # the likeliest token is the sampled one: k = 1 leaves an empty anchor set
    for row in ROWS:
        _, (actual,) = with_top_k(loaded, [row], 1)
        greedy.append(dataclasses.replace(row, token_ids=actual.ref_topk_ids[:, 0].tolist()))
    # A stored set larger than k is cut to its first k.
    _, rows = with_top_k(loaded, ROWS + greedy, 98)
    with torch.no_grad():
        stats = logprobs.completion_stats(loaded.model, rows, temperature=1.0, top_k=k)
    mask_BT = stats.mask_BT
    ours_BT = stats.anchor_logp_BT
    theirs_BT = logprobs.anchor_ref_logp(rows, mask_BT, torch.float32, top_k=k)
    for made_BT in (ours_BT, theirs_BT):
        assert made_BT.shape == mask_BT.shape and not made_BT[~mask_BT].any()
    for index, row in enumerate(rows):
        truth = pytest.approx(anchor_truth(loaded, row, k), abs=1e-5)
        assert ours_BT[index, : len(row.token_ids)].tolist() == truth
        assert theirs_BT[index, : len(row.token_ids)].tolist() == truth
    assert bool(ours_BT.isneginf().any()) == (k == 1)


def test_an_anchor_does_not_depend_on_batch_mates_or_their_order(loaded):
    _, rows = with_top_k(loaded, ROWS, 4)
    with torch.no_grad():
        together = logprobs.completion_stats(loaded.model, rows, temperature=1.0, top_k=4)
        turned = logprobs.completion_stats(loaded.model, rows[::-1], temperature=1.0, top_k=4)
        torch.testing.assert_close(
            turned.anchor_logp_BT.flip(0), together.anchor_logp_BT, rtol=0, atol=1e-5
        )
        for index, row in enumerate(rows):
            alone = logprobs.completion_stats(loaded.model, [row], temperature=1.0, top_k=4)
            size = len(row.token_ids)
            torch.testing.assert_close(
                alone.anchor_logp_BT[0], together.anchor_logp_BT[index, :size], rtol=0, atol=1e-5
            )


def test_an_anchor_has_a_gradient_and_padding_has_none(loaded):
    _, rows = with_top_k(loaded, ROWS[:2], 4)
    stats = logprobs.completion_stats(loaded.model, rows, temperature=1.0, top_k=4)
    weight = next(loaded.model.parameters())
    (by,) = torch.autograd.grad(stats.anchor_logp_BT.sum(), weight, retain_graph=True)
    assert float(by.abs().sum()) > 0 and bool(by.isfinite().all())
    (by,) = torch.autograd.grad(stats.anchor_logp_BT[~stats.mask_BT].sum(), weight)
    assert not by.any()


def test_rows_of_no_tokens_have_empty_anchors(loaded):
    _, rows = with_top_k(loaded, [ROWS[3]] * 2, 4)
    assert rows[0].ref_topk_ids.shape == (0, 4)
    stats = logprobs.completion_stats(loaded.model, rows, temperature=1.0, top_k=4)
    assert stats.anchor_logp_BT.shape == (2, 0)
    made_BT = logprobs.anchor_ref_logp(rows, stats.mask_BT, torch.float32, top_k=4)
    assert made_BT.shape == (2, 0)


def test_an_id_outside_the_policys_vocabulary_is_refused(loaded):
    _, rows = with_top_k(loaded, ROWS[:1], 4)
    rows[0].ref_topk_ids[0, 1] = 99_999
    with pytest.raises(DataError, match="hold id 99999, the vocabulary of the policy has"):
        logprobs.completion_stats(loaded.model, rows, temperature=1.0, top_k=4)
