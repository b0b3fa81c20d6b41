"""How many keys and values the layers of a model keep of a token, by its configuration."""

from typing import Any, NamedTuple

# Layers of a hybrid model that keep a state of one size instead, or nothing.
_WITHOUT_KEYS = {"linear_attention", "mamba", "conv", "recurrent", "moe", "mlp"}


class KeyHeads(NamedTuple):
    """Those of a layer, and their size."""

    heads: int
    size: int


def of(config: Any) -> list[KeyHeads]:
    """The key heads of each layer that has any; in Gemma 4 they differ from layer to layer."""
    text = config.get_text_config()
    layers = getattr(text, "per_layer_config", None) or [text] * text.num_hidden_layers
    kinds = getattr(text, "layer_types", None) or [""] * len(layers)
    return [
        KeyHeads(
            getattr(layer, "num_key_value_heads", None) or layer.num_attention_heads,
            _size(layer),
        )
        for layer, kind in zip(layers, kinds, strict=False)
        if kind not in _WITHOUT_KEYS and getattr(layer, "num_attention_heads", None)
    ]


def _size(layer: Any) -> int:
    """That of a head's keys; where they are latent, `head_dim` is the part with a rotation."""
    of_keys = getattr(layer, "qk_head_dim", None) or getattr(layer, "head_dim", None)
    return int(of_keys or layer.hidden_size // layer.num_attention_heads)


def are_all(config: Any) -> bool:
    """Whether layers keep nothing but the keys and values of their heads.

    Not so in layers with a state, and where keys and values are kept as a latent vector.
    """
    text = config.get_text_config()
    is_latent = bool(getattr(text, "kv_lora_rank", None))
    has_states = "hybrid" in str(getattr(text, "layer_types", None))
    return len(of(config)) == text.num_hidden_layers and not (is_latent or has_states)
