"""Whether deterministic=true has the same bits for any number of rows on a GPU, and its cost.

    python -P benchmarks/deterministic.py [--only kernels bits speed]

In about 70 s, with no files but the checkout, on Qwen2.5-1.5B's shape with
random weights. One JSON line a measurement; the last one lists the requirements that are not met,
and the exit code is 1 if there are any. What does not fit into --budget-s is left out and named.
Without a GPU, small, each row by itself: that the script runs, and the bits.

kernels  bits of rows within few and many, by both tiles; microseconds beside cuBLAS'
bits     completions by 1, 64 and 512 rows, refilled, and resumed after an interruption; and how
         many differ without the option
speed    tokens a second with and without, in turn; at least half must remain

Shapes: N rows, H width, V columns of a product.
"""

import functools
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from rlvr_cli.engines.rollout._batch import ContinuousBatch, GenerationJob
from rlvr_cli.engines.rollout._decoder import Decoder
from rlvr_cli.engines.rollout.graph import GraphEngine
from rlvr_cli.models.policy import Loaded, Policy
from rlvr_cli.protocols import Completion, Request, SamplingParams

sys.path.append(str(Path(__file__).parent))
from gpu_checks import CUDA, clean, require, run, say

sys.path.pop()  # kernels.py there has the name of a package that transformers looks for

DEVICE = torch.device("cuda" if CUDA else "cpu")
if CUDA:
    from rlvr_cli.kernels import triton_causal, triton_invariant
# hidden, layers, heads, key heads, inner, vocabulary; rows of a batch, prompt, new tokens
SHAPE = (1536, 28, 12, 2, 8960, 151_936) if CUDA else (64, 2, 4, 2, 96, 300)
ROWS, PROMPT, NEW = (512, 64, 448) if CUDA else (16, 6, 9)


def wait() -> None:
    if CUDA:
        torch.cuda.synchronize()


# ---------------------------------------------------------------- kernels


def kernels() -> None:
    if not CUDA:
        return
    hidden, _, _, _, inner, vocabulary = SHAPE
    for size, width in ((hidden, hidden), (256, hidden), (inner, hidden), (hidden, inner)):
        check_product(size, width)
    check_product(vocabulary, hidden, wide=True)
    check_rest()


def normal(*shape: int) -> Tensor:
    random = torch.Generator(DEVICE).manual_seed(sum(shape))
    return torch.randn(shape, generator=random, device=DEVICE).bfloat16()


def check_product(size: int, width: int, *, wide: bool = False) -> None:
    weight_VH, rows_NH = normal(size, width) / width**0.5, normal(1024, width)
    made, us = [], {}

    def product(tiles, rows=slice(None)):
        return triton_invariant.product(rows_NH[rows], weight_VH, wide=wide, tiles=tiles)

    for tiles in triton_invariant.TILES.values():
        every = product(tiles)
        made.append(every[:64].clone())
        for few in (slice(0, 1), slice(511, 512), slice(3, 67), slice(100, 612)):
            same = torch.equal(product(tiles, few), every[few])
            require(f"bits of a product of {size} x {width}, tiles of {tiles.rows}", same)
        for count in (64, 512):
            name = f"tiles of {tiles.rows}, {count} rows"
            us[name] = timed(lambda tiles=tiles, n=count: product(tiles, slice(n)))
    as_it_is = {"out_dtype": torch.float32} if wide else {}
    for count in (64, 512):
        us[f"cuBLAS, {count} rows"] = timed(
            lambda n=count: torch.mm(rows_NH[:n], weight_VH.T, **as_it_is)
        )
    truth = rows_NH[:64].double() @ weight_VH.double().T
    error = max(float((one.double() - truth).norm() / truth.norm()) for one in made)
    require(f"a product of {size} x {width} is right", error < (1e-5 if wide else 5e-3))
    say(product=[size, width], us=us, error=error, same_bits_by_both=torch.equal(*made))
    clean()


