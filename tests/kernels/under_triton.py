"""The Triton kernels against the reference in float64: on a GPU, else under Triton's interpreter.

test_triton.py runs this file in a process of its own that finds triton. Every buffer is filled with
NaN beforehand.
"""

import contextlib
import copy
import dataclasses
import math
import os

import pytest
import torch
from torch import tensor

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"  # before the kernels are decorated
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # for deterministic algorithms

# ruff: noqa: E402
import triton
import triton.language as tl
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    GPTNeoXConfig,
    Olmo2Config,
    Qwen2Config,
    Qwen3Config,
    Qwen3MoeConfig,
)

from rlvr_cli.algorithms import objective
from rlvr_cli.algorithms.objective import Totals
from rlvr_cli.config import UpdateOptions
from rlvr_cli.engines.rollout import _batch
from rlvr_cli.engines.rollout._decoder import Decoder
from rlvr_cli.engines.rollout.graph import GraphEngine
from rlvr_cli.engines.training import local
from rlvr_cli.errors import UsageError
from rlvr_cli.kernels import (
    attention,
    coded,
    dispatch,
    drawing,
    reference,
    triton_attention,
    triton_causal,
    triton_coded,
    triton_draw,
    triton_gradients,
    triton_invariant,
    triton_noise,
    triton_sample,
    triton_search,
    triton_stats,
    triton_upstream,
)
from rlvr_cli.kernels.checks import BadInput
from rlvr_cli.models import logprobs, policy
from rlvr_cli.protocols import Request, Row, SamplingParams

STASH, RECOMPUTE = 1 << 30, 0
TOLERANCE = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1e-2}  # of gradients


@pytest.fixture(autouse=True)
def poisoned():
    torch.use_deterministic_algorithms(True)  # which fills what torch.empty makes
    torch.set_default_device(DEVICE)
    yield
    torch.set_default_device(None)
    torch.use_deterministic_algorithms(False)


def problem(rows, hidden, vocabulary, k, *, dtype=torch.float32, size=None, spread=1.0):
    """Hidden states, head, bias, targets, anchors without the target, gradients of the outputs."""
    rng = torch.Generator("cpu").manual_seed(rows + 100 * vocabulary + k)
    hidden_NH = torch.randn(rows, hidden, generator=rng, device="cpu") * spread
    head_VH = torch.randn(vocabulary, hidden, generator=rng, device="cpu") / hidden**0.5
    bias_V = torch.randn(vocabulary, generator=rng, device="cpu")
    target_N = torch.randint(size or vocabulary, (rows,), generator=rng, device="cpu")
    orders = [
        torch.randperm(size or vocabulary, generator=rng, device="cpu")[:k] for _ in range(rows)
    ]
    ids_NK = torch.stack(orders)
    ids_NK[ids_NK == target_N[:, None]] = -1
    by_4N = torch.randn(4, rows, generator=rng, device="cpu")
    values = [value.to(DEVICE, dtype) for value in (hidden_NH, head_VH, bias_V)]
    return values, target_N.to(DEVICE), ids_NK.to(DEVICE), by_4N.to(DEVICE)


def gradients(function, values, target_N, ids_NK, by_4N, **options):
    """The statistics, and the gradients of their sum weighted by `by_4N`."""
    leaves = [value.detach().clone().requires_grad_() for value in values]
    result = function(
        leaves[0], leaves[1], target_N, bias_V=leaves[2] if leaves[2:] else None,
        entropy_gradient=True, topk_NK=ids_NK if ids_NK.shape[1] else None, **options,
    )  # fmt: skip
    outputs = [result.logp_N, result.entropy_N, result.logsumexp_N]
    if result.anchor_logp_N is not None:
        outputs.append(result.anchor_logp_N.masked_fill(result.anchor_logp_N.isneginf(), 0.0))
    total = sum((o * by.to(o.dtype)).sum() for o, by in zip(outputs, by_4N, strict=False))
    return result, torch.autograd.grad(total, leaves)


def compare(made, truth, tolerance):
    for one, other in zip(made[0], truth[0], strict=True):
        if one is not None:
            torch.testing.assert_close(one.double(), other, rtol=2e-6, atol=5e-6)
    assert bool((made[0].logp_N <= 0).all())
    for one, other in zip(made[1], truth[1], strict=True):
        assert float((one.double() - other).norm()) <= tolerance * float(other.norm())


SHAPES = [
    (1, 8, 11, 0, {}),
    (35, 8, 40, 2, {}),  # a full group of tiles and another that is not
    (7, 7, 63, 1, {"temperature": 0.7}),  # rows that the copy engine cannot fetch
    (17, 24, 100, 64, {"softcap": 2.0, "temperature": 1.3, "vocabulary": 90}),
]


@pytest.mark.parametrize("stash_bytes", [STASH, RECOMPUTE])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", SHAPES)
def test_statistics_and_gradients_are_those_of_float64(shape, dtype, stash_bytes):
    rows, hidden, vocabulary, k, options = shape
    values, *rest = problem(
        rows, hidden, vocabulary, k, dtype=dtype, size=options.get("vocabulary")
    )
    if rows == 1:
        values = values[:2]
    result = gradients(triton_stats.token_stats, values, *rest, stash_bytes=stash_bytes, **options)
    wide = [value.double() for value in values]
    compare(result, gradients(reference.token_stats, wide, *rest, **options), TOLERANCE[dtype])
    assert [value.dtype for value in result[1]] == [dtype] * len(values)


@pytest.mark.parametrize("seed", range(3))
def test_random_shapes_have_the_gradients_of_float64(seed):
    rng = torch.Generator("cpu").manual_seed(seed)
    rows, hidden, vocabulary = (
        int(torch.randint(1, n, (), generator=rng, device="cpu")) for n in (20, 40, 90)
    )
    k = min(vocabulary, seed * 4)
    values, *rest = problem(rows, hidden, vocabulary, k)
    result = gradients(triton_stats.token_stats, values, *rest, stash_bytes=seed % 2 * STASH)
    wide = [value.double() for value in values]
    compare(result, gradients(reference.token_stats, wide, *rest), 1e-5)


