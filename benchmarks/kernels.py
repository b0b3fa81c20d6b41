"""Times of the log-prob kernels, of other projects' and of bare matrix products on this GPU.

    python -P benchmarks/kernels.py                         # all shapes, forward and backward
    python -P benchmarks/kernels.py sweep --shapes 1536     # the fastest tiles of each shape
    python -P benchmarks/kernels.py step                    # a training step, three ways
    python -P benchmarks/kernels.py grow                    # time and memory as N, H and V grow

The floor is the three bfloat16 products of cuBLAS alone. Every method is first held to float64 on
rows of the same problem: too large an error of ours ends the run, of others it is noted. Medians in
milliseconds, peaks in GiB over inputs, gradients included. A table goes to stdout, JSON to
benchmarks/results/.
Hidden states and heads are made up so that two fifths of the tokens have an entropy below 0.1.
"""

import argparse
import gc
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

ROOT = Path(__file__).resolve().parent.parent
try:
    import rlvr_cli  # noqa: F401
except ImportError:  # the repository's root on the path would hide packages behind its folders
    _FOLDER = tempfile.TemporaryDirectory()
    (Path(_FOLDER.name) / "rlvr_cli").symlink_to(ROOT / "rlvr_cli")
    sys.path.insert(0, _FOLDER.name)

# ruff: noqa: E402
sys.path.append(str(ROOT / "benchmarks"))
from kernel_methods import Made, Problem, differentiated, loss_of, make, methods, ours, truth

# This file has the name of a package that transformers looks for.
sys.path[:] = [path for path in sys.path if Path(path or ".").resolve() != ROOT / "benchmarks"]

from rlvr_cli.kernels import reference, triton_forward, triton_stats
from rlvr_cli.kernels.triton_tiles import Product, Tiles

SHAPES = {896: 151936, 1536: 151936, 3584: 152064}
GIB = 1 << 30
CHECKED = 256  # rows held to float64
BOUNDS = {"logp": 5e-4, "entropy": 5e-4, "gradient": 4e-3}


def errors(method: Callable[[Problem], Made], problem: Problem) -> dict[str, float]:
    """Largest absolute errors of the statistics, relative ones of gradients, on some rows."""
    some = Problem(
        problem.hidden_NH[:CHECKED].contiguous(), problem.head_VH, problem.target_N[:CHECKED],
        problem.topk_NK[:CHECKED].contiguous(), problem.advantage_N[:CHECKED],
    )  # fmt: skip
    made = method(some)
    right = truth(some, made.loss)
    found = {}
    for name, one, other in (
        ("logp", made.logp_N, right.logp_N),
        ("entropy", made.entropy_N, right.entropy_N),
    ):
        if one is not None and other is not None:
            found[name] = float((one.double() - other).abs().max())
    for name in ("by_hidden_NH", "by_head_VH"):
        one, other = getattr(made, name).double(), getattr(right, name)
        found[name] = float((one - other).norm() / other.norm())
    return found


def too_large(found: dict[str, float]) -> str | None:
    for name, value in found.items():
        bound = BOUNDS.get(name, BOUNDS["gradient"])
        if not value <= bound:
            return f"the error of {name} is {value:.1e}, {bound:.0e} is allowed"
    return None


def median_ms(function: Callable[[], Any], *, repeats: int = 5, budget_s: float = 1.5) -> float:
    made = function()
    del made
    torch.cuda.synchronize()
    times: list[float] = []
    start = time.perf_counter()
    while len(times) < 3 or (len(times) < repeats and time.perf_counter() - start < budget_s):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        made = function()
        last.record()
        last.synchronize()
        del made
        times.append(first.elapsed_time(last))
    return statistics.median(times)


def peak_gib(function: Callable[[], Any]) -> float:
    clean()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    made = function()
    torch.cuda.synchronize()
    del made
    return (torch.cuda.max_memory_allocated() - before) / GIB


def clean() -> None:
    gc.collect()
    torch.cuda.empty_cache()


def floor_ms(problem: Problem) -> tuple[float, float]:
    """All three products, and the first of them alone."""
    hidden, head = problem.hidden_NH, problem.head_VH
    logits = torch.empty(len(hidden), len(head), dtype=hidden.dtype, device=hidden.device)
    by_hidden, by_head = torch.empty_like(hidden), torch.empty_like(head)

    def forward() -> None:
        torch.mm(hidden, head.T, out=logits)

    def whole() -> None:
        forward()
        torch.mm(logits, head, out=by_hidden)
        torch.mm(logits.T, hidden, out=by_head)

    return median_ms(whole), median_ms(forward)


