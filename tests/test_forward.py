"""Log-probs of stored completions, against the model's own logits."""

import pytest
import torch

from rlvr_cli import forward
from rlvr_cli.errors import UserError
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
        stats = forward.completion_stats(loaded.model, ROWS, temperature=temperature)
    for index, row in enumerate(ROWS):
        for made_BT, truth in zip(stats[1:], expected(loaded, row, temperature), strict=True):
            made = made_BT[index, : len(row.token_ids)].tolist()
            assert made == pytest.approx(truth, abs=1e-5)


def test_the_mask_is_made_of_lengths_and_all_else_is_zero(loaded):
    with torch.no_grad():
        stats = forward.completion_stats(loaded.model, ROWS, temperature=1.0)
    assert stats.mask_BT.sum(-1).tolist() == [5, 4, 1, 0, 3]
    assert stats.mask_BT.tolist() == [[t < n for t in range(5)] for n in (5, 4, 1, 0, 3)]
    for value_BT in stats[1:]:
        assert bool((value_BT[~stats.mask_BT] == 0).all())
        assert bool((value_BT[stats.mask_BT] != 0).all())


def test_rows_without_a_single_completion_token_have_no_statistics(loaded):
    stats = forward.completion_stats(loaded.model, [ROWS[3], ROWS[3]], temperature=1.0)
    assert [value_BT.shape for value_BT in stats] == [(2, 0)] * 4


def test_a_completion_without_a_prompt_is_refused(loaded):
    # The first token has nothing before it: there is no hidden state to take its log-prob from.
    with pytest.raises((UserError, ValueError)):
        forward.completion_stats(loaded.model, [Row([], [9, 8, 7])], temperature=1.0)


@pytest.mark.parametrize("entropy_gradient", [False, True])
def test_gradients_reach_the_weights(loaded, entropy_gradient):
    stats = forward.completion_stats(
        loaded.model, ROWS[:2], temperature=1.0, entropy_gradient=entropy_gradient
    )
    assert stats.entropy_BT.requires_grad == entropy_gradient
    weight = next(loaded.model.parameters())
    (gradient,) = torch.autograd.grad(stats.logp_BT.sum(), weight)
    assert float(gradient.abs().sum()) > 0


def test_micro_batches_hold_all_rows_in_order_within_their_size():
    for tokens in (1, 8, 9, 16, 20, 100):
        batches = list(forward.micro_batches(ROWS, tokens))
        assert [row for batch in batches for row in batch] == ROWS
        for batch in batches:
            longest = max(len(row.prompt_token_ids) + len(row.token_ids) for row in batch)
            assert len(batch) == 1 or longest * len(batch) <= tokens


def test_micro_batches_are_filled_up_to_their_size():
    # Lengths 8, 5, 8, 2, 6: 2 * 8 = 16 tokens hold two rows, 3 * 8 = 24 three.
    sizes = {
        tokens: [len(batch) for batch in forward.micro_batches(ROWS, tokens)]
        for tokens in (15, 16, 24, 40)
    }
    assert sizes == {15: [1, 1, 1, 2], 16: [2, 2, 1], 24: [3, 2], 40: [5]}
    assert list(forward.micro_batches([], 16)) == []


def test_unpad_undoes_pad():
    mask_BT = torch.tensor([[True] * 5, [True] * 4 + [False], [True] + [False] * 4])
    values = [[1.0, 2, 3, 4, 5], [6.0, 7, 8, 9], [10.0]]
    padded_BT = forward.pad(values, mask_BT, torch.float32)
    assert padded_BT.tolist() == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 0], [10, 0, 0, 0, 0]]
    assert forward.unpad(padded_BT, ROWS[:3]) == values


def test_pad_refuses_values_that_are_fewer_than_the_tokens():
    mask_BT = torch.tensor([[True, True], [True, False]])
    with pytest.raises(RuntimeError):
        forward.pad([[], [1.0]], mask_BT, torch.float32)