def test_a_row_has_the_same_bits_whatever_its_batch_mates():
    values, target, ids, _ = problem(19, 24, 50, 3, dtype=torch.bfloat16)

    def stats(rows):
        result = triton_stats.token_stats(
            values[0][rows], values[1], target[rows], bias_V=values[2], topk_NK=ids[rows]
        )
        likeliest = triton_stats.top_k(values[0][rows], values[1], 2, bias_V=values[2])
        return [*result, *likeliest]

    together = stats(torch.arange(19))
    for rows in (tensor([17]), tensor([18, 3, 17, 0])):
        for one, other in zip(stats(rows), together, strict=True):
            assert torch.equal(one, other[rows])


@pytest.mark.parametrize("stash_bytes", [STASH, RECOMPUTE])
def test_a_certain_token_has_a_log_prob_of_at_most_0_and_finite_gradients(stash_bytes):
    values, _, ids, by = problem(8, 16, 63, 0, spread=60.0)
    target = (values[0] @ values[1].T + values[2]).argmax(-1)
    result, grads = gradients(
        triton_stats.token_stats, values, target, ids, by, stash_bytes=stash_bytes
    )
    assert bool((result.logp_N <= 0).all()) and float(result.logp_N.detach().max()) > -1e-6
    assert bool((result.entropy_N >= 0).all()) and float(result.max_prob_N.max()) <= 1
    assert all(bool(value.isfinite().all()) for value in grads)


@pytest.mark.parametrize("stash_bytes", [STASH, RECOMPUTE])
def test_rows_without_upstream_gradient_are_left_out_exactly(stash_bytes):
    values, target, ids, by = problem(12, 16, 63, 3)
    kept = tensor([1, 4, 5, 9, 11])
    sparse = torch.zeros_like(by)
    sparse[:, kept] = by[:, kept]
    options = {"stash_bytes": stash_bytes}
    values_kept = [values[0][kept], *values[1:]]
    _, result = gradients(triton_stats.token_stats, values, target, ids, sparse, **options)
    _, alone = gradients(
        triton_stats.token_stats, values_kept, target[kept], ids[kept], by[:, kept], **options
    )
    left_out = tensor([i for i in range(12) if i not in kept])
    assert not result[0][left_out].any()
    torch.testing.assert_close(result[0][kept], alone[0], rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(result[1:], alone[1:], rtol=1e-5, atol=1e-6)
    _, none = gradients(triton_stats.token_stats, values, target, ids, 0 * by, **options)
    assert not any(value.any() for value in none)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.97, 1.0])
def test_each_active_row_has_one_place_among_the_first_and_the_first_keep_theirs(share):
    rng = torch.Generator("cpu").manual_seed(0)
    for rows in (1, 7, 300):
        active = torch.rand(rows, generator=rng, device="cpu") < share
        source, count = triton_upstream.sources(active.int().to(DEVICE))
        position, result = range(int(count)), source[: int(count)].tolist()
        assert sorted(result) == active.nonzero()[:, 0].tolist()
        assert all(
            one == other or one >= len(result) for one, other in zip(result, position, strict=True)
        )


@pytest.mark.parametrize("stash_bytes", [STASH, RECOMPUTE])
def test_logits_of_minus_infinity_are_no_tokens(stash_bytes):
    values, _, ids, by = problem(5, 8, 40, 2)
    values[2][[2, 35]] = -torch.inf
    target, ids = tensor([0, 1, 39, 4, 2]), tensor([[2, 35], [2, 5], [6, 7], [-1, -1], [35, 3]])
    options = {"stash_bytes": stash_bytes}
    by[0, 4] = 0.0
    result = gradients(triton_stats.token_stats, values, target, ids, by, **options)
    assert float(result[0].logp_N[4]) == -math.inf
    assert result[0].anchor_logp_N.isneginf().tolist() == [True, False, False, True, False]
    wide = [value.double() for value in values]
    truth = gradients(reference.token_stats, wide, target, ids, by)
    for one, other in zip((*result[0], *result[1]), (*truth[0], *truth[1]), strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=1e-5)


def test_inputs_need_not_be_contiguous():
    values, target, ids, by = problem(6, 16, 50, 2)
    complete = gradients(triton_stats.token_stats, values, target, ids, by)
    wide_N32 = values[0].repeat_interleave(2, -1)
    hidden, head = wide_N32[:, ::2], values[1].T.contiguous().T
    assert not hidden.is_contiguous() and not head.is_contiguous()
    stats = triton_stats.token_stats(
        hidden, head, torch.stack([target, target], -1)[:, 0], bias_V=values[2],
        topk_NK=ids.T.contiguous().T,
    )  # fmt: skip
    assert all(torch.equal(one, other) for one, other in zip(stats, complete[0], strict=True))


@pytest.mark.parametrize("main", [False, True])
def test_slices_of_the_vocabulary_make_the_gradients_of_the_whole(monkeypatch, main):
    """Several, of which the last is not whole; with ids of all of them, and some behind."""
    monkeypatch.setattr(triton_gradients, "_slice_width", lambda product: product.tiles.columns)
    options = {"vocabulary": 290, "temperature": 1.3, "softcap": 5.0}
    values, *rest = problem(9, 24, 300, 6, dtype=torch.bfloat16, size=290)
    truth = gradients(reference.token_stats, [v.double() for v in values], *rest, **options)
    if not main:
        result = gradients(
            triton_stats.token_stats, values, *rest, stash_bytes=RECOMPUTE, **options
        )
        compare(result, truth, TOLERANCE[torch.bfloat16])
        return
    head = values[1].clone().requires_grad_()
    head.main_grad = torch.ones(300, 24)
    target_N, ids_NK, by_4N = rest
    stats = triton_stats.token_stats(
        values[0], head, target_N, bias_V=values[2], entropy_gradient=True, topk_NK=ids_NK,
        stash_bytes=RECOMPUTE, **options,
    )  # fmt: skip
    outputs = (stats.logp_N, stats.entropy_N, stats.logsumexp_N, stats.anchor_logp_N)
    sum((o * by).sum() for o, by in zip(outputs, by_4N, strict=True)).backward()
    right = truth[1][1].float()
    assert float((head.main_grad - 1 - right).norm()) <= 1e-2 * float(right.norm())


