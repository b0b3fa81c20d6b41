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
    return medians_ms([function], repeats=repeats, budget_s=budget_s)[0]


def medians_ms(
    functions: list[Callable[[], Any]], *, repeats: int = 5, budget_s: float = 1.5
) -> list[float]:
    """Of functions in turn, as the clock of a GPU follows its load: compare what this returns."""
    times: list[list[float]] = [[] for _ in functions]
    for function in functions:
        result = function()
        del result
    torch.cuda.synchronize()
    start = time.perf_counter()
    while len(times[0]) < 3 or (len(times[0]) < repeats and time.perf_counter() - start < budget_s):
        for function, mine in zip(functions, times, strict=True):
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            first.record()
            result = function()
            last.record()
            last.synchronize()
            del result
            mine.append(first.elapsed_time(last))
    return [statistics.median(mine) for mine in times]


def peak_gib(function: Callable[[], Any]) -> float:
    clean()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    result = function()
    torch.cuda.synchronize()
    del result
    return (torch.cuda.max_memory_allocated() - before) / GIB


def clean() -> None:
    gc.collect()
    torch.cuda.empty_cache()


def floor_of(problem: Problem) -> tuple[Callable[[], None], Callable[[], None]]:
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

    return whole, forward


def first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:160]}"
