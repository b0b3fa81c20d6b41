"""Low-rank adapters on a frozen base policy (LoRA, arXiv:2106.09685), through peft.

    W x + (alpha / rank) B A x,   B = 0 at the start

Their checkpoint is a peft adapter directory with a `base.json`: the base policy, its digest, and
the names of the adapted modules as they were given.
"""

import functools
import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlvr_cli.config import UpdateOptions
from rlvr_cli.errors import Advice, DataError, UsageError
from rlvr_cli.models import vision_part
from rlvr_cli.runtime import seeds
from rlvr_cli.storage import atomic

BASE = "base.json"
CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_ALL = UpdateOptions.lora_targets
_NAME = "default"  # peft's own
# Kernels of these read the weight of `out_proj` itself, so peft refuses adapters there.
_MAMBA = ("mamba", "mamba2", "falcon_mamba", "falcon_h1", "nemotron_h")


@dataclass(frozen=True)
class Base:
    """What `base.json` holds; a policy that is a path is one from the checkpoint's folder."""

    policy: str
    digest: str
    targets: str


def base_of(path: Path) -> Base | None:
    """The base of the adapters in a directory, None if it holds a full policy."""
    return Base(**_json(path / BASE)) if (path / BASE).exists() else None


def rank_of(path: Path) -> int:
    """The rank of the adapters in a directory, 0 if it holds a full policy."""
    return int(_json(path / CONFIG)["r"]) if base_of(path) else 0


def adapts_parameters(path: Path) -> bool:
    """Whether adapters in a directory also adapt tensors, such as experts, not only modules.

    False of a full policy.
    """
    return bool(base_of(path) and _json(path / CONFIG).get("target_parameters"))


def adapts_vision(path: Path) -> bool:
    """Whether adapters in a directory are of the vision part too, of a policy that reads images.

    False of a full policy.
    """
    return bool(base_of(path)) and not _json(path / CONFIG).get("exclude_modules")


def check(path: Path, options: UpdateOptions) -> None:
    """Refuses adapters without peft, and options other than those of the policy's adapters."""
    rank, alpha = options.lora_rank, _alpha(options)
    if rank:
        package()
    elif options.lora_alpha or options.lora_targets != _ALL:
        raise UsageError(
            "--lora-alpha or --lora-targets is given, --lora-rank is 0",
            "set the size of the adapters with --lora-rank",
        )
    if base := base_of(path):
        config = _json(path / CONFIG)
        recorded = (config["r"], config["lora_alpha"], base.targets)
        if recorded != (rank, alpha, options.lora_targets):
            flags = "--lora-rank {} --lora-alpha {:g} --lora-targets {}"
            raise UsageError(
                f"`{path}` holds adapters of {flags.format(*recorded)}, but the options are "
                f"{flags.format(rank, alpha, options.lora_targets)}",
                f"resume with `{flags.format(*recorded)}`",
            )


def inject(model: Any, options: UpdateOptions, seed: int, *, reads_images: bool = False) -> None:
    """Puts new adapters into a model in place; only they are trained.

    Those of a model that `reads_images` are of its language part, unless all is to be trained.
    """
    excludes = reads_images and not options.train_vision
    config = package().LoraConfig(
        r=options.lora_rank,
        lora_alpha=_alpha(options),
        target_modules=_targets(model, options.lora_targets, of_language=excludes),
        exclude_modules=vision_part.pattern(model) if excludes else _not_adapted(model, options),
        lora_dropout=0.0,
        task_type="CAUSAL_LM",
    )
    try:
        _inject(model, config, seed)
    except ValueError as error:
        raise UsageError(
            f"--lora-targets is {options.lora_targets}: {str(error).partition(chr(10))[0][:200]}",
            f"name linear modules, or leave it out for {_ALL}",
        ) from error
    if model.device.type != "meta":
        _try_out(model, options)
    adapted = {".experts." in name for name, _ in _trained(model)}
    has_experts = any(".experts." in name for name, _ in model.named_parameters())
    if has_experts and options.lora_targets == _ALL and True not in adapted:
        _warn_of_experts(type(model).__name__)


def attach(model: Any, path: Path) -> None:
    """Puts the adapters of a checkpoint into its base, in place."""
    import torch
    from safetensors.torch import load_file

    config_class = package().LoraConfig
    try:
        _inject(model, config_class.from_pretrained(str(path)), seed=0)
        weights = load_file(path / WEIGHTS)
        with torch.no_grad():
            for name, parameter in _trained(model):
                parameter.copy_(weights.pop(name))
        if weights:
            raise ValueError(f"it holds {next(iter(weights))}, which is not an adapter of the base")
    except Exception as error:  # a broken file may raise anything
        raise DataError(
            f"cannot load the adapters in `{path}`: {str(error).partition(chr(10))[0][:200]}",
            "copy them again, or run that update again",
        ) from error


