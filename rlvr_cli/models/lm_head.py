"""The output head of a causal language model: logits = cap(scale * (hidden head^T + bias)).

Shapes: N tokens, H hidden, V vocabulary.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

_FACTORS = ("logit_scale", "lm_head_multiplier", "output_multiplier")  # as configurations call it


class OutputHead(NamedTuple):
    weight_VH: Any
    bias_V: Any
    scale: float
    softcap: float | None  # cap(x) = softcap tanh(x / softcap)

    def options(self, temperature: float) -> dict[str, Any]:
        """The arguments of the statistics at a temperature, besides the weight.

        cap(scale x) / temperature = cap'(x) / (temperature / scale),  softcap' = softcap / scale
        """
        return {
            "bias_V": self.bias_V,
            "temperature": temperature / self.scale,
            "softcap": None if self.softcap is None else self.softcap / self.scale,
        }

    def logits(self, hidden_NH: Any) -> Any:
        import torch

        logits_NV = self.scale * torch.nn.functional.linear(hidden_NH, self.weight_VH, self.bias_V)
        if self.softcap is None:
            return logits_NV
        return self.softcap * (logits_NV / self.softcap).tanh()

    def wide_logits(self, hidden_NH: Any, product: Callable[..., Any] | None = None) -> Any:
        """The logits in float32; on a GPU products of halves are not rounded to halves again.

        `product` is what multiplies by the head, in float32.
        """
        import torch

        if product is not None:
            logits_NV = product(hidden_NH, self.weight_VH)
        elif hidden_NH.dtype == torch.float32:
            return self.logits(hidden_NH)
        elif hidden_NH.is_cuda:
            logits_NV = torch.mm(hidden_NH, self.weight_VH.mT, out_dtype=torch.float32)
        else:
            logits_NV = torch.nn.functional.linear(hidden_NH.float(), self.weight_VH.float())
        if self.bias_V is not None:
            logits_NV += self.bias_V
        if self.scale != 1:
            logits_NV *= self.scale
        if self.softcap is not None:
            logits_NV = logits_NV.div_(self.softcap).tanh_().mul_(self.softcap)
        return logits_NV


def of(model: Any) -> OutputHead:
    """The output head of a model; Gemma caps its logits, Cohere, Granite and Falcon-H1 scale them.

    Under ZeRO-3 this gathers the head: call it in a forward pass, after the layers below.
    """
    module, config = model.get_output_embeddings(), model.config.get_text_config()
    scale = math.prod(getattr(config, name, None) or 1.0 for name in _FACTORS)
    scale /= getattr(config, "logits_scaling", None) or 1.0
    softcap = getattr(config, "final_logit_softcapping", None)
    softcap = softcap or getattr(config, "logits_soft_cap", None)  # of RecurrentGemma
    return OutputHead(module.weight, getattr(module, "bias", None), scale, softcap)


def shared_vocab_logits(logits_NV: Any, memory_NV: Any) -> tuple[Any, Any]:
    """The logits of the tokens that both heads have; the others are padding, never sampled."""
    size = min(logits_NV.shape[-1], memory_NV.shape[-1])
    return logits_NV[:, :size], memory_NV[:, :size]
