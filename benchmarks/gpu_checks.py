"""What scripts that check and time kernels on a GPU share: JSON lines, parts, a time limit."""

import argparse
import gc
import json
import time
from collections.abc import Callable

import torch

CUDA = torch.cuda.is_available()
_START = time.perf_counter()
_MISSED: list[str] = []


def say(**facts: object) -> None:
    print(json.dumps({"t": round(time.perf_counter() - _START, 1), **facts}), flush=True)


def require(what: str, is_met: bool) -> None:
    if not is_met:
        _MISSED.append(what)


def clean() -> None:
    gc.collect()
    if CUDA:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()


def run(
    parts: dict[str, Callable[[], None]],
    *,
    chosen: list[str],
    budget_s: float,
    description: str | None,
    **facts: object,
) -> int:
    """Runs the parts that --only names, else the chosen; 1 if a requirement is not met, else 0."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=parts, default=chosen)
    parser.add_argument("--budget-s", type=float, default=budget_s)
    options = parser.parse_args()
    card = torch.cuda.get_device_name() if CUDA else "cpu"
    say(card=card, torch=torch.__version__, **facts)
    for name in options.only:
        if time.perf_counter() - _START > options.budget_s:
            require(f"time for {name}", False)
            continue
        try:
            parts[name]()
        except Exception as error:  # the other parts say what they have to say
            require(f"{name}: {type(error).__name__}: {str(error)[:300]}", False)
        clean()
    say(not_met=_MISSED)
    return 1 if _MISSED else 0


def replay_ms(methods: list[Callable[[], object]]) -> float:
    """Median of a call within a CUDA graph of several, each over values of its own."""
    for method in methods:
        method()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for method in methods:
            method()
    times = []
    for _ in range(15):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        graph.replay()
        last.record()
        last.synchronize()
        times.append(first.elapsed_time(last) / len(methods))
    return round(sorted(times)[7], 4)
