"""Milliseconds of drawing a token of each row: the project's kernel beside others that read less.

    python -P benchmarks/sampling_methods.py

`one pass` finds logsumexp and winner together, in float32, with 64 bits of noise a token; `search`
is top-p and top-k by thresholds. First each method's tokens are compared with float64's, and the
noise's tail is counted: with 24 bits of noise a token of probability 1e-8 could never win. Without
a GPU, under TRITON_INTERPRET=1, the comparison alone, small.

Shapes: B rows, V vocabulary. Logits are in units of log 2 within the kernels.
"""

import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import triton
import triton.language as tl
from torch import Tensor

from rlvr_cli.kernels.reference import seeds_at

sys.path.append(str(Path(__file__).parent))
from gpu_checks import replay_ms

sys.path.pop()  # kernels.py there has the name of a package that transformers looks for

LOG2E = 1.4426950408889634
CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
LOGITS = {"flat": 1.0, "middle": 2.5, "sharp": 4.9}  # standard deviations
BYTES_S = 4.3e12  # of device memory


@triton.jit
def _words(key, token):
    """64 bits of noise of each token, splitmix64's, as two words."""
    bits = key + (token.to(tl.uint64) + 1) * 0x9E3779B97F4A7C15
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB
    bits = bits ^ (bits >> 31)
    return (bits >> 32).to(tl.uint32), bits.to(tl.uint32)


@triton.jit
def _log2_wait(key, token):
    """log2 of each token's exponential variate -log2(1 - v), in float32.

    The token with the largest logit less this is drawn: Gumbel noise is -log of such a variate.
    v = (64 bits + 1/2) / 2^64 keeps 24 significant bits near 0, where noise makes a token win.
    """
    high, low = _words(key, token)
    v = high.to(tl.float32) * 2.0**-32 + (low.to(tl.float32) + 0.5) * 2.0**-64
    v = tl.minimum(v, 0.99999994)
    small = 0.36067376022224085 + v * 0.28853900817779268
    small = v * (
        1.4426950408889634 + v * (0.7213475204444817 + v * (0.48089834696298783 + v * small))
    )
    return tl.log2(tl.where(v < 0.03125, small, -tl.log2(1.0 - v)))


@triton.jit
def _logits(policy, columns, scale, V: tl.constexpr):
    return tl.load(policy + columns, mask=columns < V, other=-float("inf")).to(tl.float32) * scale


@triton.jit
def _store(policy, token, logp, chosen, lse2, scale):
    tl.store(token, chosen.to(tl.int64))
    logp2 = tl.load(policy + chosen).to(tl.float32) * scale - lse2
    tl.store(logp, tl.minimum(logp2, 0.0) * 0.6931471805599453)


