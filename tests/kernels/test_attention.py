"""One new token of each row against its cache: the reference that the kernel is held to.

Shapes: B rows, H query heads, K key heads, D head size, L places of the cache.
"""

import pytest
import torch

from rlvr_cli.kernels import dispatch
from rlvr_cli.kernels.attention import BLOCK, attend
from rlvr_cli.kernels.checks import BadInput
from rlvr_cli.kernels.reference import gumbel, seeds_at

POSITIONS = (0, 5, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK - 1)


def problem(heads=6, kinds=2, size=16, length=3 * BLOCK, dtype=torch.float32):
    rng = torch.Generator().manual_seed(heads + size)
    count = len(POSITIONS)
    shapes = [
        (count, heads, size),
        *[(count, kinds, size)] * 2,
        *[(count, kinds, length, size)] * 2,
    ]
    results = [torch.randn(shape, generator=rng).to(dtype) for shape in shapes]
    return results, torch.tensor(POSITIONS)


def exact(values, position_B, *, scale, window=0, softcap=0.0):
    """The softmax over all places at once, in float64."""
    query, key, value, keys, values = (value.double().clone() for value in values)
    row_B = torch.arange(len(query))
    keys[row_B, :, position_B], values[row_B, :, position_B] = key, value
    group = query.shape[1] // key.shape[1]
    keys, values = (cache.repeat_interleave(group, 1) for cache in (keys, values))
    score_BHL = (keys @ query[..., None])[..., 0] * scale
    if softcap:
        score_BHL = (score_BHL / softcap).tanh() * softcap
    place_L = torch.arange(keys.shape[2])
    seen_BL = place_L <= position_B[:, None]
    if window:
        seen_BL &= place_L > position_B[:, None] - window
    weight_BHL = score_BHL.masked_fill(~seen_BL[:, None], -torch.inf).softmax(-1)
    return (weight_BHL[:, :, None] @ values)[:, :, 0]


@pytest.mark.parametrize("options", [{}, {"window": 9}, {"window": 70, "softcap": 2.0}])
@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-6), (torch.bfloat16, 2e-2)])
def test_it_is_the_softmax_over_the_places_that_a_row_has_filled(options, dtype, tolerance):
    values, position_B = problem(dtype=dtype)
    expected = exact(values, position_B, scale=0.3, **options)
    for i, position in enumerate(POSITIONS):  # what is not filled yet is not read
        for cache in values[3:]:
            cache[i, :, position + 1 :] = 1e30
    attended = dispatch.attend(*values, position_B, scale=0.3, **options)
    assert attended.dtype == dtype
    torch.testing.assert_close(attended.double(), expected, rtol=tolerance, atol=tolerance)


def test_the_new_keys_and_values_take_their_place_and_no_other():
    values, position_B = problem()
    before = [cache.clone() for cache in values[3:]]
    attend(*values, position_B, scale=0.3)
    for new, old, cache in zip(values[1:3], before, values[3:], strict=True):
        for i, position in enumerate(POSITIONS):
            assert torch.equal(cache[i, :, position], new[i])
            old[i, :, position] = new[i]
        assert torch.equal(cache, old)


def test_a_rows_bits_depend_neither_on_the_other_rows_nor_on_the_length_of_the_cache():
    values, position_B = problem()
    attended = attend(*values, position_B, scale=0.3)
    last = len(POSITIONS) - 1
    alone = attend(*(v[1:2] for v in values), position_B[1:2], scale=0.3)
    assert torch.equal(alone[0], attended[1])
    short = [v[:last] for v in values[:3]] + [
        v[:last, :, : 2 * BLOCK].contiguous() for v in values[3:]
    ]
    assert torch.equal(attend(*short, position_B[:last], scale=0.3), attended[:last])


def test_tensors_that_do_not_go_together_are_refused():
    values, position_B = problem()
    with pytest.raises(BadInput, match="position_B has shape"):
        attend(*values, position_B[1:], scale=1.0)
    with pytest.raises(BadInput, match="no multiple"):
        attend(values[0][:, :5], *values[1:], position_B, scale=1.0)
    with pytest.raises(BadInput, match="not contiguous"):
        attend(*values[:3], values[3][:, :, ::3], values[4][:, :, ::3], position_B // 3, scale=1.0)


def test_seeds_at_a_position_give_the_noise_of_the_row_there():
    seed_B, position_B = torch.tensor([3, 1 << 62, 7]), torch.tensor([0, 5, 123])
    noise_BV = gumbel(seeds_at(seed_B, position_B), 0, 11)
    for i, position in enumerate(position_B.tolist()):
        assert torch.equal(noise_BV[i], gumbel(seed_B[i : i + 1], position, 11)[0])
