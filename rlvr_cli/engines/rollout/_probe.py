"""Whether an engine decodes a model right: a few tokens, before any is sampled.

Decoding pads prompts, keeps keys and values or other states, and may replace the attention. Some
models of transformers ignore the padding, or keep a state of another kind, and then give plausible
but wrong log-probs. So what an engine makes of two short texts is compared with the model's own
forward pass of each.

Shapes: B texts, T decoded tokens, S tokens of a text, V vocabulary.
"""

import itertools
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from rlvr_cli.errors import UsageError, first_line
from rlvr_cli.kernels import dispatch
from rlvr_cli.models import images, processors
from rlvr_cli.models.policy import Loaded
from rlvr_cli.protocols import Request

# Tokens of the texts before those that are decoded, and of those: a cache of 64 positions.
_PROMPTS, STEPS = (2, 61), 3
_DISTANCE = {torch.float32: 0.002}  # the most that rounding explains; with halves much more:
_OF_HALVES = 0.2
# Models that were found right, with the engine and its number of texts.
_RIGHT: weakref.WeakKeyDictionary[Any, set[tuple[str, int]]] = weakref.WeakKeyDictionary()


def texts(loaded: Loaded, requests: list[Request]) -> list[list[int]]:
    """Token ids of two texts, each a prompt of its own length and `STEPS` tokens that follow.

    Of tokens of the prompts, without the places of images.
    """
    processor = processors.of(loaded.model)
    places = images.placeholder_ids(processor) if processor else ()
    longest = min(max(_PROMPTS) + STEPS, loaded.context)
    tokens = itertools.chain.from_iterable(request.prompt_token_ids for request in requests)
    known = itertools.islice((token for token in tokens if token not in places), longest)
    token_ids = (list(known) or [0]) * longest
    return [token_ids[: min(prompt + STEPS, longest)] for prompt in _PROMPTS]


def check(
    model: Any, texts: list[list[int]], decode: Callable[[], Tensor], engine: str, hint: str
) -> None:
    """Refuses a model if the logits [B, T, V] that `decode` gives of the texts are not its own.

    They are those before each of the last T tokens of each text. Their distance is the total
    variation, half the sum of the differences between probabilities, in the mean of all tokens:

        1/2 sum_v |p(v) - q(v)|

    A model that was found right is not asked again, whatever its weights are by then.
    """
    found = _RIGHT.setdefault(model, set())
    if (engine, len(texts)) in found:
        return
    try:
        decoded_BTV = decode()
    except (dispatch.Unsupported, torch.OutOfMemoryError):
        raise
    except (TypeError, ValueError, RuntimeError) as error:
        why = f"its code fails there: {first_line(error)}"
        raise UsageError(_refusal(model, engine, why), hint) from error
    steps = decoded_BTV.shape[1]
    device = next(model.parameters()).device
    own_BTV = torch.stack([
        model(torch.tensor([text], device=device), use_cache=False).logits[0, -steps - 1 : -1]
        for text in texts
    ])  # fmt: skip
    size = min(own_BTV.shape[-1], decoded_BTV.shape[-1])
    p_BTV, q_BTV = (v[..., :size].float().softmax(-1) for v in (own_BTV, decoded_BTV))
    distance = float((p_BTV - q_BTV).abs().sum(-1).mean() / 2)
    if not distance <= _DISTANCE.get(model.dtype, _OF_HALVES):
        why = f"its probabilities are not those of its forward pass, by {distance:.1%}"
        raise UsageError(_refusal(model, engine, why), hint)
    found.add((engine, len(texts)))


def _refusal(model: Any, engine: str, why: str) -> str:
    return f"the {engine} engine cannot decode {type(model).__name__}: {why}"
