"""Any model that transformers loads, as a directory that every engine reads."""

import shutil
from pathlib import Path
from typing import Any, Literal

from rlvr_cli.errors import DataError, UsageError, first_line
from rlvr_cli.storage import atomic

Dtype = Literal["bfloat16", "float32"]


def run(model: str, out: Path, dtype: Dtype) -> dict[str, Any]:
    """Writes `out` completely or not at all; its summary.

    `model` is a directory, a GGUF file or a hub name. Quantised weights are written out in `dtype`.
    """
    if out.exists():
        raise UsageError(f"`{out}` exists", "choose another place with --out, or remove it")
    loaded, tokenizer = _load(model)
    plain = _plain(loaded, dtype)
    plain.generation_config.eos_token_id = _end_ids(loaded, tokenizer)
    plain.generation_config.pad_token_id = tokenizer.pad_token_id
    temporary = out.with_name(f"_tmp-{out.name}")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        atomic.make_folder(temporary)
        plain.save_pretrained(temporary)
        tokenizer.save_pretrained(temporary)
        for path in temporary.iterdir():
            atomic.sync_file(path)
        temporary.rename(out)
        atomic.sync_folder(out.parent)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise atomic.write_error(out, error) from error
    return {
        "parameters": plain.num_parameters(),
        "dtype": dtype,
        "eos": plain.generation_config.eos_token_id,
        "chat_template": bool(getattr(tokenizer, "chat_template", None)),
    }


def _load(model: str) -> tuple[Any, Any]:
    """The model in float32 and its tokenizer."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from rlvr_cli.models.policy import quiet

    quiet()
    path, options = Path(model), {}
    if path.is_file():
        if path.suffix != ".gguf":
            raise UsageError(f"`{model}` is a file", "name a model directory, or a GGUF file")
        _require_gguf()
        options = {"gguf_file": path.name}
    place = path.parent if options else model
    try:
        tokenizer = AutoTokenizer.from_pretrained(place, **options)
        loaded = AutoModelForCausalLM.from_pretrained(place, dtype=torch.float32, **options)
    except Exception as error:  # a broken file may raise anything
        raise DataError(
            f"transformers cannot load `{model}`: {first_line(error)}",
            "name a directory, a GGUF file or a hub name of a model that it knows",
        ) from error
    return loaded.eval(), tokenizer


def _require_gguf() -> None:
    try:
        import accelerate  # noqa: F401
        import gguf  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"a GGUF file needs a package that is not installed: {error.name}",
            "pip install 'rlvr[gguf]'",
        ) from error


def _plain(loaded: Any, dtype: Dtype) -> Any:
    """The same model without what it knows of its quantisation, which cannot be saved."""
    import torch
    from transformers import AutoModelForCausalLM

    config = loaded.config
    config.__dict__.pop("quantization_config", None)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    state = {name: value.to(getattr(torch, dtype)) for name, value in loaded.state_dict().items()}
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
