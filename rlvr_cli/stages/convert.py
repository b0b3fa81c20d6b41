"""Any checkpoint or other model that transformers loads, as weights that every engine reads."""

import json
import shutil
from pathlib import Path
from typing import Any, Literal

from rlvr_cli.errors import DataError, UsageError, UserError, first_line
from rlvr_cli.models import (
    checkpoints,
    hub,
    lora,
    peft_adapters,
    policy as policies,
    pretrained,
    processors,
    quantized,
    tokenizers,
)
from rlvr_cli.storage import atomic, disk

Dtype = Literal["bfloat16", "float32"]
_GENERATION = "generation_config.json"


def run(
    model: str, out: Path, dtype: Dtype, *, repo: str | None = None, private: bool = False
) -> dict[str, Any]:
    """Writes `out` as `write` does, and uploads it if a repository is named; the summary."""
    if out.exists():
        raise UsageError(f"`{out}` exists", "choose another place with --out, or remove it")
    if repo:
        hub.check(repo)
    summary = write(model, out, dtype)
    return summary | ({"pushed": hub.push(out, repo, private=private)} if repo else {})


def write(model: str, out: Path, dtype: Dtype) -> dict[str, Any]:
    """Writes `out` completely or not at all; its summary.

    `model` is a directory, a checkpoint, a run, a GGUF file or a hub name. Adapters are merged into
    their base, and quantized weights are written out in `dtype`.
    """
    place, adapters = _place(model)
    source = adapters or Path(place)
    loaded, tokenizer = _load(place, adapters, dtype)
    reads_images = processors.reads_images(Path(place))
    plain = _plain(loaded, dtype, reads_images=reads_images)
    ends = _end_ids(loaded, tokenizer)
    plain.generation_config.eos_token_id = ends
    generation = json.loads(loaded.generation_config.to_json_string(use_diff=True))
    generation |= {"eos_token_id": ends, "pad_token_id": tokenizer.pad_token_id}
    generation = {name: value for name, value in generation.items() if value is not None}
    size = {"bfloat16": 2, "float32": 4}[dtype]
    hint = "free that much there, and run the same command again"
    disk.require(out.parent, size * plain.num_parameters(), f"the model in {dtype}", hint)
    with atomic.write_folder(out) as folder:
        plain.save_pretrained(folder)
        (folder / _GENERATION).write_bytes(atomic.pretty_json(generation))
        _write_tokenizer(tokenizer, _with_tokenizer(adapters) or Path(place), folder)
        _write_processor(Path(place), folder)
    return {
        "source": model if hub.is_name(model) else str(source),
        "merged": adapters is not None,
        "parameters": plain.num_parameters(),
        "dtype": dtype,
        "bytes": sum(path.stat().st_size for path in out.iterdir()),
        "eos": ends,
        "chat_template": bool(getattr(tokenizer, "chat_template", None)),
    }


def _place(model: str) -> tuple[str, Path | None]:
    """Where transformers finds the model, and the adapters to merge if they are what was named."""
    path = Path(model)
    if model not in policies.BUILTINS:
        if hub.is_name(model):
            path = hub.download(model)
        if path.is_file():
            return model, None
        if peft_adapters.base_named(path):
            return str(peft_adapters.base_of(path)), path
        folder = checkpoints.policy_in(path)
        if folder and (folder / "config.json").exists():
            return str(folder), None
    policy = policies.resolve(model)
    return (str(policy.base.path), policy.path) if policy.base else (str(policy.path), None)


def _load(place: str, adapters: Path | None, dtype: Dtype) -> tuple[Any, Any]:
    """The model, in `dtype` or in float32 if its weights must be computed, and its tokenizer."""
    import torch

    tokenizers.quiet()
    path = Path(place)
    options: dict[str, Any] = {}
    if path.is_file():
        if path.suffix != ".gguf":
            raise UsageError(f"`{place}` is a file", "name a model directory, or a GGUF file")
        _require_gguf()
        options = {"gguf_file": path.name}
    source = str(path.parent) if options else place
    try:
        tokenizer = pretrained.tokenizer(_with_tokenizer(adapters) or source, **options)
        config = None if options else pretrained.config(source)
        is_stored = config and not adapters and not getattr(config, "quantization_config", None)
        loaded = pretrained.model(
            source,
            reads_images=processors.reads_images(path),
            dtype=getattr(torch, dtype) if is_stored else torch.float32,
            **options,
        )
    except UserError:
        raise
    except Exception as error:  # a broken file may raise anything
        disk.refuse(error)
        raise DataError(
            f"transformers cannot load `{place}`: {first_line(error)}",
            "name a directory, a GGUF file or a hub name of a model that it knows",
        ) from error
    loaded = quantized.dequantize(loaded, place)
    if adapters and lora.base_of(adapters):
        lora.attach(loaded, adapters)
        lora.merge(loaded)
    elif adapters:
        loaded = peft_adapters.merge(loaded, adapters)
    return loaded.eval(), tokenizer


def _with_tokenizer(adapters: Path | None) -> Path | None:
    """The folder of adapters if it has a tokenizer; that of their base serves otherwise."""
    return adapters if adapters and tokenizers.files(adapters) else None


def _require_gguf() -> None:
    try:
        import accelerate  # noqa: F401
        import gguf  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"a GGUF file needs a package that is not installed: {error.name}",
            "pip install 'rlvr[gguf]'",
        ) from error


def _plain(loaded: Any, dtype: Dtype, *, reads_images: bool) -> Any:
    """The same model without what it knows of its quantization, which cannot be saved."""
    import torch

    config = loaded.config
    config.__dict__.pop("quantization_config", None)
    with torch.device("meta"):
        model = pretrained.untrained(config, reads_images=reads_images)
    state = {
        name: value.to(getattr(torch, dtype)) if value.is_floating_point() else value
        for name, value in loaded.state_dict().items()
    }
    model.load_state_dict(state, assign=True)
    model.tie_weights()
    model.config.dtype = dtype
    return model


def _end_ids(loaded: Any, tokenizer: Any) -> list[int] | int | None:
    """What the model declares to end a completion, with the tokenizer's own if it is missing."""
    declared = loaded.generation_config.eos_token_id
    ids = declared if isinstance(declared, list) else [declared]
    every = list(dict.fromkeys(i for i in (*ids, tokenizer.eos_token_id) if i is not None))
    return every[0] if len(every) == 1 else every or None


def _write_tokenizer(tokenizer: Any, source: Path, out: Path) -> None:
    """The tokenizer's own files where there are some: releases of transformers write other ones."""
    files = tokenizers.files(source) if source.is_dir() else []
    if not files:
        tokenizer.save_pretrained(out)
    for file in files:
        shutil.copyfile(file, out / file.name)


def _write_processor(source: Path, out: Path) -> None:
    """The files of the processor of a model that reads images, and of videos where it has them."""
    for file in source.glob("*processor_config.json"):
        shutil.copyfile(file, out / file.name)
