"""Whether noise 2 and merged products of the graph engine are right on a GPU, and what they save.

    python -P benchmarks/decoding_anew.py [--only checks draws attention steps variants]

Within eight minutes, with no files but the checkout. Old and new in one process, on
Qwen2.5-1.5B's shape with random weights. One JSON line a measurement; the last one lists the
requirements that are not met, and the exit code is 1 if there are any. What does not fit into
--budget-s is left out and named. Without a GPU, under TRITON_INTERPRET=1, the checks alone, small.

checks     tokens, what top-k and top-p keep, log-probs and the tail of the noise against float64
draws      milliseconds of drawing a token of each row, in a CUDA graph
attention  the tiles by rows beside the others, microseconds and error against float64
steps      milliseconds of a decoding step, and the log-probs' gap to a float32 forward pass
variants   kernels that are compiled again as the number of tokens changes

Shapes: B rows, V vocabulary.
"""

import copy
import sys
import time
from pathlib import Path

import torch
import triton
import triton.language as tl
from torch import Tensor

from rlvr_cli.kernels import (
    attention,
    dispatch,
    drawing,
    triton_attention,
    triton_draw,
    triton_noise,
    triton_sample,
    triton_search,
)
from rlvr_cli.protocols import SamplingParams

sys.path.append(str(Path(__file__).parent))
from gpu_checks import CUDA, clean, replay_ms, require, run, say

sys.path.pop()  # kernels.py there has the name of a package that transformers looks for

DEVICE = torch.device("cuda" if CUDA else "cpu")
SIZE = 151_936 if CUDA else 2100
SPREADS = {"flat": 1.0, "middle": 2.5, "sharp": 4.9}  # standard deviations of logits
SHAPE = (1536, 28, 12, 2, 8960) if CUDA else (64, 2, 4, 2, 128)
PROMPT, PLACES = (544, 1088) if CUDA else (5, 64)


def logits_of(kind: str, rows: int, seed: int) -> Tensor:
    random = torch.Generator(DEVICE).manual_seed(seed)
    return torch.randn(rows, SIZE, generator=random, device=DEVICE) * SPREADS[kind]


def noise_of(rows: int) -> tuple[Tensor, Tensor]:
    row_B = torch.arange(rows, device=DEVICE)
    return (row_B - 5) * (2**40 + 7919), row_B % 1024


# ---------------------------------------------------------------- checks

OPTIONS = [
    {}, {"temperature": 0.7}, {"top_p": 0.95}, {"top_p": 0.5}, {"top_p": 0.9999}, {"top_k": 50},
    {"top_k": 1}, {"top_k": 5000, "top_p": 0.9}, {"min_prob": 0.05}, {"mu": 0.5, "min_prob": 0.01},
]  # fmt: skip


def checks() -> None:
    rows = 256 if CUDA else 3
    for options in OPTIONS if CUDA else OPTIONS[:3]:
        for kind in SPREADS:
            check_draw(kind, rows, options)
    for kind in SPREADS:
        for k, share in ((50, 0.0), (5000, 0.0), (0, 0.95), (0, 0.5), (0, 0.9999)):
            check_kept(kind, 64 if CUDA else 2, min(k, SIZE), share)
    check_tail()