def test_a_pass_over_many_rows_has_a_grid_of_one_dimension(monkeypatch):
    """A GPU takes no more than 65,535 programs in a second one."""
    grids, kernel = [], triton_gradients.stash_kernel

    class Recorded:
        def __getitem__(self, grid):
            grids.append(grid)
            return kernel[grid]

    monkeypatch.setattr(triton_gradients, "stash_kernel", Recorded())
    gradients(triton_stats.token_stats, *problem(7, 8, 63, 1), stash_bytes=STASH)
    assert [len(grid) for grid in grids] == [1]


if DEVICE == "cuda":  # the interpreter takes a minute for so many programs

    @pytest.mark.parametrize("stash_bytes", [STASH, RECOMPUTE])
    def test_there_may_be_more_rows_than_a_grids_second_dimension_takes(stash_bytes):
        given = problem(70_000, 16, 40, 0, dtype=torch.bfloat16)
        values, *rest = given
        truth = gradients(reference.token_stats, [value.double() for value in values], *rest)
        made = gradients(triton_stats.token_stats, *given, stash_bytes=stash_bytes)
        compare(made, truth, TOLERANCE[torch.bfloat16])


def test_no_rows_have_no_statistics_and_no_gradient():
    values, target, ids, _ = problem(3, 8, 40, 2)
    stats = triton_stats.token_stats(
        values[0][:0].requires_grad_(), values[1], target[:0], topk_NK=ids[:0]
    )
    assert [value.shape for value in stats] == [(0,)] * 5
    stats.logp_N.sum().backward()
    assert triton_stats.top_k(values[0][:0], values[1], 2)[0].shape == (0, 2)


def test_a_nan_is_refused_with_its_row():
    values, target, _, _ = problem(11, 520, 40, 1)
    values[0][9, 515] = torch.nan
    with pytest.raises(BadInput, match="NaN in row 9"):
        triton_stats.token_stats(values[0], values[1], target)


@pytest.mark.parametrize("wrong", [-1, 40])
def test_a_target_outside_is_refused(wrong):
    values, target, _, _ = problem(11, 8, 40, 1)
    target[9] = wrong
    with pytest.raises(BadInput, match="9"):
        triton_stats.token_stats(values[0], values[1], target)


@pytest.mark.parametrize(
    "row, accepted",
    [
        ([2, 4, -1], True),
        ([-1, -1, -1], True),
        ([2, 40, 4], False),
        ([4, 2, 4], False),
        ([7, 2, -1], False),
    ],
)
def test_top_k_ids_that_lie_outside_repeat_or_were_sampled_are_refused(row, accepted):
    values, target, _, _ = problem(11, 8, 40, 1)
    target[9] = 7
    topk_NK = torch.full((11, 3), -1, device=target.device)
    topk_NK[9] = torch.tensor(row, device=target.device)
    refusal = contextlib.nullcontext() if accepted else pytest.raises(BadInput, match="9")
    with refusal:
        triton_stats.token_stats(values[0], values[1], target, topk_NK=topk_NK)


@pytest.mark.parametrize("stash_bytes", [STASH, RECOMPUTE])
def test_a_main_gradient_takes_the_heads_gradient_in_float32(stash_bytes):
    values, target, _, _ = problem(6, 16, 50, 1, dtype=torch.bfloat16)
    head = values[1].clone().requires_grad_()
    head.main_grad = torch.ones(50, 16)
    for _ in range(2):
        stats = triton_stats.token_stats(values[0], head, target, stash_bytes=stash_bytes)
        stats.logp_N.sum().backward()
    assert head.grad is None
    leaf = values[1].double().requires_grad_()
    reference.token_stats(values[0].double(), leaf, target).logp_N.sum().backward()
    error = head.main_grad.double() - 1 - 2 * leaf.grad
    assert float(error.norm()) <= 1e-2 * float(leaf.grad.norm())


def test_a_frozen_head_or_hidden_state_gets_no_gradient():
    values, target, _, _ = problem(6, 16, 50, 1)
    for trained in range(2):
        leaves = [value.clone() for value in values[:2]]
        leaves[trained].requires_grad_()
        triton_stats.token_stats(*leaves, target).logp_N.sum().backward()
        assert leaves[trained].grad is not None and leaves[1 - trained].grad is None
    with torch.no_grad():
        stats = triton_stats.token_stats(*leaves, target)
    assert not any(value.requires_grad for value in stats if value is not None)


def test_only_the_entropy_that_was_asked_for_has_a_gradient_and_it_is_made_once():
    values, target, _, _ = problem(6, 16, 50, 1)
    stats = triton_stats.token_stats(values[0].requires_grad_(), values[1], target)
    assert stats.logp_N.requires_grad and stats.logsumexp_N.requires_grad
    assert not stats.entropy_N.requires_grad and not stats.max_prob_N.requires_grad
    stats.logp_N.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="twice"):
        stats.logp_N.sum().backward()


