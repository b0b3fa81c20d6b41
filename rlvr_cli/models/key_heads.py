"""How many keys and values the layers of a model keep of a token, by its configuration."""

from typing import Any, NamedTuple


class KeyHeads(NamedTuple):
    """Those of a layer, and their size."""

    heads: int
    size: int


def of(config: Any) -> list[KeyHeads]:
    """The key heads of each layer; in Gemma 4 they differ from layer to layer."""
    text = config.get_text_config()
    layers = getattr(text, "per_layer_config", None) or [text] * text.num_hidden_layers
    return [
        KeyHeads(
            getattr(layer, "num_key_value_heads", None) or layer.num_attention_heads,
            getattr(layer, "head_dim", None) or layer.hidden_size // layer.num_attention_heads,
        )
        for layer in layers
    ]
