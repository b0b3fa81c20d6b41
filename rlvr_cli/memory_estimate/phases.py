"""The memory in bytes that a run needs on a device, estimated before anything is loaded.

The sum of the tensors that the engines hold at their peak: within a tenth of what torch allocates
for a dense decoder with gated feed-forward layers, and one that caps its attention scores as Gemma
2 does (tests/memory_estimate/test_phases.py). In other families the decoding cache is exact and
the rest is rough: the temporaries of linear attention are three times as large. The 1 GiB or so of
the device's libraries is not counted.
"""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rlvr_cli import registry
from rlvr_cli.config import RolloutOptions, RunConfig, UpdateOptions
from rlvr_cli.memory_estimate.model_size import (
    PaddedRows,
    Shape,
    activations,
    cache,
    forward,
    largest_temporary,
    logits,
)
from rlvr_cli.memory_estimate.requirement import (
    NOTHING_FITS as NOTHING_FITS,
    Requirement as Requirement,
    gib as gib,
    require as require,
)
from rlvr_cli.models import engine_choice
from rlvr_cli.runtime.device import Device

_SAMPLER_BYTES = 52  # of each logit: log-probs in float32, noise and its hash in 64 bits
BUCKET = 500_000_000  # elements of gradients that ZeRO 1 to 3 send at a time
_LIVE = 1_000_000_000  # elements of weights that ZeRO-3 gathers at a time
_PREFILL_TOKENS = 16384  # of prompts that the graph engine takes at a time
_GRAPH_SCORE_BYTES = 12  # of a capped score there: the score, its tanh, and the softmax
_VLLM_ASLEEP_BYTES = 2 << 30  # what vLLM keeps while it sleeps: captured graphs, workspaces


def trainer_state(
    shape: Shape, options: UpdateOptions, device: Device, size: int = 1
) -> dict[str, int]:
    """What a trainer keeps between updates, on each of `size` devices."""
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


def memory_model_bytes(shape: Shape, device: Device, *, trained: bool) -> int:
    """What DLC's memory model keeps while the policy runs; with AdamW's state if it is trained."""
    if not trained:
        return device.bytes_of("auto") * shape.parameters
    return sum(trainer_state(shape, UpdateOptions(), device).values())


def _bucket(shape: Shape) -> int:
    return min(BUCKET, shape.parameters)


def _engine(options: RolloutOptions) -> tuple[str, dict[str, Any]]:
    """The engine and its options; one that is not settled yet counts as transformers."""
    is_open = options.engine == engine_choice.AUTO
    return registry.parse("rollout", "transformers" if is_open else options.engine)


def _named(weights: int, masters: int, moments: int) -> dict[str, int]:
    parts = {"weights": weights, "float32 weights": masters, "Adam's moments": moments}
    return {name: value for name, value in parts.items() if value}


@dataclass(frozen=True)
class UpdateSize:
    """The rows of an update, and the most tokens that one of them and its completion have."""

    rows: int
    longest: int
    completion: int


def training(
    shape: Shape, options: UpdateOptions, device: Device, batch: UpdateSize, *, size: int = 1
) -> Requirement:
    """The peak of an update over several micro-batches, on each of `size` devices."""
    requirement = Requirement("training", _training(shape, options, device, batch, size))
    if requirement.total <= device.free:
        return requirement
    for flags, change, devices in _remedies(options, batch.longest, size):
        changed = dataclasses.replace(options, **change)
        if sum(_training(shape, changed, device, batch, devices).values()) <= device.free:
            return dataclasses.replace(requirement, remedy=flags)
    return requirement