@pytest.mark.parametrize("k", [1, 5, 40, 70])
def test_the_likeliest_tokens_are_those_of_the_reference(k):
    values, *_ = problem(5, 16, 141, 1)
    options = {"bias_V": values[2], "temperature": 0.7, "vocabulary": 70}
    likeliest = triton_stats.top_k(values[0], values[1], k, **options)
    truth = reference.top_k(values[0].double(), values[1].double(), k,
                            **options | {"bias_V": values[2].double()})  # fmt: skip
    assert torch.equal(likeliest[0], truth[0])
    torch.testing.assert_close(likeliest[1].double(), truth[1], rtol=0, atol=5e-6)


def test_of_equals_the_lower_id_is_likelier():
    ids, logp = triton_stats.top_k(torch.ones(2, 8), torch.ones(141, 8), 9)
    assert ids.tolist() == [list(range(9))] * 2
    assert logp[0].tolist() == pytest.approx([-math.log(141)] * 9, rel=1e-6)


SAMPLING = [
    {},
    {"temperature": 0.7, "top_p": 0.8},
    {"mu": 0.5, "min_prob": 0.02, "temperature": 1.3},
    {"mu": 0.5, "top_p": 0.6, "min_prob": 0.02},
]


@pytest.mark.parametrize("options", SAMPLING)
def test_a_token_is_drawn_as_the_reference_draws_it(options):
    rng = torch.Generator("cpu").manual_seed(0)
    policy, memory = torch.randn(2, 3, 530, generator=rng, device="cpu").to(DEVICE) * 3
    policy[1, 5:9] = -torch.inf
    seeds = torch.randint(2**62, (3,), generator=rng, device="cpu").to(DEVICE)
    if "mu" in options:
        options = options | {"memory_BV": memory}
    completions = triton_sample.sample(policy, seeds, 7, **options)
    truth = reference.sample(policy, seeds, 7, **options)
    assert torch.equal(completions.token_B, truth.token_B)
    for one, other in zip(completions[1:], truth[1:], strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=5e-6)


def test_equals_of_the_last_kept_token_are_kept_and_a_draw_ignores_its_batch_mates():
    policy = tensor([2.0, 1, 1, 1, -5]).expand(12, 5).contiguous()
    seeds = torch.arange(12)
    completions = triton_sample.sample(policy, seeds, 0, top_p=0.5)
    assert set(completions.token_B.tolist()) == {0, 1, 2, 3}
    alone = triton_sample.sample(policy[7:8], seeds[7:8], 0, top_p=0.5)
    assert all(torch.equal(one, other[7:8]) for one, other in zip(alone, completions, strict=True))


def rows_to_draw(size, spread=3.0):
    """Logits of a policy and a memory, with equals, -inf and a certain token; seeds, positions."""
    rng = torch.Generator("cpu").manual_seed(size)
    policy, memory = torch.randn(2, 4, size, generator=rng, device="cpu").to(DEVICE) * spread
    policy[1, 5:9] = -torch.inf
    policy[2] = policy[2].round()
    policy[3, 7] = 60.0
    seeds = torch.randint(-(2**63), 2**63 - 1, (4,), generator=rng, device="cpu").to(DEVICE)
    return policy, memory, seeds, tensor([0, 3, 2**31, 11])


DRAWING = [
    {},
    {"mu": 0.5, "temperature": 1.3},
    {"temperature": 0.7, "top_p": 0.8},
    {"top_k": 7},
    {"top_k": 900, "top_p": 0.99},
    {"mu": 0.5, "top_p": 0.6, "min_prob": 0.02},
]


@pytest.mark.parametrize("options", DRAWING)
def test_a_token_with_noise_in_float32_is_the_one_of_the_definition_in_float64(options):
    policy, memory, *noise = rows_to_draw(2100 if len(options) < 2 else 1100)
    wide = dict(options)
    if "mu" in options:
        options, wide = options | {"memory_BV": memory}, wide | {"memory_BV": memory.double()}
    drawn = triton_draw.draw(policy, *noise, **options)
    truth = drawing.draw(policy.double(), *noise, **wide)
    assert torch.equal(drawn.token_B, truth.token_B)
    for one, other in zip(drawn[1:], truth[1:], strict=True):
        torch.testing.assert_close(one.double(), other, rtol=0, atol=5e-6)
    alone = triton_draw.draw(policy[1:2], *(value[1:2] for value in noise),
                             **options | {"memory_BV": memory[1:2]})  # fmt: skip
    assert all(torch.equal(one, other[1:2]) for one, other in zip(alone, drawn, strict=True))


@pytest.mark.parametrize("options", [{}, {"mu": 0.5}, {"top_k": 20}, {"top_p": 0.9}])
def test_log_probs_lose_nothing_however_large_the_logits_are(options):
    """As of logits of 1,000 and more; their differences are exact in float32."""
    policy, memory, *noise = rows_to_draw(1100)
    policy, memory = (policy * 64).round() / 64 + 1000, (memory * 64).round() / 64 - 700
    if "mu" in options:
        options = options | {"memory_BV": memory}
    drawn = triton_draw.draw(policy, *noise, **options)
    wide = policy.double()
    mixed = wide - memory.double() * options.get("mu", 0)
    mixed[wide < wide.topk(options.get("top_k", 1100)).values[:, -1:]] = -math.inf
    if "top_p" in options:
        mixed = drawing._nucleus(mixed, options["top_p"], drawing.LOG2E, torch.float64)
    for logp_B, logits_BV in ((drawn.logp_B, mixed), (drawn.policy_logp_B, wide)):
        truth = logits_BV.log_softmax(-1).gather(-1, drawn.token_B[:, None])[:, 0]
        torch.testing.assert_close(logp_B.double(), truth, rtol=3e-7, atol=1e-6)
        assert logp_B[3] == 0  # of a token that is certain


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("min_prob", [0.05, 0.003])
def test_what_min_prob_keeps_is_what_the_definition_keeps_to_the_last_bit(min_prob, temperature):
    """Of tokens at the edge, an ulp or a few apart; that each counts is seen in the log-prob."""
    rng = torch.Generator("cpu").manual_seed(1)
    rows = 64 if DEVICE == "cuda" else 12
    policy = torch.full((rows, 300), -50.0)
    policy[:, 7] = (torch.randn(rows, generator=rng, device="cpu") * 20).to(DEVICE)
    edge = policy[:, 7] + torch.tensor(math.log(min_prob) * temperature, dtype=torch.float32)
    kept = torch.zeros(rows, dtype=torch.float64)
    for i, token in enumerate(range(9, 109)):
        bits = edge.view(torch.int32) + (i % 9 - 4)
        policy[:, token] = bits.view(torch.float32)
        kept += policy[:, token] >= edge
    noise = torch.arange(rows), torch.zeros(rows, dtype=torch.int64)
    options = {"min_prob": min_prob, "temperature": temperature}
    drawn = triton_draw.draw(policy, *noise, **options)
    truth = drawing.draw(policy.double(), *noise, **options)
    assert torch.equal(drawn.token_B, truth.token_B)
    torch.testing.assert_close(drawn.logp_B.double(), truth.logp_B, rtol=0, atol=5e-6)
    counted = ((-truth.logp_B[truth.token_B == 7]).exp() - 1) / min_prob
    torch.testing.assert_close(counted, kept[truth.token_B == 7], rtol=0, atol=0.01)
    assert len(counted) > 0


