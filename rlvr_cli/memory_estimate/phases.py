"""What a run needs of a device's memory, in bytes, before anything is loaded.

A sum of the tensors that the engines hold at their peak: within a tenth of what torch allocates for
a dense decoder with gated feed-forward layers, and one that caps its attention scores as Gemma 2
does (tests/memory_estimate/test_phases.py). What the device's libraries take is left out, 1 GiB or
so.
"""

import dataclasses
import os
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rlvr_cli import registry
from rlvr_cli.config import RolloutOptions, RunConfig, UpdateOptions
from rlvr_cli.errors import Advice, UserError
from rlvr_cli.memory_estimate.model_size import (
    Rows,
    Shape,
    activations,
    cache,
    forward,
    logits,
    widest,
)
from rlvr_cli.models.policy import Policy
from rlvr_cli.runtime.device import Device

_SAMPLER_BYTES = 52  # of each logit: log-probs in float32, noise and its hash in 64 bits
BUCKET = 500_000_000  # elements of gradients that ZeRO 1 to 3 send at a time
_LIVE = 1_000_000_000  # elements of weights that ZeRO-3 gathers at a time
_PREFILL_TOKENS = 16384  # of prompts that the graph engine takes at a time
_GRAPH_SCORE_BYTES = 12  # of a capped score there: it, its tanh, and what is made of that
_VLLM_RESTING = 2 << 30  # what stays of vLLM while it sleeps: captured graphs and workspaces
NOTHING_FITS = "take more GPUs, a smaller model, or train adapters alone with --lora-rank 16"


@dataclass(frozen=True)
class Requirement:
    """What a phase holds at its peak, by what it is for."""

    phase: str
    parts: dict[str, int]
    remedy: str = ""  # what makes it fit, to be pasted; empty if nothing was found

    @property
    def total(self) -> int:
        return sum(self.parts.values())