def check_rest() -> None:
    states = normal(ROWS, SHAPE[0])
    norms = triton_invariant.mean_square(states)
    for i in (0, 5, ROWS - 1):
        same = torch.equal(triton_invariant.mean_square(states[i : i + 1]), norms[i : i + 1])
        require("bits of a mean of squares", same)
    norm_error = float((norms - states.double().pow(2).mean(-1, keepdim=True)).abs().max())
    require("a mean of squares is right", norm_error < 1e-5)
    heads = [normal(8, n, 700, 128) for n in (12, 2, 2)]
    attended = triton_causal.causal(*heads, scale=128**-0.5)
    short = triton_causal.causal(*(v[3:4, :, :201] for v in heads), scale=128**-0.5)
    require("bits of the attention of prompts", torch.equal(short, attended[3:4, :201]))
    truth = torch.nn.functional.scaled_dot_product_attention(
        *(v.float() for v in heads), is_causal=True, enable_gqa=True
    ).transpose(1, 2)
    error = float((attended.float() - truth).norm() / truth.norm())
    require("the attention of prompts is right", error < 5e-3)
    say(mean_square_error=norm_error, causal_error=error)


def timed(method: Callable[[], object], repeats: int = 20) -> float:
    """Microseconds of a call, the median of runs that the host does not hold up."""
    method()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(repeats):
            method()
    times = []
    for _ in range(9):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        graph.replay()
        last.record()
        last.synchronize()
        times.append(1e3 * first.elapsed_time(last) / repeats)
    return round(sorted(times)[4], 1)


# ---------------------------------------------------------------- bits


@functools.cache
def loaded() -> Loaded:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    hidden, layers, heads, key_heads, inner, vocabulary = SHAPE
    config = Qwen2Config(
        vocab_size=vocabulary, hidden_size=hidden, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=key_heads, intermediate_size=inner,
        tie_word_embeddings=True, max_position_embeddings=32768, bos_token_id=None, eos_token_id=0,
    )  # fmt: skip
    torch.manual_seed(0)
    with DEVICE:
        model = Qwen2ForCausalLM(config).eval().requires_grad_(False)
    model = model.to(torch.bfloat16) if CUDA else model
    nowhere = Policy(Path("random"), "random", identity="random")
    return Loaded(nowhere, model, None, eos_ids=(-1,), pad_id=0, context=32768)


