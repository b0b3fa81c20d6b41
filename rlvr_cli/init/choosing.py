"""The numbers of a run that a model, a data set and a machine allow, each with the reason."""

import dataclasses
import shlex
from dataclasses import dataclass
from typing import Any

from rlvr_cli.config import RolloutOptions, RunConfig, UpdateOptions
from rlvr_cli.doctor.machine import version
from rlvr_cli.errors import UsageError
from rlvr_cli.init.facts import DataFacts, ModelFacts
from rlvr_cli.memory_estimate import phases
from rlvr_cli.memory_estimate.model_size import shape_of
from rlvr_cli.memory_estimate.phases import Requirement, gib
from rlvr_cli.runtime.device import Device

_SPARE = 0.9  # of what is free may be filled
_NEW_TOKENS = {"cuda": 1024, "cpu": 256}
_LEAST_NEW = 16  # tokens that a completion needs at least
_CPU_PROMPTS = 8
_TINY = 20_000_000  # parameters, up to which a CPU takes larger steps
_SMALL = 50_000_000  # parameters, up to which the default rate teaches little
_HELDOUT = 64
_STEPS = (20, 200)
_ATTEMPTS = 8


@dataclass(frozen=True)
class Choice:
    """A value that was chosen, and why in a few words."""

    value: Any
    why: str


Chosen = dict[str, dict[str, Choice]]


@dataclass(frozen=True)
class Machine:
    """The processes of a run, `nodes` times `per_node`, each with such a device."""

    device: Device
    nodes: int = 1
    per_node: int = 1

    @property
    def size(self) -> int:
        return self.nodes * self.per_node

    def __str__(self) -> str:
        if self.device.kind == "cpu":
            return f"no GPU, {gib(self.device.free)} of memory are free"
        where = f"{self.nodes} nodes of " if self.nodes > 1 else ""
        count = f"{self.per_node} GPUs, {gib(self.device.free)} free on each"
        return where + (count if self.per_node > 1 else f"a GPU, {gib(self.device.free)} free")


