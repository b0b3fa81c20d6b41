"""Milliseconds and bytes of what runs on a GPU."""

import gc
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from kernel_methods import Problem

SHAPES = {896: 151936, 1536: 151936, 3584: 152064}  # vocabulary by hidden size
GIB = 1 << 30


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


def first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:160]}"
