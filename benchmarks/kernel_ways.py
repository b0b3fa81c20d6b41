"""What kernels.py measures beside the comparison: tiles, growth and a whole training step."""

import argparse
import functools
from collections.abc import Callable
from typing import Any

import torch
from kernel_methods import Problem, differentiated, loss_of, make, ours
from kernel_timing import SHAPES, clean, first_line, floor_of, median_ms, medians_ms, peak_gib
from torch import Tensor

from rlvr_cli.kernels import (
    reference,
    triton_forward,
    triton_gradients,
    triton_stats,
    triton_upstream,
)
from rlvr_cli.kernels.triton_tiles import Product, Tiles

DEVICE = "cuda"
QWEN = {
    "vocab_size": 151936,
    "hidden_size": 1536,
    "num_hidden_layers": 28,
    "num_attention_heads": 12,
    "num_key_value_heads": 2,
    "intermediate_size": 8960,
}


def sweep(options: argparse.Namespace, say: Callable[..., None]) -> None:
    """The forward pass with and without the stash, and the pass over the stash, cut otherwise."""
    cuts = [(128, 256, 64, 8), (256, 128, 64, 8), (128, 128, 64, 4), (128, 128, 64, 8)]
    for count in options.rows:
        for hidden in options.shapes:
            problem = make(count, hidden, SHAPES[hidden], "cuda")
            _, floor = medians_ms([*floor_of(problem)])
            clean()
            shape = {"N": count, "H": hidden}
            best: dict[str, tuple[float, str]] = {}

            def tried(
                way: str, cut: Any, function: Callable[[], Any], shape=shape, floor=floor, best=best
            ) -> None:
                try:
                    ms = median_ms(function, repeats=4, budget_s=0.3)
                except Exception as error:
                    say(**shape, method=way, cut=str(cut), why=first_line(error))
                    return
                say(**shape, method=way, cut=str(cut), ms=ms, x=ms / floor)
                best[way] = min(best.get(way, (1e9, "")), (ms, str(cut)))

            for rows, columns, depth, warps in cuts:
                for group, stages in ((8, 3), (16, 3), (32, 3), (8, 4)):
                    tiles = Tiles(rows, columns, depth, group, warps, stages)
                    product = product_of(problem, tiles)
                    for stash in (False, True):
                        tried(
                            "forward and stash" if stash else "forward",
                            tuple(tiles),
                            lambda p=product, t=problem.target_N, s=stash: triton_forward.forward(
                                p, t, stash=s
                            ),
                        )
            product = product_of(problem, Tiles())
            rows_made = triton_forward.forward(product, problem.target_N, stash=True)
            upstream, source_N = upstream_of(problem, rows_made)
            count_1 = torch.full((1,), count, dtype=torch.int32, device=DEVICE)
            for wide in (1024, 2048, 4096, 8192):
                tried(
                    "pass over the stash",
                    wide,
                    functools.partial(
                        triton_gradients.form_in_place,
                        product,
                        upstream,
                        rows_made.stash_NV,
                        rows_made.largest_JN,
                        source_N,
                        count_1,
                        columns=wide,
                    ),
                )
            for way, (ms, cut) in best.items():
                say(**shape, method=way, best=cut, ms=ms, x=ms / floor)
            del problem, product, rows_made, upstream, source_N
            clean()


def product_of(problem: Problem, tiles: Tiles) -> Product:
    size = len(problem.head_VH)
    return Product(problem.hidden_NH, problem.head_VH, None, 1.0, None, tiles, size)


def upstream_of(problem: Problem, rows: Any) -> tuple[Any, Tensor]:
    """Gradients of all statistics for every row; what the stash holds matters not to their time."""
    one_N = torch.ones_like(rows.logp_N)
    logits_NK = torch.zeros(problem.topk_NK.shape, device=one_N.device)
    upstream = triton_upstream.Upstream(
        problem.target_N, rows.target_N, rows.logsumexp2_N, one_N, one_N, one_N, one_N,
        problem.topk_NK, logits_NK, one_N.int(), True,
    )  # fmt: skip
    return upstream, torch.arange(len(one_N), device=one_N.device)


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

    config = Qwen2Config(**QWEN, tie_word_embeddings=True)
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(DEVICE):
        model = Qwen2ForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    model.gradient_checkpointing_enable({"use_reentrant": False})
    model.train()
    length = min(2048, options.tokens)
    rows = options.tokens // length
    token_BS = torch.randint(QWEN["vocab_size"], (rows, length), device=DEVICE)
    target_N = token_BS.roll(-1, -1).flatten()
    advantage_N = torch.randn(target_N.shape, device=DEVICE)

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