@triton.jit
def one_pass_kernel(
    policy, stride, seeds, token, logp, part, scale,
    V: tl.constexpr, BLOCK: tl.constexpr, SPLITS: tl.constexpr, SHARE: tl.constexpr,
):  # fmt: skip
    """The sum of exponentials and the winner of a share of a row; each lane keeps its own."""
    row, split = tl.program_id(0).to(tl.int64), tl.program_id(1)
    policy += row * stride
    key = tl.load(seeds + row).to(tl.uint64)
    most = tl.full((BLOCK,), -1.0e30, tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    best = tl.full((BLOCK,), -float("inf"), tl.float32)
    where = tl.zeros((BLOCK,), tl.int32)
    for start in range(split * SHARE, (split + 1) * SHARE, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        logits = _logits(policy, columns, scale, V)
        higher = tl.maximum(most, logits)
        total = total * tl.exp2(most - higher) + tl.exp2(logits - higher)
        most = higher
        noisy = logits - _log2_wait(key, columns)
        where = tl.where(noisy > best, columns, where)
        best = tl.maximum(best, noisy)
    top = tl.max(most, 0)
    lse2 = top + tl.log2(tl.sum(total * tl.exp2(most - top), 0))
    winner = tl.max(best, 0)
    chosen = tl.min(tl.where(best == winner, where, V), 0)
    if SPLITS == 1:
        _store(policy, token + row, logp + row, chosen, lse2, scale)
    else:
        part += (row * SPLITS + split) * 3
        tl.store(part, lse2)
        tl.store(part + 1, winner)
        tl.store(part + 2, chosen.to(tl.float32, bitcast=True))


@triton.jit
def join_kernel(policy, stride, token, logp, part, scale, V: tl.constexpr, SPLITS: tl.constexpr):
    """The token of a row from its shares."""
    row = tl.program_id(0).to(tl.int64)
    part += (row * SPLITS + tl.arange(0, SPLITS)) * 3
    lse2 = tl.load(part)
    winners = tl.load(part + 1)
    chosen = tl.load(part + 2).to(tl.int32, bitcast=True)
    top = tl.max(lse2, 0)
    lse2 = top + tl.log2(tl.sum(tl.exp2(lse2 - top), 0))
    chosen = tl.min(tl.where(winners == tl.max(winners, 0), chosen, V), 0)
    _store(policy + row * stride, token + row, logp + row, chosen, lse2, scale)


def one_pass(logits_BV: Tensor, seed_B: Tensor, *, block: int, warps: int, splits: int = 1):
    count, size = logits_BV.shape
    token_B = torch.empty(count, dtype=torch.int64, device=logits_BV.device)
    logp_B = torch.empty(count, device=logits_BV.device)
    part = torch.empty(count, splits, 3, device=logits_BV.device)
    share = -(-size // (splits * block)) * block
    row = (logits_BV, logits_BV.stride(0))
    one_pass_kernel[(count, splits)](
        *row, seed_B, token_B, logp_B, part, LOG2E,
        V=size, BLOCK=block, SPLITS=splits, SHARE=share, num_warps=warps,
    )  # fmt: skip
    if splits > 1:
        join_kernel[(count,)](
            *row, token_B, logp_B, part, LOG2E, V=size, SPLITS=splits, num_warps=1
        )
    return token_B, logp_B


@triton.jit
def _ordered(value):
    """int32 in the order of float32 values."""
    bits = value.to(tl.int32, bitcast=True)
    return tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)


@triton.jit
def _narrow(
    policy, scale, lse2, goal, low, high, above, between, at,
    V: tl.constexpr, WIDE: tl.constexpr, TOPK: tl.constexpr,
):  # fmt: skip
    """The two of eight rising thresholds `at` between which enough becomes too little."""
    mass = tl.zeros((8, WIDE), tl.float32)
    count = tl.zeros((8, WIDE), tl.float32)
    for start in range(0, V, WIDE):
        columns = start + tl.arange(0, WIDE)
        logits = _logits(policy, columns, scale, V)
        kept = (_ordered(logits)[None, :] >= at[:, None]) & (columns < V)[None, :]
        count += tl.where(kept, 1.0, 0.0)
        if not TOPK:
            mass += tl.where(kept, tl.exp2(logits - lse2)[None, :], 0.0)
    counts = tl.sum(count, 1)
    kept_8 = counts if TOPK else tl.sum(mass, 1)
    enough = kept_8 >= goal
    above = tl.maximum(above, tl.max(tl.where(enough, 0.0, kept_8), 0))
    low = tl.maximum(low, tl.max(tl.where(enough, at, low), 0))
    high = tl.minimum(high, tl.min(tl.where(enough, high, at), 0))
    most = tl.min(tl.where(enough, counts, V * 1.0), 0)
    least = tl.max(tl.where(enough, 0.0, counts), 0)
    return low, high, above, tl.minimum(between, (most - least).to(tl.int32))


@triton.jit
def _halve(
    policy, scale, lse2, goal, low, high, above, scratch,
    V: tl.constexpr, BLOCK: tl.constexpr, CAP: tl.constexpr, TOPK: tl.constexpr,
):  # fmt: skip
    """The threshold among at most CAP logits from `low` up to `high`, which registers hold."""
    filled = tl.full((), 0, tl.int32)
    for start in range(0, V, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        logits = _logits(policy, columns, scale, V)
        order = _ordered(logits)
        inside = ((order >= low) & (order < high) & (columns < V)).to(tl.int32)
        count = tl.sum(inside, 0)
        if count > 0:
            place = filled + tl.cumsum(inside, 0) - 1
            tl.store(scratch + place, logits, mask=(inside > 0) & (place < CAP))
            filled += count
    tl.debug_barrier()
    at = tl.arange(0, CAP)
    logits = tl.load(scratch + at, mask=at < filled, other=-float("inf"))
    order = _ordered(logits)
    each = tl.where(at < filled, 1.0 if TOPK else tl.exp2(logits - lse2), 0.0)
    for _ in range(32):
        middle = (low.to(tl.int64) + (high.to(tl.int64) - low.to(tl.int64)) // 2).to(tl.int32)
        enough = above + tl.sum(tl.where(order >= middle, each, 0.0), 0) >= goal
        low = tl.where(enough, middle, low)
        high = tl.where(enough, high, middle)
    return low


@triton.jit(do_not_specialize=["top_k"])
def search_kernel(
    policy, stride, seeds, token, logp, scratch, scale, top_p, top_k,
    V: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr, CAP: tl.constexpr, TOPK: tl.constexpr,
):  # fmt: skip
    """A token of the likeliest with a mass of top_p, or of the top_k largest and their equals.

    At `low` enough is kept, at `high` too little. Passes with eight thresholds each bring them
    together until at most CAP logits lie between.
    """
    row = tl.program_id(0).to(tl.int64)
    policy += row * stride
    most = tl.full((BLOCK,), -1.0e30, tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, V, BLOCK):
        logits = _logits(policy, start + tl.arange(0, BLOCK), scale, V)
        higher = tl.maximum(most, logits)
        total = total * tl.exp2(most - higher) + tl.exp2(logits - higher)
        most = higher
    top = tl.max(most, 0)
    lse2 = top + tl.log2(tl.sum(total * tl.exp2(most - top), 0))
    goal = top_k.to(tl.float32) if TOPK else top_p
    eight = tl.arange(0, 8)
    low, high = _ordered(top - 3.0e38), _ordered(top) + 1
    above, between = tl.full((), 0.0, tl.float32), tl.full((), V, tl.int32)
    at = _ordered(top - (16 - 2 * eight).to(tl.float32))  # four times less likely each
    while (between > CAP) & (high.to(tl.int64) - low.to(tl.int64) > 1):
        low, high, above, between = _narrow(
            policy, scale, lse2, goal, low, high, above, between, at, V, WIDE, TOPK
        )
        step = tl.maximum((high.to(tl.int64) - low.to(tl.int64)) // 9, 1)
        at = tl.minimum(low.to(tl.int64) + step * (eight + 1), high.to(tl.int64)).to(tl.int32)
    if high.to(tl.int64) - low.to(tl.int64) > 1:
        low = _halve(
            policy, scale, lse2, goal, low, high, above, scratch + row * CAP, V, BLOCK, CAP, TOPK
        )
    key = tl.load(seeds + row).to(tl.uint64)
    best = tl.full((BLOCK,), -float("inf"), tl.float32)
    where = tl.zeros((BLOCK,), tl.int32)
    mass = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, V, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        logits = _logits(policy, columns, scale, V)
        kept = (_ordered(logits) >= low) & (columns < V)
        if tl.max(kept.to(tl.int32), 0) > 0:
            mass += tl.where(kept, tl.exp2(logits - lse2), 0.0)
            noisy = tl.where(kept, logits - _log2_wait(key, columns), -float("inf"))
            where = tl.where(noisy > best, columns, where)
            best = tl.maximum(best, noisy)
    chosen = tl.min(tl.where(best == tl.max(best, 0), where, V), 0)
    lse2 += tl.log2(tl.sum(mass, 0))
    _store(policy, token + row, logp + row, chosen, lse2, scale)


def search(
    logits_BV: Tensor, seed_B: Tensor, *, top_p: float = 1.0, top_k: int = 0,
    block: int, wide: int, cap: int, warps: int,
):  # fmt: skip
    count, size = logits_BV.shape
    token_B = torch.empty(count, dtype=torch.int64, device=logits_BV.device)
    logp_B = torch.empty(count, device=logits_BV.device)
    scratch = torch.empty(count, cap, device=logits_BV.device)
    search_kernel[(count,)](
        logits_BV, logits_BV.stride(0), seed_B, token_B, logp_B, scratch, LOG2E, top_p, top_k,
        V=size, BLOCK=block, WIDE=wide, CAP=cap, TOPK=top_k > 0, num_warps=warps,
    )  # fmt: skip
    return token_B, logp_B


@triton.jit
def tail_kernel(out, BLOCK: tl.constexpr, STEPS: tl.constexpr):
    """How many of the variates, in nats, are below 2^-16, 2^-20, 2^-24 and 2^-28."""
    first = tl.program_id(0).to(tl.int64) * STEPS + 1
    power = -16.0 - 4.0 * tl.arange(0, 4).to(tl.float32)
    counts = tl.zeros((4, BLOCK), tl.int32)
    for i in range(STEPS):
        key = (first + i).to(tl.uint64) * 0xD1342543DE82EF95
        nats2 = _log2_wait(key, tl.arange(0, BLOCK)) - 0.5287663729448977
        counts += (nats2[None, :] < power[:, None]).to(tl.int32)
    tl.atomic_add(out + tl.arange(0, 4), tl.sum(counts, 1).to(tl.int64))


def in_float64(logits_BV: Tensor, seed_B: Tensor, *, top_p: float = 1.0, top_k: int = 0):
    """Token and log-prob of each row by the definition."""
    token_V = torch.arange(logits_BV.shape[1], device=seed_B.device)
    bits_BV = _mix(seed_B[:, None] + (token_V + 1) * _signed(0x9E3779B97F4A7C15))
    high_BV, low_BV = (bits_BV >> 32) & 0xFFFFFFFF, bits_BV & 0xFFFFFFFF
    v_BV = (high_BV.double() * 2.0**32 + low_BV.double() + 0.5) * 2.0**-64
    logits_BV = logits_BV.double()
    if top_k:
        least_B1 = logits_BV.topk(top_k, -1).values[:, -1:]
        logits_BV = logits_BV.masked_fill(logits_BV < least_B1, -torch.inf)
    logp_BV = logits_BV.log_softmax(-1)
    if top_p < 1:
        ordered_BV = logp_BV.sort(-1, descending=True).values
        before_BV = ordered_BV.exp().cumsum(-1) - ordered_BV.exp()
        last_B1 = (before_BV < top_p).sum(-1, keepdim=True).clamp(min=1) - 1
        logp_BV = logp_BV.masked_fill(logp_BV < ordered_BV.gather(-1, last_B1), -torch.inf)
        logp_BV = logp_BV.log_softmax(-1)
    token_B = (logp_BV - (-torch.log1p(-v_BV)).log()).argmax(-1)
    return token_B, logp_BV.gather(-1, token_B[:, None])[:, 0]


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _mix(value: Tensor) -> Tensor:
    """The finaliser of splitmix64; int64 has its bits."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        value = (value ^ (value >> shift) & ((1 << (64 - shift)) - 1)) * _signed(factor)
    return value


def say(**facts) -> None:
    print(json.dumps(facts), flush=True)


def logits_of(kind: str, rows: int, size: int, seed: int) -> Tensor:
    random = torch.Generator(DEVICE).manual_seed(seed)
    return torch.randn(rows, size, generator=random, device=DEVICE) * LOGITS[kind]


def compare(name: str, method: Callable, **options) -> None:
    rows, size = (256, 151936) if CUDA else (6, 1003)
    for kind in LOGITS:
        logits_BV = logits_of(kind, rows, size, 7)
        seed_B = torch.arange(rows, device=DEVICE) * 7919 + 13
        seed_B = seeds_at(seed_B, torch.full_like(seed_B, 5))
        token_B, logp_B = method(logits_BV, seed_B)
        differ, worst = 0, 0.0
        for i in range(0, rows, 64):
            part = slice(i, i + 64)
            exact_B, exact_logp_B = in_float64(logits_BV[part], seed_B[part], **options)
            same_B = token_B[part] == exact_B
            differ += int((~same_B).sum())
            gap_B = (logp_B[part].double() - exact_logp_B).abs()[same_B]
            worst = max(worst, float(gap_B.max())) if len(gap_B) else worst
        say(compare=name, logits=kind, rows=rows, tokens_that_differ=differ, logp_max=worst)


def check() -> None:
    at_once = {"block": 2048, "warps": 8} if CUDA else {"block": 256, "warps": 4}
    cut = {"wide": 1024, "cap": 2048} if CUDA else {"wide": 128, "cap": 128}
    for splits in (1, 4):
        method = functools.partial(one_pass, splits=splits, **at_once)
        compare(f"one pass, {splits} programs a row", method)
    for options in ({"top_p": 0.95}, {"top_p": 0.5}, {"top_k": 50}, {"top_k": 1}):
        method = functools.partial(search, **options, **at_once, **cut)
        compare(f"search, {options}", method, **options)
    programs, block, steps = (1 << 14, 1024, 1 << 10) if CUDA else (2, 64, 2)
    counts = torch.zeros(4, dtype=torch.int64, device=DEVICE)
    tail_kernel[(programs,)](counts, BLOCK=block, STEPS=steps)
    draws = programs * block * steps
    say(tail=counts.tolist(), expected=[draws / 2**power for power in (16, 20, 24, 28)])


def measure(rows: int, kind: str, size: int = 151936) -> None:
    from rlvr_cli.engines.rollout._step import draw
    from rlvr_cli.kernels import triton_sample
    from rlvr_cli.protocols import SamplingParams

    logits = [logits_of(kind, rows, size, seed) for seed in range(3)]
    seed_B = torch.arange(rows, device=DEVICE)
    few = SamplingParams(8, top_k=50)
    methods: dict[str, Callable[[Tensor], object]] = {
        "ours": lambda x: triton_sample.sample(x, seed_B, 0),
        "ours, top_p 0.95": lambda x: triton_sample.sample(x, seed_B, 0, top_p=0.95),
        "ours, top_k 50": lambda x: draw(x, seed_B, few),
    }
    for block, warps, splits in ((4096, 16, 1), (2048, 8, 1), (2048, 8, 4), (1024, 4, 8)):
        name = f"one pass ({block}, {warps} warps, {splits} programs a row)"
        options = {"block": block, "warps": warps, "splits": splits}
        methods[name] = lambda x, o=options: one_pass(x, seed_B, **o)
    for block, wide, warps in ((2048, 1024, 8), (4096, 2048, 16)):
        options = {"block": block, "wide": wide, "cap": 2048, "warps": warps}
        methods[f"search top_p 0.95 ({block}, {warps} warps)"] = lambda x, o=options: search(
            x, seed_B, top_p=0.95, **o
        )
        methods[f"search top_k 50 ({block}, {warps} warps)"] = lambda x, o=options: search(
            x, seed_B, top_k=50, **o
        )
    ms = {
        name: replay_ms([lambda x=x, m=method: m(x) for x in logits])
        for name, method in methods.items()
    }
    say(rows=rows, logits=kind, ms=ms, one_read_ms=round(1e3 * rows * size * 4 / BYTES_S, 3))


def main() -> None:
    card = torch.cuda.get_device_name() if CUDA else "cpu"
    say(card=card, torch=torch.__version__, triton=triton.__version__)
    check()
    if not CUDA:
        sys.exit()
    for rows in (64, 256, 512, 1024):
        for kind in ("flat", "sharp"):
            measure(rows, kind)


if __name__ == "__main__":
    main()
