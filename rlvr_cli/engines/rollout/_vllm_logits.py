"""Token ids that vLLM must never sample."""

from collections.abc import Collection
from typing import Any

from rlvr_cli.models import images, pretrained, tokenizers
from rlvr_cli.models.policy import Policy


def unsampled(policy: Policy) -> tuple[int, frozenset[int]]:
    """Where the ids that pad the output head begin, and the placeholders of a policy's images.

    Those of a policy that caps its logits keep theirs, as in the trainer.
    """
    tokenizer, processor = tokenizers.load(policy), tokenizers.load_processor(policy)
    decodable = tokenizers.vocabulary(tokenizer, tokenizers.end_ids(policy, tokenizer))
    if processor is None:
        return decodable, frozenset()
    config = pretrained.config((policy.base or policy).path).get_text_config()
    is_capped = getattr(config, "final_logit_softcapping", None) is not None
    return decodable, frozenset() if is_capped else images.placeholder_ids(processor)


def mask(model: Any, decodable: int, placeholders: Collection[int] = ()) -> None:
    """Gives these ids a logit of -inf, in a model of vLLM."""

    def hide(module: Any, inputs: Any, logits_BV: Any) -> None:
        if logits_BV is not None:
            logits_BV[..., decodable:] = -float("inf")
            if placeholders:
                logits_BV[..., sorted(placeholders)] = -float("inf")

    processors = [m for m in model.modules() if type(m).__name__.startswith("LogitsProcessor")]
    assert processors, "every model of vLLM has one"
    for module in processors:
        module.register_forward_hook(hide)