def heldout_rows(rows: int) -> int:
    """How many rows are kept for evaluation: a fifth, and not more than 64."""
    return min(_HELDOUT, rows // 5)


def choose(
    model: ModelFacts, data: DataFacts, machine: Machine, *, rows: int, evaluates: bool
) -> tuple[RunConfig, Chosen]:
    """A configuration of `rows` prompts that fits into memory, and what was chosen in it."""
    chosen = _sizes(model, data, machine, rows)
    chosen["train"]["steps"] = _steps(rows, chosen["train"]["prompts_per_step"].value)
    steps = chosen["train"]["steps"].value
    chosen["train"] |= _evaluation(steps, machine, evaluates)
    every = max(1, steps // 5)
    checkpoint = gib(12 * model.parameters)
    chosen["train"]["save_every"] = Choice(every, f"a checkpoint takes up to {checkpoint}")
    chosen["rollout"] |= _engine(model, data, machine)
    if machine.size > 1:
        prompts = chosen["train"]["prompts_per_step"].value
        part = max(1, prompts // machine.size)
        why = f"{machine.size} processes share the parts of a step"
        chosen["rollout"]["prompts_per_part"] = Choice(part, why)
        spec = Choice("deepspeed:zero=2", f"trains in {machine.size} processes")
        chosen["train_step"]["trainer"] = spec
    if rank := model.policy.lora_rank:
        adapters = Choice(rank, "the model holds adapters of this rank")
        chosen["train_step"]["lora_rank"] = adapters
    if model.parameters < _SMALL:
        rate = Choice(1e-4, "a small model: the default teaches it little")
        chosen["train_step"]["learning_rate"] = rate
    return _fitted(model, data, machine, chosen)


def _sizes(model: ModelFacts, data: DataFacts, machine: Machine, rows: int) -> Chosen:
    """The lengths and counts of a step."""
    chosen: Chosen = {"train": {}, "rollout": {}, "train_step": {}, "memory_step": {}}
    room = model.context - data.longest
    if room < _LEAST_NEW:
        typical = data.lengths[int(0.9 * (len(data.lengths) - 1))]
        room = model.context - typical
        if room < _LEAST_NEW:
            raise UsageError(
                f"a tenth of the prompts or more have {typical} tokens, and the context of "
                f"`{model.policy.name}` is {model.context}",
                "take a model with a longer context, or shorter prompts",
            )
        why = f"the longest prompts, up to {data.longest} tokens, leave no room"
        chosen["rollout"]["overlong"] = Choice("skip", why)
    wanted = _NEW_TOKENS[machine.device.kind]
    if room < wanted:
        why = f"the context of {model.context} leaves so many"
    else:
        why = f"the context leaves {room:,}"
        why += "; on a CPU fewer take less time" if machine.device.kind == "cpu" else ""
    chosen["rollout"]["max_new_tokens"] = Choice(min(wanted, room), why)
    slow = machine.device.kind == "cpu" and model.parameters > _TINY
    wanted = max(_CPU_PROMPTS if slow else 32, machine.size)
    if rows < machine.size:
        raise UsageError(
            f"there are {rows} prompts to train on, and {machine.size} processes to share them",
            "take fewer nodes or GPUs with --nodes or --gpus",
        )
    count = min(wanted, rows)
    why = f"there are {rows:,}" if count == rows else f"of {rows:,}"
    why += "; on a CPU a step takes long" if slow and count < rows else ""
    chosen["train"]["prompts_per_step"] = Choice(count, why)
    return chosen


def _steps(rows: int, prompts: int) -> Choice:
    least, most = _STEPS
    steps = min(max(rows // prompts, least), most)
    passes = steps * prompts / rows
    return Choice(steps, f"{passes:.2g} times over {rows:,} prompts")


def _evaluation(steps: int, machine: Machine, evaluates: bool) -> dict[str, Choice]:
    if not evaluates:
        return {"eval_every": Choice(0, "there are no prompts to evaluate on")}
    chosen = {"eval_every": Choice(max(1, steps // 5), "five times in the run, and at its start")}
    if machine.device.kind == "cpu":
        chosen["eval_num_generations"] = Choice(4, "on a CPU an evaluation takes long")
    return chosen


def _engine(model: ModelFacts, data: DataFacts, machine: Machine) -> dict[str, Choice]:
    if machine.device.kind == "cpu":
        return {}
    if data.with_images:
        why = "`graph` reads only text"
        return {"engine": Choice("vllm" if version("vllm") else "transformers", why)}
    if model.is_static:
        return {"engine": Choice("graph", "samples from the trainer's own weights on the GPU")}
    if version("vllm"):
        return {"engine": Choice("vllm", "`graph` cannot sample from layers of this kind")}
    return {}


def _fitted(
    model: ModelFacts, data: DataFacts, machine: Machine, chosen: Chosen
) -> tuple[RunConfig, Chosen]:
    """The configuration, changed as the memory estimate advises until every phase fits."""
    free = int(_SPARE * machine.device.free)
    device = dataclasses.replace(machine.device, free=free)
    config = configured(model, chosen)
    attempts = 0
    while over := _over(model, data, machine, config, device):
        attempts += 1
        why = f"{over.phase} would take {gib(over.total)}, {gib(free)} may be filled"
        words = shlex.split(over.remedy)
        adapters = "lora_rank" not in chosen["train_step"]
        if (not words or "--trainer" in words) and adapters:
            chosen["train_step"] |= {
                "lora_rank": Choice(16, why),
                "learning_rate": Choice(1e-5, "adapters take a higher rate"),
            }
        elif words and _processes(words) <= machine.size and attempts < _ATTEMPTS:
            _apply(chosen, words, why)
        else:
            raise _too_large(model, machine, over)
        config = configured(model, chosen)
    return config, chosen


def _too_large(model: ModelFacts, machine: Machine, over: Requirement) -> UsageError:
    return UsageError(
        f"{over.phase} of `{model.policy.name}` needs {gib(over.total)} of "
        f"{gib(machine.device.free)} on {machine.device.name}, even if only adapters are trained",
        "take more GPUs or a smaller model; --gpus and --gpu-memory say what another machine has",
    )


def _over(
    model: ModelFacts, data: DataFacts, machine: Machine, config: RunConfig, device: Device
) -> Requirement | None:
    """The first phase that does not fit."""
    longest = min(data.longest, model.context - config.rollout.max_new_tokens)
    needs = phases.run(
        shape_of(model.policy, config.train_step),
        config,
        device,
        prompt=longest,
        reference=bool(config.train.eval_every),
        size=machine.size,
    )
    return next((need for need in needs if need.total > device.free), None)


def configured(model: ModelFacts, chosen: Chosen) -> RunConfig:
    """The configuration of what was chosen, with the defaults of the rest."""
    tables = {name: {k: c.value for k, c in chosen[name].items()} for name in chosen}
    start = RunConfig()
    changed = {
        name: dataclasses.replace(getattr(start, name), **values) for name, values in tables.items()
    }
    config = dataclasses.replace(start, **changed)
    train = dataclasses.replace(config.train, model=model.policy.name)
    return dataclasses.replace(config, train=train)


def _processes(words: list[str]) -> int:
    return int(words[words.index("--nproc") + 1]) if "--nproc" in words else 1


def _apply(chosen: Chosen, words: list[str], why: str) -> None:
    """Takes over the flags of a remedy, as in `--recompute-activations --trainer NAME`."""
    tables = {"rollout": RolloutOptions, "train_step": UpdateOptions}
    for position, word in enumerate(words):
        name = word.removeprefix("--").replace("-", "_")
        for table, kind in tables.items():
            option = {f.name: f for f in dataclasses.fields(kind)}.get(name)
            if word.startswith("--") and option:
                given = True if option.type is bool else words[position + 1]
                value = int(given) if option.type is int else given
                chosen[table][name] = Choice(value, why)
