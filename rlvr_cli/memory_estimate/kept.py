"""What a model keeps of a row while it decodes: keys and values of tokens, and states."""

from typing import Any, NamedTuple

from rlvr_cli.models import key_heads


class Kept(NamedTuple):
    """Numbers that all layers together keep."""

    of_token: int
    of_row: int = 0


def of(model: Any) -> Kept:
    """Those of a model on the meta device, which this turns to bfloat16.

    By its configuration where layers keep keys and values alone; what other layers keep has a name
    of its own in each family, and is seen from passes of one and two tokens.
    """
    heads = key_heads.of(model.config)
    shared = getattr(
        model.config.get_text_config(), "num_kv_shared_layers", 0
    )  # with an earlier one
    by_heads = Kept(2 * sum(layer.heads * layer.size for layer in heads[: len(heads) - shared]))
    if key_heads.are_all(model.config):
        return by_heads
    try:
        one, two = (_after(model.bfloat16(), tokens) for tokens in (1, 2))
    except Exception:  # code that reads values fails there, with errors of any kind
        return by_heads
    return Kept(two - one, max(0, 2 * one - two))


def _after(model: Any, tokens: int) -> int:
    """Numbers that are kept after a pass of so many tokens."""
    import torch

    with torch.no_grad():
        token_ids = torch.zeros((1, tokens), dtype=torch.long, device="meta")
        made = model(token_ids, use_cache=True)
    kept = (made.get(name) for name in ("past_key_values", "cache_params", "state"))
    return sum(_tensors(next(each for each in kept if each is not None)).values())


def _tensors(kept: Any) -> dict[int, int]:
    """The sizes of a cache's tensors by their identity, as layers may share some."""
    import torch

    if isinstance(kept, torch.Tensor):
        return {id(kept): kept.numel()}
    if isinstance(kept, dict):
        kept = list(kept.values())
    elif hasattr(kept, "__dict__"):
        kept = list(vars(kept).values())
    found: dict[int, int] = {}
    for each in kept if isinstance(kept, list | tuple) else ():
        found |= _tensors(each)
    return found
