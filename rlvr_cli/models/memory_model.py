"""The memory model of DLC: a causal language model with the policy's tokenizer."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlvr_cli.config import RolloutOptions
from rlvr_cli.errors import UsageError
from rlvr_cli.models import policy as policies, pretrained, tokenizers
from rlvr_cli.models.policy import Policy
from rlvr_cli.storage import atomic, disk
from rlvr_cli.storage.shards import Shards

AUTO = "auto"  # one built from the policy's configuration
FOLDER = "memory-model"
_SHARE = 4  # one that is built has one in so many of the policy's layers
_SUFFIXES = (".json", ".model", ".txt", ".jinja")


def resolve(name: str, policy: Policy) -> Policy:
    """The memory model of a name; an error unless its tokenizer is the policy's."""
    memory = policies.resolve(name)
    expected, other = (tokenizers.load(each).get_vocab() for each in (policy, memory))
    if expected != other:
        token = next(iter(sorted(expected.items() ^ other.items())))
        raise UsageError(
            f"the tokenizer of `{memory.name}` is not that of `{policy.name}`: token {token[0]!r} "
            f"is {other.get(token[0], 'missing')} there, {expected.get(token[0], 'missing')} here",
            "name a memory model with the policy's tokenizer",
        )
    return memory


def sampling(options: RolloutOptions, algo: str, *, decoupled: bool) -> RolloutOptions:
    """How a run's steps are sampled: with `+dlc` from the policy minus a memory model."""
    if decoupled and not options.memory_model:
        return replace(options, memory_model=AUTO)
    if options.memory_model and not decoupled:
        raise UsageError(
            f"--memory-model is {options.memory_model}, and {algo} is for samples of the policy "
            "itself",
            f"train with `--algo {algo}+dlc`, or leave --memory-model out",
        )
    return options


def check(options: RolloutOptions) -> None:
    """Refuses options that do not work with sampling from two models, or that need them."""
    if not options.is_decoupled:
        if options.dlc_min_prob:
            raise UsageError(
                f"--dlc-min-prob is {options.dlc_min_prob:g}, and no memory model is subtracted",
                "name a --memory-model, with --mu above 0, or leave it out",
            )
        return
    if (engine := options.engine.partition(":")[0]) in ("vllm", "openai"):
        raise UsageError(
            f"--engine {engine} samples from one model, and DLC from the policy minus a memory "
            "model",
            "use --engine graph, or --engine transformers",
        )
    if options.temperature == 0 or options.top_k:
        raise UsageError(
            f"DLC samples at a temperature above 0 and of all tokens; temperature is "
            f"{options.temperature:g}, top_k {options.top_k}",
            "leave --temperature 0 and --top-k out; --dlc-min-prob excludes unlikely tokens",
        )


def start(name: str, policy: Policy, folder: Path, seed: int) -> Policy:
    """The memory model of a name; for `auto` a small random one, built in `folder` if missing."""
    if name != AUTO:
        return resolve(name, policy)
    path = folder / FOLDER
    if not path.exists():
        make(policy, path, seed)
    return resolve(str(path), policy)


def chosen(options: RolloutOptions, policy: Policy, folder: Path, seed: int) -> Policy | None:
    """The memory model to subtract from the policy, None without one."""
    if not options.is_decoupled:
        return None
    return start(options.memory_model, policy, folder, seed)


def of(rollouts: Shards, given: str | None) -> Policy:
    """The memory model that was given, or the one that the rollouts were sampled with."""
    if given:
        return resolve(given, policies.of(rollouts, None))
    recorded = rollouts.manifest["paths"].get("memory_model")
    if recorded is None:
        raise UsageError(
            f"`{rollouts.path}` was not sampled with a memory model",
            "name the one to train with --memory-model",
        )
    return policies.recorded_in(rollouts.path, recorded, "--memory-model")


def make(policy: Policy, out: Path, seed: int) -> None:
    """A memory model of random weights: the policy's configuration with a quarter of its layers."""
    import torch

    source = (policy.base or policy).path
    config: Any = pretrained.config(source)
    text = config.get_text_config()
    layers = max(1, text.num_hidden_layers // _SHARE)
    if getattr(text, "layer_types", None):
        text.layer_types = text.layer_types[:layers]
    text.num_hidden_layers = layers
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = pretrained.untrained(config, dtype=torch.float32)
    disk.require(out.parent, 4 * model.num_parameters(), "a memory model")
    with atomic.write_folder(out) as folder:
        model.save_pretrained(folder)
        for path in sorted(source.iterdir()):
            companion = path.suffix in _SUFFIXES and not path.name.endswith(".index.json")
            if companion and not (folder / path.name).exists():
                shutil.copyfile(path, folder / path.name)