@pytest.mark.parametrize("options", [{"top_k": 300, "top_p": 0.9}, {"mu": 0.3, "top_p": 0.97}])
def test_the_columns_of_a_pass_of_the_search_change_no_bit(options, monkeypatch):
    """As more of them are taken where rows are few."""
    policy, memory, *noise = rows_to_draw(530)
    drawn = []
    for wide in (128, 512):
        monkeypatch.setattr(triton_draw, "_WIDE", {0: wide})
        drawn.append(triton_draw.draw(policy, *noise, memory_BV=memory, **options))
    assert all(torch.equal(one, other) for one, other in zip(*drawn, strict=True))


def test_zeros_of_both_signs_are_equals_of_which_top_k_keeps_all():
    policy = torch.full((6, 40), -0.0)
    policy[:, 0], policy[:, 1] = 1.0, 0.0
    noise = torch.arange(6), torch.zeros(6, dtype=torch.int64)
    drawn = triton_draw.draw(policy, *noise, top_k=2)
    assert torch.equal(drawn.token_B, drawing.draw(policy.double(), *noise, top_k=2).token_B)


def test_a_row_with_a_nan_has_a_nan_for_its_log_prob_and_a_token_of_the_vocabulary():
    policy, _, *noise = rows_to_draw(530)
    policy[2, 300] = torch.nan
    for options in ({}, {"top_k": 3}):
        drawn = triton_draw.draw(policy, *noise, **options)
        assert drawn.policy_logp_B.isnan().tolist() == [False, False, True, False]
        assert bool(((drawn.token_B >= 0) & (drawn.token_B < 530)).all())
    sampled = triton_sample.sample(policy, noise[0], 0)
    assert sampled.logp_B.isnan().tolist() == [False, False, True, False]