def forward_ms(problem: Problem, floor: float) -> dict[str, Any]:
    """The statistics alone, as old and reference log-probs are made; and the likeliest tokens."""
    with torch.no_grad():
        run = ours(0)
        ms = median_ms(lambda: run(problem.hidden_NH, problem.head_VH, problem))
        by_k = {
            k: median_ms(lambda k=k: triton_stats.top_k(problem.hidden_NH, problem.head_VH, k))
            for k in (8, 64)
        }
    return {"ms": ms, "x": ms / floor, "top_k_ms": by_k}


def compare(options: argparse.Namespace, say: Callable[..., None]) -> None:
    for count in options.rows:
        for hidden in options.shapes:
            problem = make(count, hidden, SHAPES[hidden], "cuda")
            floor, product = floor_ms(problem)
            clean()
            shape = {"N": count, "H": hidden, "V": SHAPES[hidden]}
            say(**shape, method="floor", ms=floor, x=1.0, forward_ms=product)
            for name, method in methods().items():
                if options.only and not any(word in name for word in options.only):
                    continue
                if time.perf_counter() - options.start > options.budget:
                    say(**shape, method=name, why="no time was left")
                    continue
                say(**shape, method=name, **measured(name, method, problem, floor))
            try:
                say(**shape, method="ours, forward alone", **forward_ms(problem, product))
            except Exception as error:
                say(**shape, method="ours, forward alone", why=first_line(error))
            del problem
            clean()


_CHECKS: dict[tuple[str, int], dict[str, float]] = {}


def measured(name: str, method: Any, problem: Problem, floor: float) -> dict[str, Any]:
    """Time, peak and errors; or why there are none, whatever a peer raises."""
    try:
        key = name, problem.hidden_NH.shape[1]
        if key not in _CHECKS and name != "liger grpo":  # its loss is one of whole sequences
            _CHECKS[key] = errors(method, problem)
            clean()
        found = _CHECKS.get(key, {})
        if (why := too_large(found)) and name.startswith("ours"):
            sys.exit(f"error: {name} at H {key[1]}: {why}; nothing is reported")
        ms = median_ms(lambda: method(problem))
        return {
            "ms": ms,
            "x": ms / floor,
            "peak_gib": peak_gib(lambda: method(problem)),
            "errors": found,
            **({"note": why} if why else {}),
        }
    except Exception as error:
        return {"why": first_line(error)}
    finally:
        clean()


def first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:160]}"


def sweep(options: argparse.Namespace, say: Callable[..., None]) -> None:
    """The forward pass with and without the stash for tiles around the ones in use."""
    cuts = [(128, 256, 64, 8), (256, 128, 64, 8), (128, 128, 64, 4), (128, 128, 64, 8)]
    for count in options.rows:
        for hidden in options.shapes:
            problem = make(count, hidden, SHAPES[hidden], "cuda")
            _, floor = floor_ms(problem)
            clean()
            best: dict[bool, tuple[float, str]] = {}
            for rows, columns, depth, warps in cuts:
                for group, stages in ((8, 3), (16, 3), (32, 3), (8, 4)):
                    tiles = Tiles(rows, columns, depth, group, warps, stages)
                    product = Product(
                        problem.hidden_NH, problem.head_VH, None, 1.0, None, tiles, SHAPES[hidden]
                    )
                    for stash in (False, True):
                        facts = {"N": count, "H": hidden, "stash": stash, "tiles": list(tiles)}
                        try:
                            ms = median_ms(
                                lambda p=product, t=problem.target_N, s=stash: (
                                    triton_forward.forward(p, t, stash=s)
                                ),
                                repeats=4,
                                budget_s=0.3,
                            )
                        except Exception as error:
                            say(**facts, why=first_line(error))
                            continue
                        say(**facts, ms=ms, x=ms / floor)
                        best[stash] = min(best.get(stash, (1e9, "")), (ms, str(list(tiles))))
            for stash, (ms, found) in best.items():
                say(N=count, H=hidden, stash=stash, best=found, ms=ms, x=ms / floor)
            del problem
            clean()


def grow(options: argparse.Namespace, say: Callable[..., None]) -> None:
    """Time and peak as one of N, H and V grows."""
    start = {"N": 8192, "H": 1536, "V": 151936}
    for name, values in (
        ("N", (1024, 4096, 16384, 65536)),
        ("H", (512, 1024, 2048, 4096, 8192)),
        ("V", (32000, 65536, 128256, 262144)),
    ):
        for value in values:
            shape = start | {name: value}
            problem = make(shape["N"], shape["H"], shape["V"], "cuda")
            for way, stash_bytes in (("stash", 1 << 60), ("recompute", 0)):
                method = differentiated(ours(stash_bytes), "all")
                try:
                    ms = median_ms(lambda m=method, p=problem: m(p))
                    peak = peak_gib(lambda m=method, p=problem: m(p))
                    say(**shape, method=way, ms=ms, peak_gib=peak)
                except Exception as error:
                    say(**shape, method=way, why=first_line(error))
            del problem
            clean()