def merge(model: Any) -> None:
    """Adds the adapters that are attached to a model to its weights, in place."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    adapted = {n: m for n, m in model.named_modules() if isinstance(m, BaseTunerLayer)}
    for module in adapted.values():
        module.merge()
    for name, module in adapted.items():
        if not any(name.startswith(f"{other}.") for other in adapted):  # those of experts nest
            model.set_submodule(name, module.get_base_layer())
    del model.peft_config


def save(model: Any, path: Path, trained: dict[str, Any], base: Base) -> None:
    """Writes the named weights of a model's adapters as peft does, and their base."""
    from safetensors.torch import save_file

    path.mkdir(parents=True, exist_ok=True)
    config = {
        key: sorted(value) if isinstance(value, set) else value
        for key, value in model.peft_config[_NAME].to_dict().items()
    }
    config["base_model_name_or_path"] = None if base.policy.startswith(".") else base.policy
    (path / CONFIG).write_bytes(atomic.pretty_json(config))
    weights = {_peft_name(name): value.contiguous() for name, value in trained.items()}
    save_file(weights, path / WEIGHTS, {"format": "pt"})
    (path / BASE).write_bytes(atomic.pretty_json(vars(base)))


def _alpha(options: UpdateOptions) -> float:
    return options.lora_alpha or 2.0 * options.lora_rank


def _inject(model: Any, config: Any, seed: int) -> None:
    import torch

    with torch.random.fork_rng(), warnings.catch_warnings():
        # It says so of experts' patterns although it has applied them.
        warnings.filterwarnings("ignore", r"The following (rank|alpha)_pattern keys did not match")
        torch.manual_seed(seeds.derive("lora", seed))
        package().inject_adapter_in_model(config, model, _NAME)
    model.eval()


def _try_out(model: Any, options: UpdateOptions) -> None:
    """Refuses adapters that a model's code cannot be run with, as those of some routers."""
    import torch

    try:
        with torch.no_grad():
            model(torch.tensor([[0, 1]], device=model.device), use_cache=False)
    except (AttributeError, TypeError, ValueError, RuntimeError) as error:
        raise UsageError(
            f"--lora-targets is {options.lora_targets}: {type(model).__name__} cannot be run with "
            f"such adapters: {str(error).partition(chr(10))[0][:200]}",
            "name modules, as in --lora-targets q_proj,k_proj,v_proj,o_proj",
        ) from error


@functools.cache
def _warn_of_experts(kind: str) -> None:
    warnings.warn(
        f"the adapters leave the experts of {kind} as they are: {_ALL} has none for them in this "
        "version of peft",
        Advice,
        stacklevel=2,
    )


def _trained(model: Any) -> Iterator[tuple[str, Any]]:
    """The adapters' weights, by the names that a peft directory has for them."""
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            yield _peft_name(name), parameter


def _peft_name(name: str) -> str:
    return f"base_model.model.{name.replace(f'.{_NAME}.', '.')}"


def _targets(model: Any, text: str, *, of_language: bool) -> str | list[str]:
    """The modules to adapt, for peft; an error for a name that fits none, or the output head."""
    if text == _ALL:
        return _linear(model.get_decoder()) if of_language else text
    names = [name.strip() for name in text.split(",")]
    ends = (model.get_input_embeddings(), model.get_output_embeddings())
    for name in names:
        modules = [m for path, m in model.named_modules() if f".{path}".endswith(f".{name}")]
        if not name or not modules:
            raise UsageError(
                f"--lora-targets is {text}: the policy has no module `{name}`",
                f"name linear modules such as q_proj, or leave it out for {_ALL}",
            )
        if any(module is end for module in modules for end in ends):
            raise UsageError(
                f"--lora-targets is {text}: `{name}` is the output head or the embedding",
                f"name other modules, or leave it out for {_ALL}",
            )
    return names


def _linear(model: Any) -> list[str]:
    """The last names of a model's linear modules."""
    import torch

    linear = (n for n, module in model.named_modules() if isinstance(module, torch.nn.Linear))
    return sorted({name.rpartition(".")[2] for name in linear})


def _not_adapted(model: Any, options: UpdateOptions) -> list[str] | None:
    """The modules that peft refuses among all linear ones, None of most models."""
    is_mamba = model.config.model_type in _MAMBA and options.lora_targets == _ALL
    return ["out_proj"] if is_mamba else None


def _json(path: Path) -> dict[str, Any]:
    try:
        values: dict[str, Any] = json.loads(atomic.read_bytes(path))
        return values
    except (ValueError, RecursionError) as error:
        raise DataError(f"`{path}` is broken: {error}", "run that update again") from error


def package() -> Any:
    """The peft package; UsageError where it is not installed."""
    try:
        import peft
    except ImportError as error:
        raise UsageError(
            "LoRA needs a package that is not installed", "pip install 'rlvr[lora]'"
        ) from error
    return peft
