"""Seconds of an update over completions of uneven lengths, by how rows are batched and attended.

    python -P benchmarks/uneven_lengths.py MODEL_DIR

MODEL_DIR is what `gpu_step.py make` makes. Lengths are geometric with a mean of a third of --new,
cut there. Each way passes forward and backward over draw A, A again, then B and C: every step of a
run has lengths of its own; then as many rows of equal lengths, twice. Before that: what a shape
that is new costs a call of attention, and the errors of packed attention against float64; after it,
which gradients differ between passes over equal weights. A way's gradient is compared with one of
float32 weights, of a few rows. One JSON line a measurement.

Shapes: B rows, S tokens of all of them, N trained tokens, H heads, D head size.
"""

import argparse
import functools
import gc
import importlib.util
import itertools
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from rlvr_cli.algorithms import objective
from rlvr_cli.algorithms.objective import Totals
from rlvr_cli.config import UpdateOptions
from rlvr_cli.engines.training import local
from rlvr_cli.models import packed_attention, packed_flash4, passes, policy as policies
from rlvr_cli.protocols import Row

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
SIZES = (1, 63, 252, 507, 129, 72)  # of the rows whose attention is compared
NEW_SHAPES = ((15, 1087), (17, 961), (23, 701), (40, 403), (96, 170))


def say(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


def wait() -> None:
    if CUDA:
        torch.cuda.synchronize()


def ways(model: Any, tokens: int) -> dict[str, passes.Pass]:
    """Packed or not, compiled or not, tokens of a micro-batch."""
    pass_of = functools.partial(passes.Pass, model)
    flash4 = {}
    if importlib.util.find_spec("flash_attn"):
        flash4["packed, compiled, FlashAttention 4"] = pass_of(True, True, tokens, "flash4")
        flash4["the same, twice the tokens"] = pass_of(True, True, 2 * tokens, "flash4")
    return {
        "padded": pass_of(False, False, tokens),
        "padded, compiled": pass_of(False, True, tokens),
        "packed": pass_of(True, False, tokens),
        "packed, compiled": pass_of(True, True, tokens),
        "packed, compiled, twice the tokens": pass_of(True, True, 2 * tokens),
        **flash4,
    }


class Trainer:
    """A training engine whose gradients are read and thrown away."""

    def __init__(self, folder: Path, tokens: int, precision: Any) -> None:
        loaded = policies.load(policies.resolve(str(folder)))
        options = UpdateOptions(micro_batch_tokens=tokens)
        self.engine = local.LocalEngine(
            loaded, options, precision=precision, pack="false", fuse="false"
        )
        self.model = loaded.model
        self._goal = objective.build("nsr")

    def seconds(self, rows: list[Row]) -> float:
        """Of a pass forward and backward; the gradients are there afterwards."""
        self.forget()
        tokens, longest = (f(len(row.token_ids) for row in rows) for f in (sum, max))
        wait()
        start = time.perf_counter()
        self.engine.accumulate(rows, self._goal, Totals(tokens, len(rows), longest), 1.0)
        wait()
        return round(time.perf_counter() - start, 2)

    @property
    def gradients(self) -> dict[str, Tensor]:
        named = self.engine._trained.named.items()
        masters = self.engine._master
        return {n: q.grad if masters[n].grad is None else masters[n].grad for n, q in named}

    def forget(self) -> None:
        for name, parameter in self.engine._trained.named.items():
            parameter.grad = self.engine._master[name].grad = None


def drawn(seed: int, count: int, options: argparse.Namespace, vocabulary: int) -> list[Row]:
    rng = np.random.default_rng(seed)
    lengths = np.clip(rng.geometric(3 / options.new, count), 1, options.new)
    return [_row(rng, options.prompt, length, vocabulary) for length in lengths]


def _row(rng: np.random.Generator, prompt: int, length: int, vocabulary: int) -> Row:
    ids = [rng.integers(2, vocabulary, size).tolist() for size in (prompt, length)]
    return Row(*ids, advantage=-1.0)


def check_attention(attend: Any, heads: int, groups: int, size: int) -> None:
    """Errors of packed attention and its gradients, by norms, against float64; and their bits."""
    at = torch.tensor([0, *np.cumsum(SIZES)], dtype=torch.int32, device=DEVICE)
    packed = packed_attention.Ends(at, torch.tensor(max(SIZES)))
    shapes = [(1, count, sum(SIZES), size) for count in (heads, groups, groups)]
    inputs = [torch.randn(shape, device=DEVICE).bfloat16().double() for shape in shapes]
    by_out = torch.randn(1, sum(SIZES), heads, size, device=DEVICE).bfloat16().double()

    def results(dtype: torch.dtype) -> list[Tensor]:
        mine = [value.to(dtype).requires_grad_() for value in inputs]
        out, _ = attend(None, *mine, packed=packed)
        return [out.detach(), *torch.autograd.grad(out, mine, by_out.to(dtype))]

    exact, rounded = results(torch.float64), results(torch.bfloat16)
    errors = [float((a - b).norm() / b.norm()) for a, b in zip(rounded, exact, strict=True)]
    same = all(
        torch.equal(a, b)
        for _ in range(5)
        for a, b in zip(results(torch.bfloat16), rounded, strict=True)
    )
    name = attend.__module__.rpartition(".")[2]
    say(attention=name, out_dq_dk_dv=[f"{error:.1e}" for error in errors], same_bits=same)


def new_shapes(heads: int, groups: int, size: int) -> None:
    """Milliseconds of the first and second call of attention, forward and backward, by shape."""
    for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION):
        for rows, length in NEW_SHAPES:
            q, k, v = (
                torch.randn(rows, length, count, size, device=DEVICE, dtype=torch.bfloat16)
                .transpose(1, 2)
                .requires_grad_()
                for count in (heads, groups, groups)
            )
            ms = []
            for _ in range(2):
                wait()
                marks = [time.perf_counter()]
                with sdpa_kernel([backend]):
                    out = torch.nn.functional.scaled_dot_product_attention(
                        q, k, v, is_causal=True, enable_gqa=True
                    )
                wait()
                marks.append(time.perf_counter())
                torch.autograd.grad(out, (q, k, v), torch.ones_like(out))
                wait()
                marks.append(time.perf_counter())
                ms += [round(1e3 * (b - a), 2) for a, b in itertools.pairwise(marks)]
            say(new_shape=backend.name, rows=rows, length=length, forward_backward_twice_ms=ms)