@triton.jit
def waits_kernel(seeds, positions, out, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    seed, position = tl.load(seeds + row), tl.load(positions + row)
    first, second = triton_noise.log2_waits(seed, position, lane)
    tl.store(out + row * 2 * BLOCK + lane, first)
    tl.store(out + row * 2 * BLOCK + BLOCK + lane, second)


def test_the_noise_is_that_of_the_definition_with_an_error_that_favours_no_token():
    rows = 1024 if DEVICE == "cuda" else 8
    seeds, positions = torch.arange(rows) * 2**40 - 5, torch.arange(rows) * 3
    waits = torch.empty(rows, 2 * drawing.APART)
    waits_kernel[(rows,)](seeds, positions, waits, BLOCK=drawing.APART)
    error = waits.double() - drawing.log2_waits(seeds, positions, 2 * drawing.APART)
    assert float(error.abs().max()) < 2e-5 and abs(float(error.mean())) < 1e-6


@triton.jit
def threshold_kernel(
    policy, scratch, out, goal, share, V: tl.constexpr, WIDE: tl.constexpr, CAP: tl.constexpr,
    COUNT: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    policy += row * V
    top = tl.full((), -1.0e30, tl.float32)
    for start in range(0, V, WIDE):
        columns = start + tl.arange(0, WIDE)
        logits = tl.load(policy + columns, mask=columns < V, other=-float("inf"))
        top = tl.maximum(top, tl.max(logits, 0))
    every = triton_search.ordered(tl.full((), -float("inf"), tl.float32)) + 1
    least = triton_search.threshold(
        policy, policy, scratch + row * CAP, every, top, tl.zeros((), tl.int64) + goal, share, 1.0,
        0.0, V, WIDE, WIDE, CAP, False, COUNT,
    )  # fmt: skip
    tl.store(out + row, least)


KEEPING = [(32, 40, 0), (32, 0, 0.999999), (512, 0, 0.5), (512, 1, 0), (512, 530, 0)]


@pytest.mark.parametrize("cap, k, share", KEEPING)
def test_what_top_k_and_top_p_keep_is_what_the_definition_keeps_to_the_token(cap, k, share):
    """With equals at the edge, more of them than are halved in registers too."""
    policy = rows_to_draw(530)[0]
    policy = torch.cat([policy, torch.zeros(1, 530), policy[:1] * 0.01])
    order = policy.view(torch.int32)
    order = torch.where(order < 0, order ^ 0x7FFFFFFF, order)
    least = torch.empty(len(policy), dtype=torch.int32)
    scratch = torch.empty(len(policy), cap)
    threshold_kernel[(len(policy),)](
        policy, scratch, least, k, share, V=530, WIDE=128, CAP=cap, COUNT=k > 0
    )
    truth = ~drawing._nucleus(policy, share, 1.0, torch.float32).isneginf()
    if k:
        truth = (policy >= policy.topk(k).values[:, -1:]) & ~policy.isneginf()
    assert torch.equal(order >= least[:, None], truth)


def test_the_policys_statistics_are_the_same_by_kernels(loaded, monkeypatch):
    rows = [Row([20, 30, 40], [9, 8, 7]), Row([3], [0, 1])]
    weight = loaded.model.get_output_embeddings().weight
    values = []
    for chosen in ("reference", "triton"):
        monkeypatch.setenv(dispatch.VARIABLE, chosen)
        stats = logprobs.completion_stats(loaded.model, rows, temperature=0.9)
        (gradient,) = torch.autograd.grad(stats.logp_BT.sum(), weight)
        with torch.no_grad():
            _, likeliest = logprobs.with_top_k(loaded.model, rows, 3, temperature=0.9)
        values.append((*stats[1:4], gradient, *likeliest))
    for one, other in zip(*values, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_an_engine_in_bfloat16_sums_the_heads_gradient_in_float32(monkeypatch):
    rows = [
        Row([20, 30], [9, 8, 7], advantage=1.0),
        Row([3], [0, 1], advantage=-2.0),
        Row([4, 5, 6], [1], advantage=0.0),
    ]
    options = UpdateOptions(micro_batch_tokens=5)
    totals = Totals(tokens=6, sequences=3, max_length=3)
    values = []
    for chosen in ("reference", "triton"):
        monkeypatch.setenv(dispatch.VARIABLE, chosen)
        engine = local.build(precision="bfloat16")(policy.load(policy.resolve("builtin")), options)
        metrics = engine.accumulate(rows, objective.build("grpo"), totals, 1.0)
        gradient = engine._master["model.embed_tokens.weight"].grad.clone()
        head = engine.loaded.model.get_output_embeddings().weight
        assert head.grad is None and not hasattr(head, "main_grad")
        values.append((gradient, torch.tensor(engine.update(1e-4)), metrics))
    (truth, norm, _), (result, made_norm, metrics) = values
    assert float((result - truth).norm()) <= 0.03 * float(truth.norm())
    torch.testing.assert_close(made_norm, norm, rtol=0.02, atol=0)
    assert math.isfinite(metrics["loss"])


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-6), (torch.bfloat16, 2e-2)])
@pytest.mark.parametrize(
    "heads, kinds, size, window, softcap",
    [(4, 2, 16, 0, 0.0), (6, 1, 24, 7, 0.0), (3, 3, 32, 40, 3.0), (2, 1, 128, 0, 0.0)],
)
def test_attention_to_a_cache_is_that_of_the_reference(
    dtype, tolerance, heads, kinds, size, window, softcap
):
    rng = torch.Generator("cpu").manual_seed(heads)
    shapes = [(5, heads, size), *[(5, kinds, size)] * 2, *[(5, kinds, 128, size)] * 2]
    values = [torch.randn(s, generator=rng, device="cpu").to(DEVICE, dtype) for s in shapes]
    position_B = tensor([0, 1, 64, 127, 33])
    options = {"scale": size**-0.5, "window": window, "softcap": softcap, "by_rows": size == 128}
    wide = [value.double() for value in values]
    expected = attention.attend(*wide, position_B, **options)
    for cache in values[3:]:
        for i, position in enumerate(position_B.tolist()):
            cache[i, :, position:] = math.nan
    joint = torch.empty(5, kinds + 3, size, dtype=dtype)
    joint[:, 1:-2] = values[2]
    values[2] = joint[:, 1:-2]  # a part of a wider product
    attended = triton_attention.attend(*values, position_B, **options)
    torch.testing.assert_close(attended.double(), expected, rtol=tolerance, atol=tolerance)
    for new, cache in zip(values[1:3], values[3:], strict=True):
        assert torch.equal(cache[torch.arange(5), :, position_B], new)


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 2e-6), (torch.bfloat16, 1e-2)])
@pytest.mark.parametrize(
    "heads, kinds, size, window, softcap",
    [(4, 2, 16, 0, 0.0), (6, 1, 24, 7, 0.0), (3, 3, 32, 40, 3.0), (2, 1, 128, 0, 0.0)],
)
def test_attention_to_a_cache_of_int8_is_that_of_the_reference(
    dtype, tolerance, heads, kinds, size, window, softcap
):
    rng = torch.Generator("cpu").manual_seed(heads)
    shapes = [(5, heads, size), *[(5, kinds, size)] * 2, *[(5, kinds, 128, size)] * 2]
    values = [torch.randn(s, generator=rng, device="cpu").to(DEVICE, dtype) for s in shapes]
    new, prompts, position_B = values[:3], values[3:], tensor([0, 1, 64, 127, 33])
    new[0] *= 40.0  # products of which are no halves
    prompts[0][..., 5] += 4.0
    prompts[1][:, :, ::3] *= 1e-6  # scales as well
    options = {"scale": size**-0.5 / 40, "window": window, "softcap": softcap}
    caches, row = [], torch.arange(5)
    for unread in (1e30, math.nan):
        caches.append(coded.CodedCache.empty(5, 128, *prompts))
        caches[-1].put(*prompts, position_B.clamp(min=1), row, row)
        for i, position in enumerate(position_B.tolist()):
            caches[-1].scales_BKL2[i, :, position:] = unread
    wide = [value.double() for value in new]
    expected = coded.attend(*wide, caches[0], position_B, **options)
    joint = torch.empty(5, kinds + 3, size, dtype=dtype)
    joint[:, 1:-2] = new[2]
    new[2] = joint[:, 1:-2]  # a part of a wider product
    attended = triton_coded.attend(*new, caches[1], position_B, **options)
    torch.testing.assert_close(attended.double(), expected, rtol=tolerance, atol=tolerance)
    for i, position in enumerate(position_B.tolist()):
        caches[0].scales_BKL2[i, :, position + 1 :] = math.nan
    for one, other in zip(*caches, strict=True):
        step = 1.0 if one.dtype == torch.int8 else 0.0  # where a value is between two codes
        torch.testing.assert_close(one.float(), other.float(), rtol=1e-6, atol=step, equal_nan=True)


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_a_key_that_is_not_finite_stays_so_in_a_cache_of_int8(wrong):
    new = [torch.randn(1, 2, 16) for _ in range(3)]
    prompts = [torch.randn(1, 2, 8, 16) for _ in range(2)]
    cache = coded.CodedCache.empty(1, 8, *prompts)
    new[1][0, 1, 5] = wrong
    triton_coded.attend(*new, cache, tensor([3]), scale=1.0)
    assert cache.scales_BKL2[0, :, 3, 0].isfinite().tolist() == [True, False]


