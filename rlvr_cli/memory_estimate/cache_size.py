"""The size of a model's decoding cache: keys and values of tokens, and states of rows."""

import functools
from pathlib import Path
from typing import Any, NamedTuple

from rlvr_cli.models import key_heads, pretrained


class CacheSize(NamedTuple):
    """Numbers in the caches of all layers together."""

    per_token: int
    per_row: int = 0


def of(path: Path, config: Any, *, reads_images: bool) -> CacheSize:
    """That of a model, by its configuration where layers cache keys and values alone.

    What other layers cache has a name of its own in each family, and is measured.
    """
    measured = None if key_heads.are_all(config) else _measured(path, reads_images)
    if measured:
        return measured
    heads = key_heads.of(config)
    # The last layers of Gemma 3n and 4 read keys and values of earlier ones.
    shared = getattr(config.get_text_config(), "num_kv_shared_layers", 0)
    return CacheSize(2 * sum(layer.heads * layer.size for layer in heads[: len(heads) - shared]))


@functools.lru_cache(maxsize=8)  # several stages of a run ask, with other options
def _measured(path: Path, reads_images: bool) -> CacheSize | None:
    """From passes of one and two tokens without weights; None if its code cannot run so."""
    import torch

    try:
        with torch.device("meta"):
            model = pretrained.untrained(pretrained.config(path), reads_images=reads_images)
        one, two = (_after(model.bfloat16(), tokens) for tokens in (1, 2))
    except Exception:  # code that reads values fails there, with errors of any kind
        return None
    return CacheSize(two - one, max(0, 2 * one - two))


def _after(model: Any, tokens: int) -> int:
    """Numbers in the cache after a pass of so many tokens."""
    import torch

    with torch.no_grad():
        token_ids = torch.zeros((1, tokens), dtype=torch.long, device="meta")
        output = model(token_ids, use_cache=True)
    caches = (output.get(name) for name in ("past_key_values", "cache_params", "state"))
    return sum(_tensors(next(cache for cache in caches if cache is not None)).values())


def _tensors(cache: Any) -> dict[int, int]:
    """The sizes of a cache's tensors by their identity, as layers may share some."""
    import torch

    if isinstance(cache, torch.Tensor):
        return {id(cache): cache.numel()}
    if isinstance(cache, dict):
        cache = list(cache.values())
    elif hasattr(cache, "__dict__"):
        cache = list(vars(cache).values())
    found: dict[int, int] = {}
    for part in cache if isinstance(cache, list | tuple) else ():
        found |= _tensors(part)
    return found