def resting(shape: Shape, options: UpdateOptions, device: Device, size: int = 1) -> dict[str, int]:
    """What a trainer holds between updates, on each of `size` devices."""
    name, chosen = registry.parse("training", options.trainer)
    if name not in registry.names("training"):
        return {}
    number = device.bytes_of(chosen["precision"])
    if name == "local":
        masters = 4 * shape.trained if number == 2 else 0
        return _named(number * shape.parameters, masters, 8 * shape.trained)
    zero, offload = chosen["zero"], chosen["offload"]
    share = -(-shape.trained // size) if zero else shape.trained
    weights = number * shape.parameters
    if zero == 3:
        weights = 0 if offload == "all" else -(-weights // size)
    masters, moments = (0, 0) if offload != "none" else (4 * share if zero else 0, 8 * share)
    parts = _named(weights, masters, moments)
    return parts | ({"ZeRO's buffers": number * _bucket(shape)} if zero == 3 else {})


def beside(shape: Shape, device: Device, *, trained: bool) -> int:
    """What DLC's memory model holds while the policy is at work; one that is trained with AdamW."""
    if not trained:
        return device.bytes_of("auto") * shape.parameters
    return sum(resting(shape, UpdateOptions(), device).values())


def _bucket(shape: Shape) -> int:
    return min(BUCKET, shape.parameters)


def _named(weights: int, masters: int, moments: int) -> dict[str, int]:
    parts = {"weights": weights, "float32 weights": masters, "Adam's moments": moments}
    return {name: value for name, value in parts.items() if value}


@dataclass(frozen=True)
class Batch:
    """The rows of an update, and the most tokens that one of them and its completion have."""

    rows: int
    longest: int
    completion: int


def training(
    shape: Shape, options: UpdateOptions, device: Device, batch: Batch, *, size: int = 1
) -> Requirement:
    """The peak of an update over several micro-batches, on each of `size` devices."""
    need = Requirement("training", _training(shape, options, device, batch, size))
    if need.total <= device.free:
        return need
    for flags, change, devices in _remedies(options, batch.longest, size):
        changed = dataclasses.replace(options, **change)
        if sum(_training(shape, changed, device, batch, devices).values()) <= device.free:
            return dataclasses.replace(need, remedy=flags)
    return need


def _training(
    shape: Shape, options: UpdateOptions, device: Device, batch: Batch, size: int
) -> dict[str, int]:
    name, chosen = registry.parse("training", options.trainer)
    if name not in registry.names("training"):
        return {}
    number, recompute = device.bytes_of(chosen["precision"]), options.recompute_activations
    count = min(max(1, options.micro_batch_tokens // batch.longest), -(-batch.rows // size))
    rows, predicted = Rows(count * batch.longest, batch.longest), count * batch.completion
    return resting(shape, options, device, size) | {
        "gradients": _gradients(shape, chosen, number, size),
        "activations": activations(shape, rows, number, recompute=recompute),
        "widest place": widest(shape, rows, predicted, number, device, recompute=recompute),
    }


def _gradients(shape: Shape, chosen: dict[str, Any], number: int, size: int) -> int:
    """Gradients that are kept in float32, and those that DeepSpeed gathers until it sends them."""
    zero = chosen.get("zero")
    whole, share = 4 * shape.trained, 4 * -(-shape.trained // size)
    if zero is None:
        return whole
    sent = number * _bucket(shape)
    if zero < 2:
        return whole + sent
    kept = share if chosen["offload"] == "none" else 0
    live = number * min(shape.parameters, _LIVE) if zero == 3 else 0
    return kept + sent + live


def _remedies(
    options: UpdateOptions, longest: int, size: int
) -> Iterable[tuple[str, dict[str, Any], int]]:
    """Flags, the options that they change and the devices, from the cheapest in time."""
    micro, small = options.micro_batch_tokens, {"micro_batch_tokens": longest}
    while micro // 2 >= longest:
        micro //= 2
        yield f"--micro-batch-tokens {micro}", {"micro_batch_tokens": micro}, size
    less = {"recompute_activations": True}
    yield "--recompute-activations", less, size
    words = f"--recompute-activations --micro-batch-tokens {longest}"
    yield words, less | small, size
    for more in (2 * size, 4 * size, 8 * size):
        trainer = {"trainer": "deepspeed:zero=2"}
        yield f"{words} --trainer deepspeed:zero=2 --nproc {more}", less | small | trainer, more
    for spec in ("deepspeed:zero=2,offload=optimizer", "deepspeed:zero=3,offload=all"):
        yield f"{words} --trainer {spec}", less | small | {"trainer": spec}, size


def rollout(
    shape: Shape,
    options: RolloutOptions,
    device: Device,
    *,
    prompt: int,
    requests: int,
    held: dict[str, int] | None = None,
) -> Requirement:
    """The peak of sampling up to `requests` completions of prompts of at most `prompt` tokens.

    `held` is what a trainer on the same device holds meanwhile: transformers and graph sample from
    its weights, vLLM has its own.
    """
    name, chosen = registry.parse("rollout", options.engine)
    length = prompt + options.max_new_tokens
    if name == "vllm":
        return _vllm(shape, chosen, device, length, held)
    if name == "graph":
        rows = min(chosen["rows"], requests)
        return _graph(shape, device, rows, prompt, length, held)
    if name != "transformers":
        return Requirement("rollout", {})

    def parts(batch: int) -> dict[str, int]:
        number = device.bytes_of("auto")
        whole = cache(shape, batch * length, number)
        sampled = batch * shape.vocabulary * (number + _SAMPLER_BYTES)
        keys = length if device.kind == "cuda" else prompt  # a static cache is attended to whole
        prompts = forward(shape, Rows(batch * prompt, prompt), number, keys=keys)
        step = forward(shape, Rows(batch, 1), number, keys=length)
        return (held or {"weights": number * shape.parameters}) | {
            "keys and values": whole + whole // shape.layers,  # a layer's are copied as they grow
            "widest place": max(prompts, step, sampled),
        }

    batch = min(chosen["batch_size"], requests)
    need = Requirement("rollout", parts(batch))
    while need.total > device.free and batch > 1 and not need.remedy:
        batch //= 2
        if sum(parts(batch).values()) <= device.free:
            need = dataclasses.replace(need, remedy=f"--engine transformers:batch_size={batch}")
    return need


def _graph(
    shape: Shape, device: Device, rows: int, prompt: int, length: int, held: dict[str, int] | None
) -> Requirement:
    """What as many rows take as fit: the engine halves their number until they do."""
    number = device.bytes_of("auto")
    logit = 4 if device.kind == "cuda" else 4 + _SAMPLER_BYTES

    def need(rows: int) -> Requirement:
        first = Rows(max(prompt, min(_PREFILL_TOKENS, rows * prompt)), prompt)
        prompts = forward(shape, first, number, pair=_GRAPH_SCORE_BYTES * shape.heads)
        parts = {
            "keys and values": cache(shape, rows * length, number),
            "widest place": max(prompts, rows * shape.vocabulary * logit),
        }
        return Requirement("rollout", (held or {"weights": number * shape.parameters}) | parts)

    while rows > 1 and need(rows).total > device.free:
        rows //= 2
    return need(rows)


def _vllm(
    shape: Shape,
    chosen: dict[str, Any],
    device: Device,
    length: int,
    held: dict[str, int] | None,
) -> Requirement:
    """The share of the device that vLLM takes, or what it cannot do without where that is more."""
    number = device.bytes_of(chosen["dtype"])
    share = chosen["gpu_memory"] or (0.5 if held else 0.9)
    split = chosen["tensor_parallel"] * chosen["pipeline_parallel"]
    weights = number * shape.parameters // split
    least = weights + cache(shape, length, number) // split
    taken = int(share * device.total) if device.kind == "cuda" else least
    if chosen["cache_gib"]:
        taken = weights + int(chosen["cache_gib"] * 2**30)
    need = Requirement("rollout", (held or {}) | {"vLLM": max(taken, least)})
    if need.total <= device.free:
        return need
    room = device.free - sum((held or {}).values())
    if room > least * 1.1:
        fits = int(100 * room / device.total) / 100
        return dataclasses.replace(need, remedy=f"--engine vllm:gpu_memory={fits:g}")
    return need


def evaluation(shape: Shape, device: Device, rows: Rows) -> Requirement:
    """A pass without gradient over a micro-batch of rows, in float32."""
    parts = {
        "weights": 4 * shape.parameters,
        "one pass": forward(shape, rows, 4),
        "logits": logits(shape, rows.tokens, device),
    }
    return Requirement("log-probs", parts, "--micro-batch-tokens with fewer tokens")


def run(
    shape: Shape, config: RunConfig, device: Device, *, prompt: int, reference: bool, size: int = 1
) -> list[Requirement]:
    """What `train` needs on each of `size` devices, for prompts of at most `prompt` tokens.

    With a `reference` the policy that the run starts from stays in memory too.
    """
    train, sampling, options = config.train, config.rollout, config.train_step
    beside = {"start policy": device.bytes_of("auto") * shape.parameters} if reference else {}
    requests = -(-train.prompts_per_step // size) * sampling.num_generations
    held = resting(shape, options, device, size) | beside
    prompts = options.mini_batch_prompts or train.prompts_per_step
    batch = Batch(
        prompts * sampling.num_generations,
        prompt + sampling.max_new_tokens,
        sampling.max_new_tokens,
    )
    if registry.parse("rollout", sampling.engine)[0] == "vllm" and device.kind == "cuda":
        beside["vLLM asleep"] = _VLLM_RESTING
    left = dataclasses.replace(device, free=device.free - sum(beside.values()))
    made = training(shape, options, left, batch, size=size)
    return [
        rollout(shape, sampling, device, prompt=prompt, requests=requests, held=held),
        dataclasses.replace(made, parts=made.parts | beside),
    ]


def require(policy: Policy, need: Requirement, device: Device) -> None:
    """An error if a GPU has too little free memory; only a warning where it is the host's.

    With RLVR_ANY_MEMORY set it is a warning too: an estimate can be wrong.
    """
    if need.total <= device.free:
        return
    listed = ", ".join(f"{name} {gib(value)}" for name, value in need.parts.items())
    over = need.total - device.free
    message = (
        f"{need.phase} with `{policy.name}` needs {gib(need.total)}, {gib(over)} more than is "
        f"free of {device.name}: {listed}"
    )
    if device.kind == "cpu" or os.environ.get("RLVR_ANY_MEMORY"):
        tip = f"; try {need.remedy}" if need.remedy else ""
        warnings.warn(message + tip, Advice, stacklevel=2)
        return
    hint = f"set {need.remedy}" if need.remedy else NOTHING_FITS
    raise UserError(message, f"{hint}; `export RLVR_ANY_MEMORY=1` tries all the same")


def gib(size: int) -> str:
    return f"{size / 2**30:.3g} GiB" if size >= 1 << 28 else f"{size / 2**20:.3g} MiB"
