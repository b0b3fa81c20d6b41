"""Times of the log-prob kernels, of other projects' and of bare matrix products on this GPU.

    python -P benchmarks/kernels.py                         # all shapes, forward and backward
    python -P benchmarks/kernels.py sweep --shapes 1536     # the fastest tiles of each shape
    python -P benchmarks/kernels.py step                    # a training step, three ways
    python -P benchmarks/kernels.py grow                    # time and memory as N, H and V grow

The floor is the three bfloat16 products of cuBLAS alone. Every method is first held to float64 on
rows of the same problem: too large an error of ours ends the run, of others it is noted. Medians in
milliseconds, peaks in GiB over inputs, gradients included. A table goes to stdout, JSON to
benchmarks/results/.
Hidden states and heads are random, and such that two fifths of the tokens have an entropy below
0.1.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent
try:
    import rlvr_cli  # noqa: F401
except ImportError:  # the repository's root on the path would hide packages behind its folders
    _FOLDER = tempfile.TemporaryDirectory()
    (Path(_FOLDER.name) / "rlvr_cli").symlink_to(ROOT / "rlvr_cli")
    sys.path.insert(0, _FOLDER.name)

# ruff: noqa: E402
sys.path.append(str(ROOT / "benchmarks"))
from kernel_methods import Outputs, Problem, make, methods, ours, truth
from kernel_timing import SHAPES, clean, first_line, floor_of, median_ms, medians_ms, peak_gib
from kernel_ways import grow, step, sweep

# This file has the name of a package that transformers looks for.
sys.path[:] = [path for path in sys.path if Path(path or ".").resolve() != ROOT / "benchmarks"]

from rlvr_cli.kernels import triton_stats

CHECKED = 1024  # rows held to float64; `recompute` takes several slices for so many
BOUNDS = {"logp": 5e-4, "entropy": 5e-4, "gradient": 4e-3}


def errors(method: Callable[[Problem], Outputs], problem: Problem) -> dict[str, float]:
    """Largest absolute errors of the statistics, relative ones of gradients, on some rows."""
    some = Problem(
        problem.hidden_NH[:CHECKED].contiguous(), problem.head_VH, problem.target_N[:CHECKED],
        problem.topk_NK[:CHECKED].contiguous(), problem.advantage_N[:CHECKED],
    )  # fmt: skip
    result = method(some)
    right = truth(some, result.loss)
    actual = {}
    for name, one, other in (
        ("logp", result.logp_N, right.logp_N),
        ("entropy", result.entropy_N, right.entropy_N),
    ):
        if one is not None and other is not None:
            actual[name] = float((one.double() - other).abs().max())
    for name in ("by_hidden_NH", "by_head_VH"):
        one, other = getattr(result, name).double(), getattr(right, name)
        actual[name] = float((one - other).norm() / other.norm())
    return actual


def too_large(found: dict[str, float]) -> str | None:
    for name, value in found.items():
        bound = BOUNDS.get(name, BOUNDS["gradient"])
        if not value <= bound:
            return f"the error of {name} is {value:.1e}, {bound:.0e} is allowed"
    return None


def forward_ms(problem: Problem) -> dict[str, Any]:
    """The statistics alone, which old and reference log-probs need; and the likeliest tokens."""
    with torch.no_grad():
        run, product = ours(0), floor_of(problem)[1]
        ms, floor = medians_ms(
            [lambda: run(problem.hidden_NH, problem.head_VH, problem), product], repeats=9
        )
        by_k = {
            k: median_ms(lambda k=k: triton_stats.top_k(problem.hidden_NH, problem.head_VH, k))
            for k in (8, 64)
        }
    return {"ms": ms, "x": ms / floor, "top_k_ms": by_k}


def hold_ours(options: argparse.Namespace) -> None:
    """Ends the run, before anything is timed, where ours is further from float64 than allowed."""
    for hidden in options.shapes:
        problem = make(CHECKED, hidden, SHAPES[hidden], "cuda")
        for name, method in methods().items():
            if not name.startswith("ours"):
                continue
            _CHECKS[name, hidden] = errors(method, problem)
            if why := too_large(_CHECKS[name, hidden]):
                sys.exit(f"error: {name} at H {hidden}: {why}; nothing is reported")
        del problem
        clean()


def compare(options: argparse.Namespace, say: Callable[..., None]) -> None:
    hold_ours(options)
    for count in options.rows:
        for hidden in options.shapes:
            problem = make(count, hidden, SHAPES[hidden], "cuda")
            floor, product = medians_ms([*floor_of(problem)])
            clean()
            shape = {"N": count, "H": hidden, "V": SHAPES[hidden]}
            say(**shape, method="floor", ms=floor, x=1.0, forward_ms=product)
            for name, method in methods().items():
                if options.only and not any(word in name for word in options.only):
                    continue
                if time.perf_counter() - options.start > options.budget:
                    say(**shape, method=name, why="no time was left")
                    continue
                say(**shape, method=name, **measured(name, method, problem))
            try:
                say(**shape, method="ours, forward alone", **forward_ms(problem))
            except Exception as error:
                say(**shape, method="ours, forward alone", why=first_line(error))
            del problem
            clean()


_CHECKS: dict[tuple[str, int], dict[str, float]] = {}


def measured(name: str, method: Any, problem: Problem) -> dict[str, Any]:
    """Time, beside the floor's in turn, peak and errors; or why not, whatever a peer raises."""
    try:
        key = name, problem.hidden_NH.shape[1]
        if key not in _CHECKS and name != "liger grpo":  # its loss is one of complete sequences
            _CHECKS[key] = errors(method, problem)
            clean()
        actual = _CHECKS.get(key, {})
        why = too_large(actual)
        ms, floor = medians_ms([lambda: method(problem), floor_of(problem)[0]])
        clean()
        return {
            "ms": ms,
            "x": ms / floor,
            "floor_ms": floor,
            "peak_gib": peak_gib(lambda: method(problem)),
            "errors": actual,
            **({"note": why} if why else {}),
        }
    except Exception as error:
        return {"why": first_line(error)}
    finally:
        clean()


def versions() -> dict[str, str]:
    actual = {}
    for name in ("torch", "triton", "liger-kernel", "cut-cross-entropy", "verl", "quack-kernels"):
        try:
            actual[name] = version(name)
        except PackageNotFoundError:
            actual[name] = "not installed"
    return actual


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
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"{options.what}-{card.lower().replace(' ', '-')}.json"
    records: list[dict[str, Any]] = []

    def say(**facts: Any) -> None:
        """Prints a line and writes all so far, so that a run cut short leaves its results."""
        records.append(facts)
        print(line(facts), flush=True)
        complete = {"card": card, "versions": versions(), "records": records}
        path.write_text(json.dumps(complete, indent=1) + "\n")

    ways[options.what](options, say)
    print(path)


if __name__ == "__main__":
    main()
