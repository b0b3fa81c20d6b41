"""Checkpoints with quantized weights: they can be sampled from and dequantized, not trained."""

import json
import shlex
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
            f"dequantize them: `rlvr convert {shlex.quote(str(path))} --out DIR`, then --model DIR",
        )


def dequantize(model: Any, name: str) -> Any:
    """The model with plain weights; DataError if transformers cannot dequantize them.

    It does so while it loads a GGUF file, and FP8 and MXFP4 on a machine without a GPU.
    """
    how = getattr(model.config, "quantization_config", None)
    if not how or getattr(how, "dequantize", False) or how.quant_method == "gguf":
        return model
    try:
        return model.dequantize()
    except Exception as error:  # each method raises its own
        raise DataError(
            f"transformers cannot dequantize `{name}`: {first_line(error)}",
            "name the model that it was quantized from",
        ) from error
