"""A cache of int8: what it holds, and attention to it against float64 over what it holds.

Shapes: B rows, H query heads, K key heads, D head size, L positions of the cache.
"""

import pytest
import torch

from rlvr_cli.kernels import attention, coded, dispatch
from rlvr_cli.kernels.checks import BadInput
from rlvr_cli.kernels.coded import CodedCache

POSITIONS = (0, 5, 63, 64, 65, 190)


def problem(heads=6, kinds=2, size=16, length=192, dtype=torch.float32, offset=0.0):
    """New queries, keys and values of rows, and a cache that their prompts were put to."""
    rng = torch.Generator().manual_seed(heads + size)
    count = len(POSITIONS)
    new = [torch.randn(count, n, size, generator=rng).to(dtype) for n in (heads, kinds, kinds)]
    prompts = [torch.randn(count, kinds, length, size, generator=rng).to(dtype) for _ in range(2)]
    prompts[0][..., 3] += offset
    new[1][..., 3] += offset
    cache, row = CodedCache.empty(count, length, *prompts), torch.arange(count)
    cache.put(*prompts, torch.tensor(POSITIONS).clamp(min=1), row, row)
    return new, prompts, cache, torch.tensor(POSITIONS)


@pytest.mark.parametrize("spread", [1e-20, 1.0, 1e20])
def test_a_value_is_within_half_a_scale_of_its_code_and_the_largest_is_exact(spread):
    values = torch.randn(50, 3, 24, generator=torch.Generator().manual_seed(0)) * spread
    codes, scale = coded.quantize(values)
    assert codes.dtype == torch.int8 and scale.shape == (50, 3)
    made = codes.double() * scale[..., None].double()
    assert bool(((made - values).abs() <= 0.50001 * scale[..., None]).all())
    largest = values.abs().argmax(-1, keepdim=True)
    torch.testing.assert_close(made.gather(-1, largest), values.double().gather(-1, largest))


def test_zeros_are_zeros_and_what_is_not_finite_stays_so():
    codes, scale = coded.quantize(torch.zeros(2, 16))
    assert not codes.any() and not scale.any()
    for wrong in (torch.nan, torch.inf):
        values = torch.ones(2, 16)
        values[1, 7] = wrong
        codes, scale = coded.quantize(values)
        assert (codes * scale[:, None]).isfinite().all(-1).tolist() == [True, False]


def test_a_cache_holds_prompts_to_half_a_scale_wherever_their_channels_are():
    _, (keys, values), cache, _ = problem(offset=300.0)
    made = cache.read(keys.shape[2], torch.float64)
    for one, other in zip(made, (keys, values), strict=True):
        assert float((one - other).abs().max()) < 0.03


@pytest.mark.parametrize("options", [{}, {"window": 9}, {"window": 70, "softcap": 2.0}])
@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 2e-6), (torch.bfloat16, 1e-2)])
def test_attention_is_that_of_float64_over_what_the_cache_holds(options, dtype, tolerance):
    new, _, cache, position_B = problem(dtype=dtype, offset=3.0)
    wide = [value.double() for value in new]
    expected = attention.attend(
        *wide, *cache.read(192, torch.float64), position_B, scale=0.3, **options
    )
    for i, position in enumerate(POSITIONS):  # what is not filled yet is not read
        cache.scales_BKL2[i, :, position:] = 1e30
    attended = dispatch.attend_coded(*new, cache, position_B, scale=0.3, **options)
    assert attended.dtype == dtype
    torch.testing.assert_close(attended.double(), expected, rtol=tolerance, atol=tolerance)


def test_a_new_token_takes_its_place_and_no_other():
    new, _, cache, position_B = problem()
    before = [value.clone() for value in cache]
    coded.attend(*new, cache, position_B, scale=0.3)
    keys, values = cache.read(192, torch.float32)
    for old, made in zip((before[0], before[2]), (cache[0], cache[2]), strict=True):
        differ = (old != made).any(-1).any(1).nonzero().tolist()
        assert {tuple(pair) for pair in differ} <= set(enumerate(POSITIONS))
    changed = (before[1] != cache[1]).any(3).any(1).nonzero().tolist()
    assert {(i, 2 * pair + odd) for i, pair, odd in changed} <= set(enumerate(POSITIONS))
    for i, position in enumerate(POSITIONS):
        for new_BKD, made in ((new[1], keys), (new[2], values)):
            torch.testing.assert_close(made[i, :, position], new_BKD[i], atol=0.03, rtol=0)
    assert torch.equal(before[3], cache.shift_BKD)


def test_a_rows_bits_depend_neither_on_the_other_rows_nor_on_those_of_its_prompt():
    new, prompts, cache, position_B = problem()
    attended = coded.attend(*new, cache, position_B, scale=0.3)
    few = CodedCache.empty(2, 100, *prompts)
    shorter = [prompt[1:2, :, :70] for prompt in prompts]
    few.put(*shorter, position_B[1:2], torch.tensor([1]), torch.tensor([0]))
    alone = coded.attend(*(v[1:2] for v in new), few.rows(slice(1, 2)), position_B[1:2], scale=0.3)
    assert torch.equal(alone[0], attended[1])


@pytest.mark.parametrize("length", [1, 6, 7])
def test_a_row_that_moves_takes_all_that_is_read_of_it(length):
    _, _, cache, _ = problem()
    before = cache.read(length, torch.float32)
    cache.move(torch.tensor([4, 3]), torch.tensor([0, 2]), length)
    for old, made in zip(before, cache.read(length, torch.float32), strict=True):
        assert torch.equal(made[[0, 2]], old[[4, 3]])
        assert torch.equal(made[[1, 3, 4, 5]], old[[1, 3, 4, 5]])


def test_tensors_that_do_not_go_together_are_refused():
    new, _, cache, position_B = problem()
    odd = cache._replace(scales_BKL2=cache.scales_BKL2[:, :, :-1])
    with pytest.raises(BadInput, match="scales_BKL2 has shape"):
        coded.attend(*new, odd, position_B, scale=1.0)
    with pytest.raises(BadInput, match="not of int8"):
        wide = cache._replace(keys_BKLD=cache.keys_BKLD.float())
        coded.attend(*new, wide, position_B, scale=1.0)
    with pytest.raises(BadInput, match="position_B has shape"):
        coded.attend(*new, cache, position_B[1:], scale=1.0)