def step(options: argparse.Namespace, say: Callable[..., None]) -> None:
    """A step of Qwen2.5-1.5B's shape with random weights: kernels, reference, plain logits."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(
        vocab_size=151936, hidden_size=1536, num_hidden_layers=28, num_attention_heads=12,
        num_key_value_heads=2, intermediate_size=8960, tie_word_embeddings=True,
    )  # fmt: skip
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = Qwen2ForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    model.gradient_checkpointing_enable({"use_reentrant": False})
    model.train()
    length = 2048
    rows = options.tokens // length
    token_BS = torch.randint(151936, (rows, length), device="cuda")
    target_N = token_BS.roll(-1, -1).flatten()
    advantage_N = torch.randn(target_N.shape, device="cuda")

    def logits(hidden_NH: Tensor, head_VH: Tensor, target_N: Tensor) -> Any:
        logp_NV = (hidden_NH @ head_VH.T).float().log_softmax(-1)
        entropy_N = -(logp_NV.exp() * logp_NV).sum(-1)
        return logp_NV.gather(-1, target_N[:, None])[:, 0], entropy_N

    ways: dict[str, Callable[..., Any]] = {
        "kernels, stash": lambda *a: triton_stats.token_stats(
            *a, entropy_gradient=True, stash_bytes=1 << 60
        )[:2],
        "kernels, recompute": lambda *a: triton_stats.token_stats(
            *a, entropy_gradient=True, stash_bytes=0
        )[:2],
        "reference": lambda *a: reference.token_stats(*a, entropy_gradient=True)[:2],
        "plain logits": logits,
    }

    def run(stats: Callable[..., Any]) -> None:
        hidden_BSH = model.base_model(input_ids=token_BS, use_cache=False).last_hidden_state
        logp_N, entropy_N = stats(hidden_BSH.flatten(0, 1), model.lm_head.weight, target_N)
        loss_of(advantage_N, logp_N, entropy_N, None).backward()
        model.zero_grad(set_to_none=True)

    for name, stats in ways.items():
        try:
            ms = median_ms(lambda s=stats: run(s), repeats=5, budget_s=20)
            peak = peak_gib(lambda s=stats: run(s))
            say(tokens=options.tokens, method=name, ms=ms, peak_gib=peak)
        except Exception as error:
            say(tokens=options.tokens, method=name, why=first_line(error))
        clean()


def versions() -> dict[str, str]:
    found = {}
    for name in ("torch", "triton", "liger-kernel", "cut-cross-entropy", "verl", "quack-kernels"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def line(facts: dict[str, Any]) -> str:
    words = []
    for name, value in facts.items():
        if isinstance(value, dict):
            words += [f"{key} {number:.2g}" for key, number in value.items()]
        elif name in ("method", "why", "best"):
            words.append(f"{value:30}" if name == "method" else f"{name}: {value}")
        else:
            words.append(f"{name} {value:.2f}" if isinstance(value, float) else f"{name} {value}")
    return "  ".join(words)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    ways = {"compare": compare, "sweep": sweep, "grow": grow, "step": step}
    parser.add_argument("what", nargs="?", choices=ways, default="compare")
    parser.add_argument("--rows", type=int, nargs="+", default=[8192, 32768])
    parser.add_argument("--shapes", type=int, nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--only", nargs="+", help="methods whose name holds one of these words")
    parser.add_argument("--tokens", type=int, default=16384, help="of a training step")
    parser.add_argument("--budget", type=float, default=270, help="seconds to start methods in")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("error: there is no GPU here\nhint: run it on one; tests/kernels need none")
    options.start = time.perf_counter()
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    card = torch.cuda.get_device_name()
    print(card, json.dumps(versions()), flush=True)
    records: list[dict[str, Any]] = []

    def say(**facts: Any) -> None:
        records.append(facts)
        print(line(facts), flush=True)

    ways[options.what](options, say)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"{options.what}-{card.lower().replace(' ', '-')}.json"
    whole = {"card": card, "versions": versions(), "records": records}
    path.write_text(json.dumps(whole, indent=1) + "\n")
    print(path)


if __name__ == "__main__":
    main()
