"""Seconds of an update over completions of uneven lengths, by how rows are batched and attended.

    python -P benchmarks/uneven_lengths.py MODEL_DIR

MODEL_DIR is what `gpu_step.py make` makes. Lengths are geometric with a mean of a third of --new,
cut there. Each way passes forward and backward over draw A, A again, then B and C: every step of a
run has lengths of its own. `packed` rows lie one behind the other without padding, and positions
restart. Before that: what a shape that is new costs a call of attention, which gradients differ
between passes over equal weights, and the attentions' errors against float64. A way's gradient is
compared with one of float32 weights, of a few rows. One JSON line a measurement.

Shapes: B rows, S tokens of all of them, N trained tokens, H heads, D head size.
"""

import argparse
import contextlib
import functools
import gc
import itertools
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import AttentionInterface

from rlvr_cli.algorithms import objective
from rlvr_cli.algorithms.objective import Totals
from rlvr_cli.config import UpdateOptions
from rlvr_cli.engines.training import local
from rlvr_cli.models import lm_head, logprobs, policy as policies
from rlvr_cli.protocols import Row

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
LEAST_PLACES = 4096  # below this torch.compile makes another graph of a layer
SIZES = (1, 63, 252, 507, 129, 72)  # of the rows whose attention is compared
NEW_SHAPES = ((15, 1087), (17, 961), (23, 701), (40, 403), (96, 170))