FUSES = (False, True) if DEVICE == "cuda" else (False,)  # test_fused.py has it on a CPU
BEFORE = [{}, {"noise": 1, "merge": False}] if DEVICE == "cuda" else [{}]  # or test_graph.py


@pytest.mark.parametrize("fuse", FUSES)
@pytest.mark.parametrize("before", BEFORE)
def test_fewer_rows_sample_what_all_rows_sample_and_the_trainer_agrees(
    loaded, monkeypatch, fuse, before
):
    """With graphs on a GPU: rows are refilled, moved, read a burst late; a memory model beside."""
    torch.use_deterministic_algorithms(False)
    torch.set_default_device(None)
    monkeypatch.setenv(dispatch.VARIABLE, "triton")
    monkeypatch.setitem(_batch.PACE, DEVICE, _batch.Pace(burst=3, lag=1, least_left=1))
    own, memory = (dataclasses.replace(loaded, model=m, eos_ids=(-1,)) for m in small_models())
    requests = [Request([20 + n, *range(n % 4)], n) for n in range(6)]
    limits, sampling = [2, 1, 7, 3, 2, 5], SamplingParams(7, 1.5, mu=0.5)
    values = []
    for least_rows in (1, 4):
        engine = GraphEngine(
            own, 4, least_rows=least_rows, fuse=fuse, memory_model=memory, **before
        )  # fmt: skip
        by_index = dict(engine.generate(requests, sampling, limits))
        values.append([by_index[i] for i in range(len(requests))])
    rows = [Row(r.prompt_token_ids, c.token_ids) for r, c in zip(requests, values[0], strict=True)]
    logps = local.LocalEngine(own, UpdateOptions(), precision="float32").logp(rows, 1.5)
    for few, all_, logp_T, limit in zip(*values, logps, limits, strict=True):
        assert few.token_ids == all_.token_ids and len(few.token_ids) == limit
        assert few.behaviour_logp == pytest.approx(all_.behaviour_logp, abs=1e-4)
        assert few.policy_logp == pytest.approx(logp_T, abs=1e-4)


def small_models():
    """A policy, and a memory of one layer less."""
    for layers in (2, 1):
        config = Qwen2Config(
            vocab_size=99, hidden_size=32, intermediate_size=48, num_hidden_layers=layers,
            num_attention_heads=4, num_key_value_heads=1, max_position_embeddings=64,
        )  # fmt: skip
        torch.manual_seed(layers)
        model = AutoModelForCausalLM.from_config(config).eval()
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(torch.randn_like(weight) * 0.2)
        yield model.to(DEVICE)


@pytest.mark.parametrize("dtype, wide", [(torch.float32, False), (torch.bfloat16, False),
                                         (torch.bfloat16, True)])  # fmt: skip
def test_an_invariant_product_is_that_of_float64_with_a_rows_bits_whatever_is_beside_it(
    dtype, wide
):
    (hidden, weight, bias), *_ = problem(19, 25, 40, 0, dtype=dtype)
    bias = None if wide else bias
    made = triton_invariant.product(hidden, weight, bias, wide=wide)
    truth = torch.nn.functional.linear(
        hidden.double(), weight.double(), None if wide else bias.double()
    )
    assert made.dtype == (torch.float32 if wide else dtype)
    tolerance = 1e-6 if made.dtype == torch.float32 else 8e-3
    torch.testing.assert_close(made.double(), truth, rtol=tolerance, atol=tolerance)
    for rows in (tensor([18]), tensor([5, 18, 0])):
        assert torch.equal(triton_invariant.product(hidden[rows], weight, bias, wide=wide),
                           made[rows])  # fmt: skip
    parts = hidden.repeat_interleave(2, 0)[::2]  # rows of a wider tensor
    assert torch.equal(triton_invariant.product(parts, weight, bias, wide=wide), made)


def test_an_invariant_mean_square_is_that_of_float64_with_a_rows_bits_whatever_is_beside_it():
    values = problem(7, 1100, 3, 0, dtype=torch.bfloat16)[0][0].view(7, 1, 1100)
    made = triton_invariant.mean_square(values)
    truth = values.double().pow(2).mean(-1, keepdim=True)
    torch.testing.assert_close(made.double(), truth, rtol=1e-6, atol=0)
    assert made.shape == (7, 1, 1)
    assert torch.equal(triton_invariant.mean_square(values[4:5]), made[4:5])


