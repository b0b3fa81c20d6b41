"""What kernels.py measures beside the comparison: tiles, growth and a complete training step."""

import argparse
import functools
from collections.abc import Callable
from typing import Any

import torch
from kernel_methods import differentiated, loss_of, make, ours
from kernel_timing import SHAPES, clean, first_line, floor_of, median_ms, medians_ms, peak_gib
from torch import Tensor

from rlvr_cli.kernels import (
    reference,
    triton_stats,
)
from rlvr_cli.kernels.triton_tiles import Tiles

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
    """Forward and backward with each of some tiles and with bare products, in turn."""
    cuts = [
        Tiles(128, 128, 64, 32, 4, 3), Tiles(128, 128, 32, 32, 4, 4), Tiles(64, 256, 64, 32, 4, 3),
        Tiles(128, 256, 64, 8, 8, 3), Tiles(128, 256, 64, 16, 8, 3), Tiles(128, 256, 64, 32, 8, 3),
    ]  # fmt: skip
    for count in options.rows:
        for hidden in options.shapes:
            problem = make(count, hidden, SHAPES[hidden], "cuda")
            for way, stash_bytes in (("stash", 1 << 60), ("recompute", 0)):
                shape = {"N": count, "H": hidden, "method": way}
                tried: list[tuple[Tiles, Callable[[], Any]]] = []
                for tiles in cuts:
                    method = differentiated(ours(stash_bytes, tiles), "all")
                    try:
                        method(problem)
                    except Exception as error:
                        say(**shape, cut=str(tuple(tiles)), why=first_line(error))
                        continue
                    tried.append((tiles, functools.partial(method, problem)))
                functions = [floor_of(problem)[0], *(function for _, function in tried)]
                floor, *times = medians_ms(functions, repeats=7, budget_s=6)
                del functions
                for (tiles, _), ms in zip(tried, times, strict=True):
                    say(**shape, cut=str(tuple(tiles)), ms=ms, x=ms / floor)
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
