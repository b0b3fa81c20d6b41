"""Adapters that another trainer wrote with peft: merged into their base, which they name.

rlvr's own adapters also have a `base.json` with the base's digest: see `lora`.
"""

import json
import shlex
import warnings
from pathlib import Path
from typing import Any

from rlvr_cli.errors import DataError, first_line
from rlvr_cli.models import hub, lora

_HEADS = ("embed_tokens.weight", "lm_head.weight", "wte.weight")


def base_named(path: Path) -> str | None:
    """The base that the adapters in a directory name; None if it holds a model, or rlvr's own."""
    file = path / lora.CONFIG
    if not file.exists() or (path / lora.BASE).exists() or (path / "config.json").exists():
        return None
    try:
        config = json.loads(file.read_text())
        name, task = config["base_model_name_or_path"], config.get("task_type")
    except (ValueError, KeyError) as error:
        raise DataError(f"`{file}` names no base model", "copy the adapters again") from error
    if task not in (None, "CAUSAL_LM"):
        raise DataError(
            f"`{path}` holds adapters for the task {task}, not for a causal language model",
            "name adapters for CAUSAL_LM",
        )
    return str(name)


def unmerged(path: Path) -> DataError | None:
    """The refusal of adapters where a model is needed, None of anything else."""
    if (base := base_named(path)) is None:
        return None
    merge = shlex.join(["rlvr", "convert", str(path), "--out", "DIR"])
    return DataError(
        f"`{path}` holds adapters of `{base}`, no model",
        f"merge them with `{merge}`, then name that DIR",
    )


def base_of(path: Path) -> Path:
    """The folder of the base that adapters name: a path, one next to them, or on the hub."""
    name = base_named(path) or ""
    places = (Path(name), path / name)
    if place := next((place for place in places if (place / "config.json").exists()), None):
        return place
    if hub.is_name(name):
        return hub.download(name)
    raise DataError(
        f"`{path}` holds adapters of `{name}`, and there is no model",
        f"write its path as base_model_name_or_path into `{path / lora.CONFIG}`",
    )


def merge(model: Any, path: Path) -> Any:
    """The base with the adapters of a directory added to its weights.

    A vocabulary that was extended with them is extended first. Where only one of a word embedding
    and the output head that shared its weights was adapted, they share them no longer.
    """
    peft = lora.package()
    configs = (model.config, model.config.get_text_config())
    shared = [bool(getattr(config, "tie_word_embeddings", False)) for config in configs]
    try:
        if rows := _rows(path):
            model.resize_token_embeddings(rows)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="peft")  # of shared weights, as below
            # peft asks for what newer releases of transformers have renamed
            warnings.filterwarnings("ignore", "`is_gradient_checkpointing`", FutureWarning)
            adapted = peft.PeftModel.from_pretrained(model, path)
            head = model.get_output_embeddings()
            if not isinstance(head, peft.utils.ModulesToSaveWrapper):  # it has weights of its own
                _separate(getattr(head, "base_layer", head))
            merged = adapted.merge_and_unload()
    except Exception as error:  # each kind of adapters raises its own
        raise DataError(
            f"peft cannot merge the adapters in `{path}`: {first_line(error)}",
            "copy them again, or merge them with what wrote them",
        ) from error
    head, embedding = merged.get_output_embeddings(), merged.get_input_embeddings()
    for config, is_shared in zip(configs, shared, strict=True):
        config.tie_word_embeddings = is_shared and head.weight.equal(embedding.weight)
    return merged


def _separate(head: Any) -> None:
    """Gives an output head weights of its own, which it may share with the word embedding."""
    head.weight = type(head.weight)(head.weight.detach().clone())


def _rows(path: Path) -> int:
    """How many rows the embedding has that was stored with the adapters, 0 if none was."""
    from safetensors import safe_open

    file = path / lora.WEIGHTS
    if not file.exists():
        return 0
    with safe_open(file, "pt") as stored:
        return max(
            (stored.get_slice(n).get_shape()[0] for n in stored.keys() if n.endswith(_HEADS)),  # noqa: SIM118
            default=0,
        )