@pytest.mark.parametrize(
    "dtype, tolerance, heads, kinds, size, window, softcap",
    [
        (torch.float32, 1e-6, 3, 1, 24, 5, 0.0),
        (torch.bfloat16, 2e-2, 2, 1, 16, 0, 0.0),
        (torch.bfloat16, 2e-2, 2, 2, 16, 18, 3.0),
    ],
)
def test_the_attention_of_a_prompt_is_that_of_float64_whatever_is_beside_it(
    dtype, tolerance, heads, kinds, size, window, softcap
):
    rng = torch.Generator("cpu").manual_seed(heads)
    shapes = [(2, 37, n, size) for n in (heads, kinds, kinds)]
    values = [
        torch.randn(s, generator=rng, device="cpu").to(DEVICE, dtype).transpose(1, 2)
        for s in shapes
    ]
    options = {"scale": size**-0.5, "window": window, "softcap": softcap}
    made = triton_causal.causal(*values, **options)
    query, key, value = (v.double() for v in values)
    key, value = (v.repeat_interleave(heads // kinds, 1) for v in (key, value))
    score = query @ key.mT * size**-0.5
    score = (score / softcap).tanh() * softcap if softcap else score
    at = torch.arange(37)
    seen = (at <= at[:, None]) & (at > at[:, None] - (window or 37))
    truth = score.masked_fill(~seen, -math.inf).softmax(-1) @ value
    torch.testing.assert_close(made.double(), truth.transpose(1, 2), rtol=tolerance, atol=tolerance)
    short = triton_causal.causal(*(v[1:2, :, :19] for v in values), **options)
    assert torch.equal(short, made[1:2, :19])


SMALL = {
    "vocab_size": 32, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1,
    "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32,
    "max_position_embeddings": 64, "pad_token_id": None,
}  # fmt: skip
FAMILIES = {"norms of heads": Qwen3Config(**SMALL)}
if DEVICE == "cuda":  # the interpreter takes ten seconds for each
    FAMILIES |= {
        "biases": Qwen2Config(**SMALL),
        "windows, capped": Gemma2Config(
            **SMALL, sliding_window=5, attn_logit_softcapping=2.0, final_logit_softcapping=3.0
        ),
        "norms after": Olmo2Config(**SMALL),
    }


def random_model(config, dtype=torch.float32):
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.2)
    if getattr(config, "attn_logit_softcapping", None):
        model.set_attn_implementation("eager")  # sdpa leaves the cap of scores out
    return model.to(DEVICE, dtype)


@pytest.fixture
def by_triton(monkeypatch):
    torch.use_deterministic_algorithms(False)
    torch.set_default_device(None)
    monkeypatch.setenv(dispatch.VARIABLE, "triton")


def sampled(engine, requests, limits, sampling):
    by_index = dict(engine.generate(requests, sampling, limits))
    return [by_index[i] for i in range(len(requests))]


@pytest.mark.parametrize("deterministic", [False, True] if DEVICE == "cuda" else [True])
def test_with_a_cache_of_int8_the_engine_samples_by_kernels_what_it_samples_by_the_reference(
    loaded, by_triton, monkeypatch, deterministic
):
    own = dataclasses.replace(loaded, model=random_model(Qwen3Config(**SMALL)), eos_ids=(-1,))
    requests = [Request([20 + n, *range(5 * n % 7)], n) for n in range(3)]
    limits, sampling = [2, 1, 3], SamplingParams(3, 1.5)
    engine = GraphEngine(own, 2, least_rows=1, deterministic=deterministic, cache="int8")
    made = sampled(engine, requests, limits, sampling)
    monkeypatch.setenv(dispatch.VARIABLE, "reference")  # on the host: no graph can capture it
    own = dataclasses.replace(own, model=copy.deepcopy(own.model).cpu())
    engine = GraphEngine(own, 2, least_rows=1, cache="int8")
    for one, other in zip(made, sampled(engine, requests, limits, sampling), strict=True):
        assert one.token_ids == other.token_ids
        assert one.behaviour_logp == pytest.approx(other.behaviour_logp, abs=1e-3)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_deterministic_completion_has_the_same_bits_for_any_rows_and_after_an_interruption(
    loaded, by_triton, family
):
    """By the kernels. On a CPU sizes are those of whole vectors: torch's tails have other bits."""
    own = dataclasses.replace(loaded, model=random_model(FAMILIES[family]), eos_ids=(-1,))
    requests = [Request([20 + n, *range(5 * n % 7)], n) for n in range(3)]
    limits, sampling = [2, 1, 2], SamplingParams(2, 1.5)
    fuse = DEVICE == "cuda"
    every = GraphEngine(own, 4, fuse=fuse, deterministic=True)
    together = sampled(every, requests, limits, sampling)
    refilled = GraphEngine(own, 2, least_rows=1, fuse=fuse, merge=fuse, deterministic=True)
    assert sampled(refilled, requests, limits, sampling) == together
    alone = GraphEngine(own, 1, least_rows=1, fuse=fuse, deterministic=True)  # left after a kill
    assert sampled(alone, requests[2:], limits[2:], sampling) == together[2:]
    for request, completion in zip(requests, together, strict=True):
        token_ids = tensor([[*request.prompt_token_ids, *completion.token_ids]]).to(DEVICE)
        with torch.no_grad():
            logp_SV = (own.model(token_ids).logits[0] / 1.5).log_softmax(-1)
        first = len(request.prompt_token_ids)
        logp_T = logp_SV[first - 1 : -1].gather(-1, token_ids[0, first:, None])[:, 0]
        assert completion.behaviour_logp == pytest.approx(logp_T.tolist(), abs=1e-4)


REFUSED = {
    "native_layer_norm": GPTNeoXConfig(
        vocab_size=96, hidden_size=64, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=64,
    ),
    "mm": Qwen3MoeConfig(
        **SMALL, num_experts=2, num_experts_per_tok=1, moe_intermediate_size=32,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_model_that_adds_up_otherwise_is_refused_as_deterministic_with_the_operation(
    by_triton, name
):
    model = random_model(REFUSED[name])
    kinds = [type(module) for module in model.modules()]
    with pytest.raises(UsageError, match=name):
        Decoder(model, 2, 64, deterministic=True)
    assert [type(module) for module in model.modules()] == kinds
