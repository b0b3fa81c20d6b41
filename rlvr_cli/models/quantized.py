"""Checkpoints with quantized weights: sampled from, made plain, never trained."""

import json
from pathlib import Path
from typing import Any

from rlvr_cli.errors import DataError, UsageError, first_line
from rlvr_cli.models.policy import Policy


def method(path: Path) -> str:
    """How the weights of a model's directory are quantized, by its config.json; "" if plain."""
    file = path / "config.json"
    config = json.loads(file.read_text()) if file.exists() else {}
    for part in (config, config.get("text_config") or {}):
        if how := part.get("quantization_config"):
            return str(how.get("quant_method", "quantized"))
    return ""


def check_plain(policy: Policy) -> None:
    """UsageError if the weights that would be trained are quantized."""
    path = (policy.base or policy).path
    if how := method(path):
        raise UsageError(
            f"`{path}` has quantized weights ({how}), which cannot be trained",
            f"make plain ones of them: `rlvr convert {path} --out DIR`, then --model DIR",
        )


def dequantize(model: Any, name: str) -> Any:
    """The model with plain weights; DataError if transformers cannot make them.

    It makes those of a GGUF file while it loads them, and of FP8 and MXFP4 where there is no GPU.
    """
    how = getattr(model.config, "quantization_config", None)
    if not how or getattr(how, "dequantize", False) or how.quant_method == "gguf":
        return model
    try:
        return model.dequantize()
    except Exception as error:  # each method raises its own
        raise DataError(
            f"transformers cannot make plain weights of `{name}`: {first_line(error)}",
            "name the model that it was quantized from",
        ) from error