def say(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


def wait() -> None:
    if CUDA:
        torch.cuda.synchronize()


class Packed(NamedTuple):
    """Where rows end, int32 [B + 1], and the longest of them."""

    ends: Tensor
    longest: int


def flash(q_SHD: Tensor, k_SHD: Tensor, v_SHD: Tensor, rows: Packed, scale: float) -> Tensor:
    ends, longest = rows
    return torch.ops.aten._flash_attention_forward(
        q_SHD, k_SHD, v_SHD, ends, ends, longest, longest, 0.0, True, False, scale=scale
    )[0]


def cudnn(q_SHD: Tensor, k_SHD: Tensor, v_SHD: Tensor, rows: Packed, scale: float) -> Tensor:
    ends, longest = rows
    return torch.ops.aten._cudnn_attention_forward(
        q_SHD, k_SHD, v_SHD, None, ends, ends, longest, longest, True, 0.0, True, False, scale=scale
    )[0]


def plain(q_SHD: Tensor, k_SHD: Tensor, v_SHD: Tensor, rows: Packed, scale: float) -> Tensor:
    """By the definition, row by row."""
    outputs, group = [], q_SHD.shape[1] // k_SHD.shape[1]
    k_SHD, v_SHD = (value.repeat_interleave(group, 1) for value in (k_SHD, v_SHD))
    for first, last in itertools.pairwise(rows.ends.tolist()):
        q, k, v = (value[first:last].transpose(0, 1) for value in (q_SHD, k_SHD, v_SHD))
        later = torch.ones(last - first, last - first, dtype=torch.bool, device=q.device).triu(1)
        weight = ((q @ k.mT) * scale).masked_fill(later, -torch.inf).softmax(-1)
        outputs.append((weight @ v).transpose(0, 1))
    return torch.cat(outputs)


def _attend_packed(
    module: Any, q: Tensor, k: Tensor, v: Tensor, mask: Any = None, *, packed: Packed,
    scaling: float, **_: Any,
) -> tuple[Tensor, None]:  # fmt: skip
    attend = flash if CUDA else plain
    return attend(*(value[0].transpose(0, 1) for value in (q, k, v)), packed, scaling)[None], None


AttentionInterface.register("packed-rows", _attend_packed)


def packed_states(model: Any, rows: list[Row], *, longest: int = 0) -> Any:
    """What `logprobs` takes from a forward pass, of rows without padding between them.

    The last places are filled up to a multiple of 128, by rows that nothing is trained on. With
    `longest`, rows may be that long whatever these are, which spares torch.compile a guard.
    """
    sizes = [row.size for row in rows]
    total = max(-(-sum(sizes) // 128) * 128, LEAST_PLACES if CUDA else 0)
    token_S, place_S = np.zeros(total, np.int64), np.zeros(total, np.int64)
    ends, trained = [0], []
    for row in rows:
        first, last = ends[-1], ends[-1] + row.size
        token_S[first:last] = [*row.prompt_token_ids, *row.token_ids]
        place_S[first:last] = np.arange(row.size)
        trained.append(np.arange(first + len(row.prompt_token_ids), last))
        ends.append(last)
    while ends[-1] < total:
        size = min(total - ends[-1], max(sizes))
        place_S[ends[-1] : ends[-1] + size] = np.arange(size)
        ends.append(ends[-1] + size)
    packed = Packed(torch.tensor(ends, dtype=torch.int32).to(DEVICE), longest or max(sizes))
    input_1S, place_1S = (torch.from_numpy(value)[None].to(DEVICE) for value in (token_S, place_S))
    hidden_1SH = model.base_model(
        input_ids=input_1S, position_ids=place_1S, use_cache=False, packed=packed
    ).last_hidden_state
    at_N = torch.from_numpy(np.concatenate(trained)).to(DEVICE)
    length_B1 = torch.tensor([[len(row.token_ids)] for row in rows], device=DEVICE)
    mask_BT = torch.arange(int(length_B1.max()), device=DEVICE) < length_B1
    return logprobs._States(mask_BT, hidden_1SH[0, at_N - 1], input_1S[0, at_N], lm_head.of(model))


def packed_batches(rows: list[Row], tokens: int) -> Iterator[list[int]]:
    """Indices of rows, longest first, in runs of at most so many tokens."""
    batch: list[int] = []
    for i in sorted(range(len(rows)), key=lambda i: -rows[i].size):
        if batch and sum(rows[j].size for j in batch) + rows[i].size > tokens:
            yield batch
            batch = []
        batch.append(i)
    yield batch


@dataclass(frozen=True)
class Way:
    """How rows become batches."""

    tokens: int
    packed: bool = False
    compiled: bool = False
    backend: SDPBackend | None = None

    @contextlib.contextmanager
    def of(self, model: Any, longest: int) -> Iterator[None]:
        before = logprobs._states, logprobs.micro_batches, model.config._attn_implementation
        layers = []
        try:
            if self.packed:
                limit = longest if self.compiled else 0
                logprobs._states = functools.partial(packed_states, longest=limit)
                logprobs.micro_batches = packed_batches
                model.set_attn_implementation("packed-rows")
            if self.compiled:
                from transformers.modeling_layers import GradientCheckpointingLayer

                torch._dynamo.reset()
                layers = [m for m in model.modules() if isinstance(m, GradientCheckpointingLayer)]
            for layer in layers:
                layer.compile(dynamic=True)
            with sdpa_kernel([self.backend]) if self.backend else contextlib.nullcontext():
                yield
        finally:
            logprobs._states, logprobs.micro_batches = before[:2]
            model.set_attn_implementation(before[2])
            for layer in layers:
                layer._compiled_call_impl = None


def ways(tokens: int) -> dict[str, Way]:
    flash_attention = SDPBackend.FLASH_ATTENTION
    padded = {"padded": Way(tokens), "padded, FlashAttention": Way(tokens, backend=flash_attention)}
    return (padded if CUDA else {"padded": Way(tokens)}) | {
        "packed": Way(tokens, packed=True),
        "packed, twice the tokens": Way(2 * tokens, packed=True),
        "packed, compiled": Way(tokens, packed=True, compiled=CUDA),
    }


class Trainer:
    """A training engine whose gradients are read and thrown away."""

    def __init__(self, folder: Path, tokens: int, precision: Any) -> None:
        loaded = policies.load(policies.resolve(str(folder)))
        options = UpdateOptions(micro_batch_tokens=tokens)
        self.engine = local.LocalEngine(loaded, options, precision=precision)
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


def check_attention(heads: int, groups: int, size: int) -> None:
    """Errors of packed attention and its gradients, by norms, against float64."""
    rows = Packed(
        torch.tensor([0, *np.cumsum(SIZES)], dtype=torch.int32, device=DEVICE), max(SIZES)
    )
    shapes = [(sum(SIZES), count, size) for count in (heads, groups, groups, heads)]
    *inputs, by_out = (torch.randn(shape, device=DEVICE).bfloat16().double() for shape in shapes)

    def results(attend: Callable[..., Tensor], dtype: torch.dtype) -> list[Tensor]:
        mine = [value.to(dtype).requires_grad_() for value in inputs]
        out = attend(*mine, rows, size**-0.5)
        return [out.detach(), *torch.autograd.grad(out, mine, by_out.to(dtype))]

    exact = results(plain, torch.float64)
    for attend in (plain, flash, cudnn) if CUDA else (plain,):
        rounded = results(attend, torch.bfloat16)
        errors = [float((a - b).norm() / b.norm()) for a, b in zip(rounded, exact, strict=True)]
        say(attention=attend.__name__, out_dq_dk_dv=[f"{error:.1e}" for error in errors])


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


def repeats(trainer: Trainer, rows: list[Row]) -> None:
    """Which gradients differ over five passes, and by how much of their largest."""
    for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.MATH):
        few = rows[: 3 if backend == SDPBackend.MATH else None]
        first: dict[str, Tensor] = {}
        differ: dict[str, float] = {}
        for _ in range(5):
            with sdpa_kernel([backend]):
                trainer.seconds(few)
            first = first or {name: value.clone() for name, value in trainer.gradients.items()}
            for name, value in trainer.gradients.items():
                if not torch.equal(value, first[name]):
                    worst = float((value - first[name]).abs().max() / first[name].abs().max())
                    differ[name] = max(differ.get(name, 0.0), worst)
        worst = max(differ.values(), default=0.0)
        say(repeat=backend.name, gradients=len(first), differ=len(differ), worst=worst)


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
        repeats(trainer, equal)
    trainer.seconds(equal)
    trainer.seconds(draw(78, 12))
    draws = {name: draw(seed, options.rows) for seed, name in enumerate("ABC")}
    say(places={name: sum(row.size for row in rows) for name, rows in draws.items()})
    for name, way in ways(options.tokens).items():
        trainer.engine._micro_batch_tokens = way.tokens
        with way.of(trainer.model, longest):
            seconds = {key: trainer.seconds(draws[key[0]]) for key in ("A", "A again", "B", "C")}
            trainer.seconds(few)
        grown = {key: value.cpu() for key, value in trainer.gradients.items()}
        say(way=name, seconds=seconds, cosine=round(cosine(grown, reference), 5), gib=peak())


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
    check_attention(heads, groups, size)
    if CUDA:
        new_shapes(heads, groups, size)
    measure(options)


if __name__ == "__main__":
    main()
