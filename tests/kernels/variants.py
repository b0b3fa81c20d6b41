"""Counts the variants of each kernel that Triton would compile for updates of several sizes.

    python -P tests/kernels/variants.py [N ...]

Triton compiles a kernel again where an integer becomes a multiple of 16, or an address one of 16
bytes. It decides that from the arguments, so no GPU is needed: nothing is launched, and the
results are what memory holds.
"""

import collections
import sys

import torch
from triton.backends.compiler import GPUTarget
from triton.compiler import make_backend
from triton.runtime import jit

from rlvr_cli.kernels import (
    triton_causal,
    triton_draw,
    triton_invariant,
    triton_sample,
    triton_stats,
    triton_tiles,
)

CARD = GPUTarget("cuda", 90, 32)
VARIANTS: dict[str, set[str]] = collections.defaultdict(set)


def record(self, *args, grid, warmup, **options):
    backend = make_backend(CARD)
    bind = jit.create_function_from_signature(self.signature, self.params, backend)
    _, specialization, constants = bind(*args, **options)
    VARIANTS[self.__name__].add(f"{specialization} {constants}")


def update(count: int, k: int, stash_bytes: int) -> None:
    hidden_NH = torch.randn(count, 64).bfloat16().requires_grad_()
    head_VH = torch.randn(320, 64).bfloat16().requires_grad_()
    topk_NK = torch.arange(1, k + 1).expand(count, k).contiguous()
    stats = triton_stats.token_stats(
        hidden_NH, head_VH, torch.zeros(count, dtype=torch.int64), topk_NK=topk_NK if k else None,
        entropy_gradient=True, stash_bytes=stash_bytes,
    )  # fmt: skip
    (stats.logp_N.sum() + stats.entropy_N.sum()).backward()
    triton_stats.top_k(hidden_NH.detach(), head_VH.detach(), 2)


def sampled(rows: int) -> None:
    """What the graph engine computes for so many rows, or for a prompt of so many tokens."""
    hidden_NH = torch.zeros(rows, 64).bfloat16()
    triton_invariant.product(hidden_NH, torch.zeros(320, 64).bfloat16())
    triton_invariant.mean_square(hidden_NH)
    prompts = [torch.zeros(rows % 3 + 1, rows, heads, 16).transpose(1, 2) for heads in (4, 2, 2)]
    triton_causal.causal(*prompts, scale=1.0)
    rows_B = torch.zeros(rows, dtype=torch.int64)
    for top_k in (0, 5):
        triton_draw.draw(torch.zeros(rows, 320), rows_B, rows_B, top_k=top_k)
    triton_sample.sample(torch.zeros(rows, 320), rows_B, rows)


def main() -> None:
    jit.JITFunction.run = record
    triton_tiles._generation = lambda device: CARD.arch // 10
    torch.empty = torch.ones  # every row has a gradient
    for count in [int(word) for word in sys.argv[1:]] or (64, 65, 66, 67, 80, 33, 40_000):
        for stash_bytes in (1 << 40, 0):
            update(count, 3, stash_bytes)
        sampled(count % 97 + 1)
    for name, variants in sorted(VARIANTS.items()):
        print(f"{name}: {len(variants)}")


if __name__ == "__main__":
    main()