def check_draw(kind: str, rows: int, options: dict) -> None:
    """A token may differ where float64 has it win by less than float32 can tell."""
    policy_BV, memory_BV, noise = logits_of(kind, rows, 7), logits_of(kind, rows, 8), noise_of(rows)
    drawn = triton_draw.draw(policy_BV, *noise, memory_BV=memory_BV, **options)
    differ, worst = 0, 0.0
    for i in range(0, rows, 32):
        part = slice(i, i + 32)
        rest = (policy_BV[part].double(), *(value[part] for value in noise))
        truth = drawing.draw(*rest, memory_BV=memory_BV[part].double(), **options)
        same_B = drawn.token_B[part] == truth.token_B
        differ += int((~same_B).sum())
        for made, right in zip(drawn[1:], truth[1:], strict=True):
            gap_B = (made[part].double() - right).abs()[same_B]
            worst = max(worst, float(gap_B.max())) if len(gap_B) else worst
    alone = triton_draw.draw(policy_BV[2:3], *(value[2:3] for value in noise),
                          memory_BV=memory_BV[2:3], **options)  # fmt: skip
    same = all(torch.equal(one[0], other[2]) for one, other in zip(alone, drawn, strict=True))
    say(draw=options, logits=kind, rows=rows, tokens_that_differ=differ, logp_max=worst,
        same_bits_alone=same)  # fmt: skip
    require(f"tokens of float64: {options}, {kind}", differ <= rows // 128)
    require(f"log-probs within 2e-5: {options}, {kind}", worst < 2e-5)
    require(f"a row alone has the same bits: {options}, {kind}", same)


@triton.jit
def kept_kernel(
    policy, scratch, out, goal, share, V: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr,
    CAP: tl.constexpr, COUNT: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    policy += row * V
    top = tl.full((), -1.0e30, tl.float32)
    for start in range(0, V, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        logits = tl.load(policy + columns, mask=columns < V, other=-float("inf"))
        top = tl.maximum(top, tl.max(logits, 0))
    every = triton_search.ordered(tl.full((), -float("inf"), tl.float32)) + 1
    least = triton_search.threshold(
        policy, policy, scratch + row * CAP, every, top, tl.zeros((), tl.int64) + goal, share, 1.0,
        0.0, V, BLOCK, WIDE, CAP, False, COUNT,
    )  # fmt: skip
    tl.store(out + row, least)


def check_kept(kind: str, rows: int, k: int, share: float) -> None:
    """The sets themselves; half of the rows are rounded to bfloat16 and have many equals."""
    policy_BV = logits_of(kind, rows, 9)
    policy_BV[::2] = policy_BV[::2].bfloat16().float()
    least_B = torch.empty(rows, dtype=torch.int32, device=DEVICE)
    wide, cap = list(triton_draw._WIDE.values())[-1], triton_draw._CAP
    kept_kernel[(rows,)](
        policy_BV, torch.empty(rows, cap, device=DEVICE), least_B, k, share, V=SIZE,
        BLOCK=drawing.APART, WIDE=wide, CAP=cap, COUNT=k > 0, num_warps=8,
    )  # fmt: skip
    bits_BV = policy_BV.view(torch.int32)
    kept_BV = torch.where(bits_BV < 0, bits_BV ^ 0x7FFFFFFF, bits_BV) >= least_B[:, None]
    if k:
        truth_BV = policy_BV >= policy_BV.topk(k).values[:, -1:]
    else:
        truth_BV = ~drawing._nucleus(policy_BV, share, 1.0, torch.float32).isneginf()
    wrong_B = (kept_BV != truth_BV).sum(-1)
    say(kept={"top_k": k} if k else {"top_p": share}, logits=kind, rows=rows,
        rows_that_differ=int((wrong_B > 0).sum()), tokens=int(wrong_B.sum()),
        of=int(truth_BV.sum()))  # fmt: skip
    # exp2 of a card is off by 2^-22: of a mass a token more or less may be the edge
    require(f"what is kept: {k or share}, {kind}", int(wrong_B.sum()) <= (0 if k else rows // 8))


@triton.jit
def tail_kernel(out, BLOCK: tl.constexpr, STEPS: tl.constexpr):
    """How many of the waits, in nats, are below 2^-16, 2^-20, 2^-24 and 2^-28."""
    first = tl.program_id(0).to(tl.int64) * STEPS
    power = -16.0 - 4.0 * tl.arange(0, 4).to(tl.float32)
    counts = tl.zeros((4, BLOCK), tl.int32)
    lane = tl.arange(0, BLOCK)
    for i in range(STEPS):
        one, other = triton_noise.log2_waits(first + i, first * 0 + 3, lane)
        counts += (one[None, :] - 0.5287663729448977 < power[:, None]).to(tl.int32)
        counts += (other[None, :] - 0.5287663729448977 < power[:, None]).to(tl.int32)
    tl.atomic_add(out + tl.arange(0, 4), tl.sum(counts, 1).to(tl.int64))


def check_tail() -> None:
    programs, steps = (1 << 13, 1 << 10) if CUDA else (2, 2)
    counts = torch.zeros(4, dtype=torch.int64, device=DEVICE)
    tail_kernel[(programs,)](counts, BLOCK=1024, STEPS=steps)
    draws = programs * steps * 2048
    expected = [draws / 2**power for power in (16, 20, 24, 28)]
    say(tail=counts.tolist(), expected=expected)
    for count, mean in zip(counts.tolist(), expected, strict=True):
        require("the tail of the noise", abs(count - mean) < 5 * mean**0.5 + 3)


# ---------------------------------------------------------------- draws


def draws() -> None:
    from rlvr_cli.engines.rollout._step import draw

    few = SamplingParams(8, top_k=50)
    for rows in (64, 256, 512, 1024):
        for kind in ("flat", "sharp"):
            seed_B, position_B = noise_of(rows)
            logits = [logits_of(kind, rows, seed) for seed in range(3)]

            def anew(x, s=seed_B, p=position_B, **options):
                return triton_draw.draw(x, s, p, **options)

            methods = {
                "noise 1": lambda x, s=seed_B: triton_sample.sample(x, s, 0),
                "noise 2": anew,
                "noise 1, top_p 0.95": lambda x, s=seed_B: triton_sample.sample(
                    x, s, 0, top_p=0.95
                ),
                "noise 2, top_p 0.95": lambda x: anew(x, top_p=0.95),
                "noise 1, top_k 50": lambda x, s=seed_B: draw(x, s, few),
                "noise 2, top_k 50": lambda x: anew(x, top_k=50),
                "noise 2, top_k 50, top_p 0.95": lambda x: anew(x, top_k=50, top_p=0.95),
            }
            ms = {
                name: replay_ms([lambda x=x, m=method: m(x) for x in logits])
                for name, method in methods.items()
            }
            own = triton_draw._SPLITS, triton_draw._WIDE
            for splits in (1, 2, 8):
                triton_draw._SPLITS = splits
                ms[f"noise 2, {splits} programs a row"] = replay_ms(
                    [lambda x=x: anew(x) for x in logits]
                )
            triton_draw._SPLITS = own[0]
            for wide in (256, 512, 1024):
                triton_draw._WIDE = {0: wide}
                ms[f"noise 2, top_p 0.95, {wide} columns"] = replay_ms(
                    [lambda x=x: anew(x, top_p=0.95) for x in logits]
                )
            triton_draw._WIDE = own[1]
            say(rows=rows, logits=kind, ms=ms)
            for name in ("noise {}", "noise {}, top_p 0.95", "noise {}, top_k 50"):
                is_faster = ms[name.format(2)] < ms[name.format(1)]
                require(f"noise 2 is faster: {name.format(2)}, {rows} rows, {kind}", is_faster)


# ---------------------------------------------------------------- attention


def attend() -> None:
    for rows in (64, 128, 256, 512, 1024):
        facts = attention_of(rows)
        say(attention=facts, rows=rows, position=PROMPT)
        best = next(tiles for least, tiles in triton_attention.BY_ROWS.items() if rows >= least)
        is_fast = facts[str(best)]["us"] <= 1.03 * facts["today"]["us"]
        require(f"attention's tiles by rows are no slower at {rows} rows", is_fast)
        require("attention is right", max(x["error"] for x in facts.values()) < 5e-3)


def attention_of(rows: int) -> dict[str, dict[str, float]]:
    heads, key_heads, size = SHAPE[2], SHAPE[3], SHAPE[0] // SHAPE[2]
    options = {"device": DEVICE, "dtype": torch.bfloat16 if CUDA else torch.float32}
    shapes = [(rows, heads, size), *[(rows, key_heads, size)] * 2]
    new = [torch.randn(shape, **options) for shape in shapes]
    cache = (rows, key_heads, PLACES, size)
    count = max(2, min(12, int(30e9 / (4 * rows * key_heads * PLACES * size))))
    caches = [[torch.randn(cache, **options) for _ in range(2)] for _ in range(count)]
    position_B = torch.full((rows,), PROMPT, device=DEVICE)
    few = [value[:8].double() for value in (*new, *caches[0])]
    truth = attention.attend(*few, position_B[:8], scale=size**-0.5)
    facts, own = {}, triton_attention.BY_ROWS
    for tiles in (None, (32, 1, 4), (64, 2, 3)):
        triton_attention.BY_ROWS = {0: tiles}

        def run(both, by_rows=tiles is not None):
            return triton_attention.attend(
                *new, *both, position_B, scale=size**-0.5, by_rows=by_rows
            )

        error = (run(caches[0])[:8].double() - truth).norm() / truth.norm()
        us = 1e3 * replay_ms([lambda both=both, run=run: run(both) for both in caches])
        name = str(tiles) if tiles else "today"
        facts[name] = {"us": round(us, 1), "error": float(error)}
    triton_attention.BY_ROWS = own
    return facts


# ---------------------------------------------------------------- the step


def model_of():
    from transformers import Qwen2Config, Qwen2ForCausalLM

    hidden, layers, heads, key_heads, inner = SHAPE
    config = Qwen2Config(
        vocab_size=SIZE, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=key_heads, intermediate_size=inner, tie_word_embeddings=True,
        max_position_embeddings=32768, bos_token_id=None, eos_token_id=0,
    )  # fmt: skip
    torch.manual_seed(0)
    with DEVICE:
        model = Qwen2ForCausalLM(config).eval().requires_grad_(False)
    return model.to(torch.bfloat16) if CUDA else model


def batch_of(model, rows: int, noise: int, merge: bool, new_tokens: int):
    from rlvr_cli.engines.rollout._batch import ContinuousBatch, GenerationJob
    from rlvr_cli.engines.rollout._decoder import Decoder
    from rlvr_cli.protocols import Request

    random = torch.Generator().manual_seed(1)
    decoder = Decoder(model, rows, PLACES, fuse=CUDA, merge=merge)
    batch = ContinuousBatch(
        [decoder], rows, SamplingParams(new_tokens), (-1,), new_tokens, noise=noise, least=rows
    )
    prompts = torch.randint(2, SIZE, (rows, PROMPT), generator=random).tolist()
    batch.add([GenerationJob(i, Request(p, i), new_tokens) for i, p in enumerate(prompts)])
    return batch, prompts


WAYS = {"today": (1, False), "noise 2": (2, False), "merged": (1, True), "both": (2, True)}


def steps() -> None:
    model = model_of()
    gaps(model)
    for rows in (512, 64, 256, 1024) if CUDA else (4,):
        ms, start_s = {}, {}
        for name, (noise, merge) in WAYS.items():
            start = time.perf_counter()
            batch, _ = batch_of(model, rows, noise, merge, PLACES - PROMPT)
            batch.run()  # compiles, captures
            wait()
            start_s[name] = round(time.perf_counter() - start, 1)
            best = []
            for _ in range(3):
                start, before = time.perf_counter(), batch.steps
                while batch.steps < before + (64 if CUDA else 2):
                    batch.run()
                    batch._polls.clear()
                wait()
                best.append((time.perf_counter() - start) / (batch.steps - before))
            ms[name] = round(1e3 * min(best), 3)
            del batch
            clean()
        say(step_ms=ms, rows=rows, position=PROMPT, start_s=start_s,
            tokens_s={name: round(1e3 * rows / x) for name, x in ms.items()})  # fmt: skip
        require(f"the step is faster with both at {rows} rows", ms["both"] < ms["today"])
        require(f"merging does not cost at {rows} rows", ms["merged"] <= 1.02 * ms["today"])


def gaps(model) -> None:
    """Of sampled log-probs to a forward pass in float32: no larger merged than today."""
    rows, new_tokens = (16, 64) if CUDA else (2, 4)
    wide = copy.deepcopy(model).float()
    facts = {}
    for name, (noise, merge) in WAYS.items():
        batch, prompts = batch_of(model, rows, noise, merge, new_tokens)
        done: dict[int, object] = {}
        while batch.busy:
            batch.run()
            done |= dict(batch.finished())
        gap = []
        for i, prompt in enumerate(prompts):
            token_ids = torch.tensor([prompt + done[i].token_ids], device=DEVICE)
            with torch.no_grad():
                logits = wide(token_ids).logits[0, len(prompt) - 1 : -1]
            tokens = token_ids[0, len(prompt) :, None]
            logps = logits.log_softmax(-1).gather(-1, tokens)[:, 0]
            gap.append((logps.cpu() - torch.tensor(done[i].behaviour_logp)).abs())
        both = torch.cat(gap)
        facts[name] = {"mean": float(both.mean()), "max": float(both.max())}
        del batch
    say(log_prob_gap_to_float32=facts)
    for name, gap in facts.items():
        require(f"the gap of {name}", gap["mean"] < 1.1 * facts["today"]["mean"] + 1e-5)
    del wide
    clean()


def wait() -> None:
    if CUDA:
        torch.cuda.synchronize()


# ---------------------------------------------------------------- variants


def variants() -> None:
    """A fresh number of tokens compiles nothing, whatever it is modulo 4 and 16."""
    compiled: list[str] = []

    def listener(*, metadata, cache_hit, **_):
        name = metadata["name"] if isinstance(metadata, dict) else metadata.name
        compiled.append(name)

    triton.knobs.compilation.listener = listener
    head = (torch.randn(SIZE, 256, device=DEVICE, dtype=torch.bfloat16) * 0.05).requires_grad_()
    for count in (4096, 4100, 4098, 4097, 4099, 33_000):
        compiled.clear()
        wait()
        start = time.perf_counter()
        hidden = torch.randn(count, 256, device=DEVICE, dtype=torch.bfloat16).requires_grad_()
        target = torch.randint(0, SIZE, (count,), device=DEVICE)
        dispatch.token_stats(hidden, head, target, temperature=1.0).logp_N.sum().backward()
        wait()
        say(tokens=count, s=round(time.perf_counter() - start, 2), compiled=list(compiled))
        if count not in (4096, 33_000):  # the last may be a case of its own: no stash
            require(f"{count} tokens compile nothing", not compiled)
    triton.knobs.compilation.listener = None


def main() -> int:
    parts = {"checks": checks, "draws": draws, "attention": attend, "steps": steps,
             "variants": variants}  # fmt: skip
    return run(parts, chosen=list(parts) if CUDA else ["checks"], budget_s=440.0,
               description=__doc__, triton=triton.__version__)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
