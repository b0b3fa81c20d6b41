"""What keys and values in 8 bits do to a model's log-probs, by format; on a CPU, with any model.

    python -P benchmarks/cache_formats.py MODEL FILE...

The model predicts the first tokens of each file in float32, where each token reads those before it
as a cache of the format would hold them, and itself as it is. One JSON line a format: the gaps of
the log-probs of the file's tokens to those without, and the mean KL divergence. Once as the model
is, and once with --offset added to some channels of the keys, for formats that such keys break.

Shapes: R rows, H query heads, K key heads, S tokens, D head size.
"""

import argparse
import json
from pathlib import Path

import torch
from torch import Tensor
from transformers import AttentionInterface, AutoModelForCausalLM, AutoTokenizer

from rlvr_cli.kernels import coded

E4M3 = 448.0  # its largest number
PROMPT = 100  # tokens, whose last eight give the shift
FORMATS = ("bfloat16", "fp8", "fp8, shift", "int8", "int8, shift")


def held(values_RKSD: Tensor, form: str) -> Tensor:
    """What a cache gives back."""
    if form == "none":
        return values_RKSD
    if form == "bfloat16":
        return values_RKSD.bfloat16().float()
    if form.startswith("int8"):
        codes, scale = coded.quantize(values_RKSD)
        return codes.float() * scale[..., None]
    scale = values_RKSD.abs().amax(-1, keepdim=True) / E4M3
    return (values_RKSD / scale).to(torch.float8_e4m3fn).float() * scale


class Attention:
    """That of a model whose cache has a format, registered under its name."""

    form, offset = "none", 0.0

    def __call__(self, module, query, key, value, attention_mask=None, scaling=None, **_):
        group, size = query.shape[1] // key.shape[1], key.shape[2]
        key = key.clone()
        key[..., -8:] += self.offset
        if "shift" in self.form:
            key -= key[:, :, PROMPT - 8 : PROMPT].mean(2, keepdim=True)
        both = [x.repeat_interleave(group, 1) for x in (key, value)]
        keys, values = (held(x, self.form) for x in both)
        own = torch.eye(size, dtype=torch.bool)
        score = torch.where(own, query @ both[0].mT, query @ keys.mT) * scaling
        seen = torch.ones(size, size, dtype=torch.bool).tril()
        weight = score.masked_fill(~seen, -torch.inf).softmax(-1)
        self_weight = weight.diagonal(dim1=-2, dim2=-1)[..., None]
        return (weight @ values + self_weight * (both[1] - values)).transpose(1, 2), None


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--tokens", type=int, default=600)
    parser.add_argument("--offset", type=float, default=30.0)
    options = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    model = AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32).eval()
    attention = Attention()
    AttentionInterface.register("held", attention)
    model.set_attn_implementation("held")
    texts = [tokenizer(path.read_text())["input_ids"][: options.tokens] for path in options.files]

    @torch.no_grad()
    def predicted(form: str) -> list[Tensor]:
        attention.form = form
        return [model(torch.tensor([ids])).logits[0, :-1].log_softmax(-1) for ids in texts]

    for attention.offset in (0.0, options.offset):
        truth = predicted("none")
        for form in FORMATS:
            gaps, divergences = [], []
            for ids, right, made in zip(texts, truth, predicted(form), strict=True):
                next_token = torch.tensor(ids)[1:, None]
                gaps.append((made - right).gather(-1, next_token)[:, 0].abs())
                divergences.append((right.exp() * (right - made)).sum(-1))
            gap, divergence = torch.cat(gaps), torch.cat(divergences)
            print(
                json.dumps(
                    {
                        "format": form,
                        "offset": attention.offset,
                        "tokens": len(gap),
                        "mean": round(float(gap.mean()), 4),
                        "max": round(float(gap.max()), 3),
                        "kl": round(float(divergence.mean()), 6),
                    }
                ),
                flush=True,
            )


if __name__ == "__main__":
    main()