def repeats(trainer: Trainer, rows: list[Row], tokens: int) -> None:
    """Which gradients differ over five passes, and by how much of their largest."""
    for way, chosen in ways(trainer.model, tokens).items():
        trainer.engine._pass = chosen
        first: dict[str, Tensor] = {}
        differ: dict[str, float] = {}
        for _ in range(5):
            trainer.seconds(rows)
            first = first or {name: value.clone() for name, value in trainer.gradients.items()}
            for name, value in trainer.gradients.items():
                if not torch.equal(value, first[name]):
                    worst = float((value - first[name]).abs().max() / first[name].abs().max())
                    differ[name] = max(differ.get(name, 0.0), worst)
        worst = max(differ.values(), default=0.0)
        say(repeat=way, gradients=len(first), differ=len(differ), worst=worst)


def cosine(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    dots = [
        sum(float((a[n].double() * b[n].double()).sum()) for n in one)
        for a, b in ((one, other), (one, one), (other, other))
    ]
    return dots[0] / (dots[1] * dots[2]) ** 0.5


def measure(options: argparse.Namespace) -> None:
    exact = Trainer(options.folder, options.tokens, "float32")
    config = exact.model.config
    draw = functools.partial(drawn, options=options, vocabulary=config.vocab_size)
    few = draw(77, 12)
    exact.seconds(few)
    reference = {name: value.cpu() for name, value in exact.gradients.items()}
    del exact
    gc.collect()
    trainer = Trainer(options.folder, options.tokens, "auto")
    longest = options.prompt + options.new
    rng = np.random.default_rng(3)
    equal = [_row(rng, options.prompt, options.new, config.vocab_size)] * (
        options.tokens // longest
    )
    if CUDA:
        torch.cuda.empty_cache()
    trainer.seconds(equal)
    trainer.seconds(draw(78, 12))
    draws = {name: draw(seed, options.rows) for seed, name in enumerate("ABC")}
    even = equal * (options.rows // len(equal))
    say(places={name: sum(row.size for row in rows) for name, rows in draws.items()})
    for name, chosen in ways(trainer.model, options.tokens).items():
        trainer.engine._pass = chosen
        seconds = {key: trainer.seconds(draws[key[0]]) for key in ("A", "A again", "B", "C")}
        seconds |= {key: trainer.seconds(even) for key in ("equal", "equal again")}
        trainer.seconds(few)
        grown = {key: value.cpu() for key, value in trainer.gradients.items()}
        say(way=name, seconds=seconds, cosine=round(cosine(grown, reference), 5), gib=peak())
    repeats(trainer, draw(79, 24), options.tokens)


def peak() -> float:
    if not CUDA:
        return 0.0
    gib = torch.cuda.max_memory_allocated() / 2**30
    torch.cuda.reset_peak_memory_stats()
    return round(gib, 1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--prompt", type=int, default=64)
    parser.add_argument("--new", type=int, default=1024)
    parser.add_argument("--tokens", type=int, default=16384, help="of a micro-batch")
    options = parser.parse_args()
    card = torch.cuda.get_device_name() if CUDA else "cpu"
    say(card=card, torch=torch.__version__, cudnn=torch.backends.cudnn.version())
    config = json.loads((options.folder / "config.json").read_text())
    heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
    size = config["hidden_size"] // heads
    check_attention(packed_attention.attend, heads, groups, size)
    if importlib.util.find_spec("flash_attn"):
        check_attention(packed_flash4.attend, heads, groups, size)
    if CUDA:
        new_shapes(heads, groups, size)
    measure(options)


if __name__ == "__main__":
    main()
