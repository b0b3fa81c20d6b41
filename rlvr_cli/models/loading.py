"""Loading the model of a policy, the same way for sampling, training and evaluation.

Tokens that cannot be decoded get no probability, attention caps its scores where the configuration
says so, and the logits must be those of the output head as `lm_head` computes them.
"""

import functools
import warnings
from pathlib import Path
from typing import Any

from rlvr_cli.errors import Advice, DataError, UserError, first_line
from rlvr_cli.models import images, lm_head, pretrained, processors

_ROUNDING = 0.01  # more than rounding gives between states of two and of three tokens


def load(path: Path, name: str, decodable: int, device: Any, processor: Any = None) -> Any:
    """The causal language model of a directory, in float32 and evaluation mode.

    Token ids from `decodable` on belong to no token: they pad the output head. A model of images
    has its `processor`, whose placeholders are never sampled: as part of a completion they would
    stand for images that are not there.
    """
    model = _read(path, reads_images=processor is not None)
    model.processor = processor
    if caps_attention(model):
        _cap_attention(model, name)
    model.eval().to(device)
    _check_head(model, path, decodable)
    _mask(model, path, decodable)
    return model


def caps_attention(model: Any) -> bool:
    """Whether the configuration has attention cap its scores."""
    return bool(getattr(model.config.get_text_config(), "attn_logit_softcapping", None))


def _read(path: Path, *, reads_images: bool) -> Any:
    import torch

    try:
        return pretrained.model(path, reads_images=reads_images, dtype=torch.float32)
    except UserError:
        raise
    except Exception as error:  # a broken file may raise anything
        raise DataError(
            f"cannot load `{path}`: {first_line(error)}", "copy or save the model again"
        ) from error


def _cap_attention(model: Any, name: str) -> None:
    """Has transformers cap the scores of attention (Gemma 2), which torch's own attention cannot.

    With sdpa older releases silently leave them uncapped; newer ones choose eager attention.
    """
    if model.config._attn_implementation == "sdpa":
        model.set_attn_implementation("eager")
    if model.config._attn_implementation == "eager":
        _warn_slower(name)


@functools.cache
def _warn_slower(name: str) -> None:
    warnings.warn(
        f"`{name}` caps its attention scores, so its attention is eager: it takes longer",
        Advice,
        stacklevel=2,
    )


def _check_head(model: Any, path: Path, decodable: int) -> None:
    """Refuses a model whose logits are NaN, or not those that `lm_head` computes.

    And one whose tokens see those after them: it predicts nothing, and rows are padded there.
    """
    import torch

    token_ids = torch.tensor([[0, 1]], device=model.device)
    longer_ids = torch.tensor([[0, 1, 1]], device=model.device)
    with torch.no_grad():
        logits = _logits(model, token_ids, path)[..., :decodable]
        hidden = getattr(model.base_model(token_ids), "last_hidden_state", None)
        if hidden is None:  # as of Llama4ForCausalLM, which takes itself for its base
            raise _unsupported(path)
        by_head = lm_head.of(model).logits(hidden)[..., :decodable]
        longer = model.base_model(longer_ids).last_hidden_state[:, :2]
    if not logits.isfinite().all():
        raise DataError(
            f"`{path}` gives logits that are NaN or infinite: its weights are damaged",
            "copy the model again, or go back to an earlier checkpoint",
        )
    if not torch.allclose(logits, by_head, rtol=1e-4, atol=1e-4):
        raise _unsupported(path)
    if (longer - hidden).abs().max() > _ROUNDING * hidden.abs().max():
        raise UserError(
            f"`{path}` is a {type(model).__name__} whose tokens see those after them",
            "choose a causal language model, or set is_decoder in its config.json if it is one",
        )


def _logits(model: Any, token_ids: Any, path: Path) -> Any:
    import torch

    try:
        return model(token_ids).logits
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # code that does not go with its configuration may raise anything
        raise DataError(
            f"`{path}` cannot be run: {type(model).__name__} fails with {first_line(error)}",
            "compare its config.json with the original's, or try another release of transformers",
        ) from error


def _unsupported(path: Path) -> UserError:
    return UserError(
        f"`{path}` computes its logits in a way that rlvr does not support",
        "choose a model whose logits are its hidden state times its output head, scaled or capped",
    )


def _mask(model: Any, path: Path, decodable: int) -> None:
    """Gives ids that no completion may have a logit of -inf: padding and placeholders of images.

    In place, by a bias; one that is added here is in no checkpoint. Where the logits are capped
    placeholders keep their own.
    """
    import torch

    head = model.get_output_embeddings()
    padding = [*range(decodable, head.weight.shape[0])]
    is_capped = lm_head.of(model).softcap is not None
    if padding and is_capped:
        raise DataError(
            f"`{path}` caps its logits, and {len(padding)} of them belong to no token: "
            "capped, they could be sampled",
            f"save it again after `model.resize_token_embeddings({decodable})`",
        )
    places = (
        images.placeholder_ids(model.processor) if processors.of(model) and not is_capped else ()
    )
    if not padding and not places:
        return
    if head.bias is None:
        bias_V = torch.zeros(head.weight.shape[0], dtype=head.weight.dtype, device=model.device)
        del head.bias
        head.register_buffer("bias", bias_V, persistent=False)
    head.bias.data[[*padding, *places]] = -torch.inf
