"""Milliseconds of calls within a CUDA graph."""

from collections.abc import Callable

import torch


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