def requests_of(count: int) -> tuple[list[Request], list[int]]:
    """Prompts of unlike lengths, eight completions of each; a few are long, as rows end."""
    random = torch.Generator().manual_seed(1)
    lengths = torch.randint(1, PROMPT, (-(-count // 8),), generator=random).tolist()
    prompts = [torch.randint(2, SHAPE[5], (n,), generator=random).tolist() for n in lengths]
    limits = torch.randint(1, NEW // 4, (count,), generator=random)
    limits[::31] = NEW
    return [Request(prompts[i // 8], 7919 * i) for i in range(count)], limits.tolist()


def sampled(
    engine: GraphEngine, chosen: list[int], *, stop_after: int | None = None
) -> dict[int, Completion]:
    """The completions of chosen requests; with `stop_after`, those there are at an interruption."""
    requests, limits = requests_of(2 * ROWS)
    sampling = SamplingParams(NEW, 1.0)
    asked, most = [requests[i] for i in chosen], [limits[i] for i in chosen]
    found: dict[int, Completion] = {}
    for index, completion in engine.generate(asked, sampling, most):
        found[chosen[index]] = completion
        if len(found) == stop_after:
            break
    clean()
    return found


def differing(found: dict[int, Completion], truth: dict[int, Completion]) -> int:
    return sum(completion != truth[index] for index, completion in found.items())


def bits() -> None:
    policy = loaded()
    every = list(range(2 * ROWS))

    def engine(rows: int, **options) -> GraphEngine:
        return GraphEngine(policy, rows, **{"fuse": CUDA, "deterministic": True} | options)

    truth = sampled(engine(ROWS), every)
    first = sampled(engine(ROWS), every, stop_after=ROWS)
    left = [i for i in every if i not in first]
    some, few = every[5 : 5 + ROWS // 2], every[9:12]
    ways = {
        "interrupted": first,
        "resumed": sampled(engine(ROWS, least_rows=ROWS // 8), left),
        f"{ROWS // 8} rows": sampled(engine(ROWS // 8), some),
        "1 request": sampled(engine(ROWS, least_rows=1), few[:1]),
    }
    facts = {name: differing(found, truth) for name, found in ways.items()}
    eager = sampled(engine(ROWS // 2, fuse=False), every[:ROWS])
    facts["1 row, not compiled"] = differing(
        sampled(engine(1, least_rows=1, fuse=False), few), eager
    )
    plain = sampled(engine(ROWS, deterministic=False), every)
    without = differing(sampled(engine(ROWS // 8, deterministic=False), some), plain)
    say(that_differ=facts, compiled_from_not=differing(eager, truth),
        without_the_option=f"{without} of {len(some)}")  # fmt: skip
    for name, count in facts.items():
        require(f"the same bits: {name}", count == 0)
    gap = check_gap(policy, truth)
    say(log_prob_gap_to_float32=gap, without=check_gap(policy, plain))


def check_gap(policy: Loaded, completions: dict[int, Completion]) -> float:
    """The mean gap of the first completions' log-probs to a forward pass in float32."""
    wide = policy.model
    requests, _ = requests_of(2 * ROWS)
    dtype = wide.dtype
    wide.float()
    gaps = []
    for i in range(8):
        ids = torch.tensor([requests[i].prompt_token_ids + completions[i].token_ids], device=DEVICE)
        with torch.no_grad():
            logits = wide(ids).logits[0, len(requests[i].prompt_token_ids) - 1 : -1].float()
        tokens = torch.tensor(completions[i].token_ids, device=DEVICE)[:, None]
        logps = logits.log_softmax(-1).gather(-1, tokens)[:, 0].cpu()
        gaps.append((logps - torch.tensor(completions[i].behaviour_logp)).abs())
    wide.to(dtype)
    gap = float(torch.cat(gaps).mean())
    require("log-probs are those of a forward pass", gap < (0.1 if CUDA else 1e-4))
    return gap


# ---------------------------------------------------------------- speed


def speed() -> None:
    policy = loaded()
    places = 1088 if CUDA else 64
    for rows in (ROWS, ROWS // 8):
        batches = {}
        for deterministic in (False, True):
            start = time.perf_counter()
            decoder = Decoder(policy.model, rows, places, fuse=CUDA, deterministic=deterministic)
            new_tokens = places - PROMPT
            batch = ContinuousBatch(
                [decoder], rows, SamplingParams(new_tokens), (-1,), new_tokens, least=rows,
            )  # fmt: skip
            random = torch.Generator().manual_seed(2)
            prompts = torch.randint(2, SHAPE[5], (rows, PROMPT), generator=random).tolist()
            batch.add([GenerationJob(i, Request(p, i), new_tokens) for i, p in enumerate(prompts)])
            wait()
            filled_s = round(time.perf_counter() - start, 1)
            batch.run()  # compiles, captures
            wait()
            batches[deterministic] = (batch, filled_s, [])
        for _ in range(3):
            for batch, _, seconds in batches.values():  # in turn
                wait()
                start, before = time.perf_counter(), batch.steps
                while batch.steps < before + (96 if CUDA else 4):
                    batch.run()
                    batch._polls.clear()
                wait()
                seconds.append((time.perf_counter() - start) / (batch.steps - before))
        plain, fixed = (min(batches[way][2]) for way in (False, True))
        say(rows=rows, step_ms=[round(1e3 * s, 3) for s in (plain, fixed)],
            tokens_s=[round(rows / s) for s in (plain, fixed)], remains=round(plain / fixed, 3),
            prefilled_s=[batches[way][1] for way in (False, True)])  # fmt: skip
        if CUDA:
            require(f"half of the speed remains at {rows} rows", plain / fixed >= 0.5)
        del batches, batch, decoder
        clean()


def main() -> int:
    parts = {"kernels": kernels, "bits": bits, "speed": speed}
    return run(parts, chosen=list(parts), budget_s=200.0, description=__doc__)


if __name__ == "__main__":
    sys.exit(main())