def _training(
    shape: Shape, options: UpdateOptions, device: Device, batch: UpdateSize, size: int
) -> dict[str, int]:
    name, chosen = registry.parse("training", options.trainer)
    if name not in registry.names("training"):
        return {}
    number, recompute = device.bytes_of(chosen["precision"]), options.recompute_activations
    count = min(max(1, options.micro_batch_tokens // batch.longest), -(-batch.rows // size))
    rows, predicted = PaddedRows(count * batch.longest, batch.longest), count * batch.completion
    parts = trainer_state(shape, options, device, size) | {
        "gradients": _gradients(shape, chosen, number, size),
        "activations": activations(shape, rows, number, recompute=recompute),
        "temporaries": largest_temporary(
            shape, rows, predicted, number, device, recompute=recompute
        ),
    }
    if not (tower := shape.tower):
        return parts
    prompts = rows.tokens - predicted
    computing = tower.computing(prompts, number, recompute=recompute)
    if not tower.trained:  # done before the layers after it begin
        computing = max(0, computing - parts["activations"] - parts["temporaries"])
    return parts | {"images": tower.pixels(prompts) + computing}


def _images(shape: Shape, tokens: int, size: int) -> int:
    """What the images of prompts of so many tokens take; nothing of prompts without any."""
    tower = shape.tower
    return tower.pixels(tokens) + tower.computing(tokens, size) if tower else 0


def _gradients(shape: Shape, chosen: dict[str, Any], number: int, size: int) -> int:
    """Gradients that stay in float32, and those that DeepSpeed buckets before it sends them."""
    zero = chosen.get("zero")
    full, share = 4 * shape.trained, 4 * -(-shape.trained // size)
    if zero is None:
        return full
    sent = number * _bucket(shape)
    if zero < 2:
        return full + sent
    persistent = share if chosen["offload"] == "none" else 0
    live = number * min(shape.parameters, _LIVE) if zero == 3 else 0
    return persistent + sent + live


def _remedies(
    options: UpdateOptions, longest: int, size: int
) -> Iterable[tuple[str, dict[str, Any], int]]:
    """Flags, the options that they change and the device count, cheapest in time first."""
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
    reserved_bytes: dict[str, int] | None = None,
) -> Requirement:
    """The peak of sampling up to `requests` completions of prompts of at most `prompt` tokens.

    `reserved_bytes` is what a trainer on the same device keeps meanwhile: transformers and graph
    sample from its weights, vLLM has its own.
    """
    name, chosen = _engine(options)
    length = prompt + options.max_new_tokens
    if name == "vllm":
        return _vllm(shape, chosen, device, length, reserved_bytes)
    if name == "graph":
        rows = min(chosen["rows"], requests)
        is_coded = chosen["cache"] == "int8"
        return _graph(shape, device, rows, prompt, length, reserved_bytes, is_coded=is_coded)
    if name != "transformers":
        return Requirement("rollout", {})

    def parts(batch: int) -> dict[str, int]:
        number = device.bytes_of("auto")
        cache_bytes = cache(shape, batch, length, number)
        sampled = batch * shape.vocabulary * (number + _SAMPLER_BYTES)
        keys = length if device.kind == "cuda" else prompt  # attention reads all of a static cache
        prompts = forward(shape, PaddedRows(batch * prompt, prompt), number, keys=keys)
        step = forward(shape, PaddedRows(batch, 1), number, keys=length)
        prompts += _images(shape, batch * prompt, number)
        return (reserved_bytes or {"weights": number * shape.parameters}) | {
            "keys and values": cache_bytes
            + cache_bytes // shape.layers,  # a layer's are copied as they grow
            "temporaries": max(prompts, step, sampled),
        }

    batch = min(chosen["batch_size"], requests)
    requirement = Requirement("rollout", parts(batch))
    while requirement.total > device.free and batch > 1 and not requirement.remedy:
        batch //= 2
        if sum(parts(batch).values()) <= device.free:
            requirement = dataclasses.replace(
                requirement, remedy=f"--engine transformers:batch_size={batch}"
            )
    return requirement


def _graph(
    shape: Shape,
    device: Device,
    rows: int,
    prompt: int,
    length: int,
    reserved_bytes: dict[str, int] | None,
    *,
    is_coded: bool,
) -> Requirement:
    """The bytes of as many rows as fit: the engine halves their number until they do."""
    number = device.bytes_of("auto")
    size = 1 + 4 / shape.head_dim if is_coded else number  # a scale for each head
    logit = 4 if device.kind == "cuda" else 4 + _SAMPLER_BYTES

    def requirement(rows: int) -> Requirement:
        first = PaddedRows(max(prompt, min(_PREFILL_TOKENS, rows * prompt)), prompt)
        prompts = forward(shape, first, number, pair=_GRAPH_SCORE_BYTES * shape.heads)
        parts = {
            "keys and values": cache(shape, rows, length, size),
            "temporaries": max(prompts, rows * shape.vocabulary * logit),
        }
        return Requirement(
            "rollout", (reserved_bytes or {"weights": number * shape.parameters}) | parts
        )

    while rows > 1 and requirement(rows).total > device.free:
        rows //= 2
    return requirement(rows)


def _vllm(
    shape: Shape,
    chosen: dict[str, Any],
    device: Device,
    length: int,
    reserved_bytes: dict[str, int] | None,
) -> Requirement:
    """The share of the device that vLLM takes, or the least that it needs if that is more."""
    number = device.bytes_of(chosen["dtype"])
    share = chosen["gpu_memory"] or (0.5 if reserved_bytes else 0.9)
    split = chosen["tensor_parallel"] * chosen["pipeline_parallel"]
    weights = number * shape.parameters // split
    least = weights + cache(shape, 1, length, number) // split
    requested = int(share * device.total) if device.kind == "cuda" else least
    if chosen["cache_gib"]:
        requested = weights + int(chosen["cache_gib"] * 2**30)
    requirement = Requirement("rollout", (reserved_bytes or {}) | {"vLLM": max(requested, least)})
    if requirement.total <= device.free:
        return requirement
    available = device.free - sum((reserved_bytes or {}).values())
    if available > least * 1.1:
        fits = int(100 * available / device.total) / 100
        return dataclasses.replace(requirement, remedy=f"--engine vllm:gpu_memory={fits:g}")
    return requirement


def evaluation(shape: Shape, device: Device, rows: PaddedRows) -> Requirement:
    """A pass without gradient over a micro-batch of rows, in float32."""
    parts = {
        "weights": 4 * shape.parameters,
        "one pass": forward(shape, rows, 4),
        "logits": logits(shape, rows.tokens, device),
    }
    if shape.tower:
        parts["images"] = _images(shape, rows.tokens, 4)
    return Requirement("log-probs", parts, "--micro-batch-tokens with fewer tokens")


def run(
    shape: Shape, config: RunConfig, device: Device, *, prompt: int, reference: bool, size: int = 1
) -> list[Requirement]:
    """What `train` needs on each of `size` devices, for prompts of at most `prompt` tokens.

    With a `reference` the initial policy stays in memory too.
    """
    train, sampling, options = config.train, config.rollout, config.train_step
    extra_models = (
        {"initial policy": device.bytes_of("auto") * shape.parameters} if reference else {}
    )
    requests = -(-train.prompts_per_step // size) * sampling.num_generations
    reserved_bytes = trainer_state(shape, options, device, size) | extra_models
    prompts = options.mini_batch_prompts or train.prompts_per_step
    batch = UpdateSize(
        prompts * sampling.num_generations,
        prompt + sampling.max_new_tokens,
        sampling.max_new_tokens,
    )
    if _engine(sampling)[0] == "vllm" and device.kind == "cuda":
        extra_models["vLLM asleep"] = _VLLM_ASLEEP_BYTES
    remaining = dataclasses.replace(device, free=device.free - sum(extra_models.values()))
    update = training(shape, options, remaining, batch, size=size)
    return [
        rollout(
            shape, sampling, device, prompt=prompt, requests=requests, reserved_bytes=reserved_bytes
        ),
        dataclasses.replace(update, parts=update.parts | extra_models),
    ]
