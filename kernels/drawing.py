"""Drawing a token of each row with noise that float32 can hold: the definition, in plain torch.

Shapes: B rows, V vocabulary, N pairs of tokens. Logits are compared in float32 as they are given.
"""

import math
from typing import Any

import torch
from torch import Tensor

from rlvr_cli.kernels import checks, reference
from rlvr_cli.kernels.reference import Sample

LOG2E = 1.4426950408889634
LN2 = 0.6931471805599453
APART = 1024  # tokens that one counter serves are so far apart
_ROUNDS = 10
_WORD = 0xFFFFFFFF
_FACTORS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_UNIT = 2.0**40  # the mass of the likeliest token


def philox(counter: tuple[Any, ...], key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Four words of 32 bits, in int64, of four counter words and two key words: Philox4x32-10.

    Of tensors or of numpy's arrays, which a CPU takes less time for.

    Salmon, Moraes, Dror and Shaw, Parallel Random Numbers: As Easy as 1, 2, 3 (2011).
    """
    a, b, c, d = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        first, second = a * _FACTORS[0], c * _FACTORS[1]  # in wrapping int64
        a, b, c, d = (
            (second >> 32 & _WORD) ^ b ^ k0,
            second & _WORD,
            (first >> 32 & _WORD) ^ d ^ k1,
            first & _WORD,
        )
        k0, k1 = k0 + _KEY_STEPS[0] & _WORD, k1 + _KEY_STEPS[1] & _WORD
    return a, b, c, d


def words(seed_B: Tensor, position_B: Tensor, vocabulary: int) -> tuple[Tensor, Tensor]:
    """The high and the low word of each token's 64 bits, [B, V].

    Of the row's seed as the key and of the counter (n, position, 0, 0), where n numbers the pairs
    of tokens that are APART: the first of a pair has two of Philox's words, the second the others.
    """
    token_V = torch.arange(vocabulary, device=seed_B.device)
    pair_V, is_second_V = (
        token_V // (2 * APART) * APART + token_V % APART,
        token_V // APART % 2 == 1,
    )
    pair_1N = torch.arange(int(pair_V.max()) + 1, device=seed_B.device)[None]
    zero_11 = torch.zeros_like(pair_1N[:, :1])
    counter = (pair_1N, position_B[:, None] & _WORD, zero_11, zero_11)
    key = (seed_B[:, None] & _WORD, seed_B[:, None] >> 32 & _WORD)
    if seed_B.is_cpu:
        arrays = [tuple(word.numpy() for word in part) for part in (counter, key)]
        a_BN, b_BN, c_BN, d_BN = map(torch.from_numpy, philox(*arrays))
    else:
        a_BN, b_BN, c_BN, d_BN = philox(counter, key)
    if vocabulary <= APART:
        return a_BN, b_BN
    return (
        torch.where(is_second_V, c_BN[:, pair_V], a_BN[:, pair_V]),
        torch.where(is_second_V, d_BN[:, pair_V], b_BN[:, pair_V]),
    )


def log2_waits(seed_B: Tensor, position_B: Tensor, vocabulary: int) -> Tensor:
    """log2 of an exponential variate [B, V] for each token, in float64: minus its Gumbel noise.

        wait = -log2(1 - v),  v = (64 bits + 1/2) / 2^64

    The token with the largest logit less this is a sample of the softmax. The smallest wait is
    2^-65, so a token of any probability that matters can win; where v is above 1/2, 1 - v comes
    from the bits and not from v, so that both ends are exact.
    """
    high_BV, low_BV = words(seed_B, position_B, vocabulary)
    flipped_BV = high_BV > _WORD >> 1
    flip_BV = flipped_BV * _WORD
    high_BV, low_BV = high_BV ^ flip_BV, low_BV ^ flip_BV
    v_BV = high_BV.double() * 2.0**-32 + (low_BV.double() + 0.5) * 2.0**-64
    nats_BV = torch.where(flipped_BV, v_BV.log(), (-v_BV).log1p())
    return (-nats_BV * LOG2E).log2()


@torch.no_grad()
def draw(
    policy_BV: Tensor,
    seed_B: Tensor,
    position_B: Tensor,
    *,
    memory_BV: Tensor | None = None,
    mu: float = 0.0,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_prob: float = 0.0,
) -> Sample:
    """A token of each row from the policy, or from the policy minus a memory model (DLC).

        pi_sample = softmax((policy - mu memory) / temperature)

    over the tokens that the policy itself gives at least `min_prob` times its largest probability,
    of those the `top_k` that are likeliest by the policy and their equals, 0 for all, and of those
    the fewest of the likeliest with a mass of `top_p` together and their equals. Masses are integer
    multiples of 2^-40 of the likeliest token's, so that no order of summation changes what is kept.
    The noise is that of `log2_waits`. A logit of -inf of the policy is never sampled; a memory's
    must be finite. Their difference and what is kept are those of float32, whatever the dtype of
    the policy's logits, to the bit; the rest is in that dtype, in float32 at least.
    """
    check(policy_BV, seed_B, position_B, memory_BV, temperature, top_k, top_p, min_prob)
    scale = rounded(LOG2E / temperature)
    wide = torch.promote_types(policy_BV.dtype, torch.float32)
    own_BV = policy_BV.float()
    logits_BV = own_BV
    if memory_BV is not None and mu:
        logits_BV = own_BV - memory_BV.float() * rounded(mu)
    if min_prob:
        least_B1 = own_BV.amax(-1, keepdim=True) + spread(min_prob, temperature)
        logits_BV = logits_BV.masked_fill(own_BV < least_B1, -torch.inf)
    if 0 < top_k < own_BV.shape[1]:
        least_B1 = own_BV.topk(top_k, -1).values[:, -1:]
        logits_BV = logits_BV.masked_fill(own_BV < least_B1, -torch.inf)
    if top_p < 1:
        logits_BV = _nucleus(logits_BV, top_p, scale, wide)
    waits_BV = log2_waits(seed_B, position_B, own_BV.shape[1])
    token_B1 = (logits_BV.double() * scale - waits_BV).argmax(-1, keepdim=True)

    def logp(value_BV: Tensor) -> Tensor:
        nats_BV = _relative(value_BV, wide) * (scale * LN2)
        return nats_BV.log_softmax(-1).gather(-1, token_B1)[:, 0]

    own_B = logp(own_BV)
    logp_B = own_B if logits_BV is own_BV else logp(logits_BV)
    return Sample(token_B1[:, 0], logp_B, own_B)


def rounded(value: float) -> float:
    """The nearest number of float32."""
    return torch.tensor(value, dtype=torch.float32, device="cpu").item()


def spread(min_prob: float, temperature: float) -> float:
    """What is added in float32 to the largest logit, for the least that `min_prob` keeps."""
    return rounded(math.log(min_prob or 1.0) * temperature)


def _relative(logits_BV: Tensor, dtype: torch.dtype) -> Tensor:
    wide_BV = logits_BV.to(dtype)
    return wide_BV - wide_BV.amax(-1, keepdim=True)


def _nucleus(logits_BV: Tensor, top_p: float, scale: float, dtype: torch.dtype) -> Tensor:
    """-inf in place of all but the likeliest with a mass of `top_p`, and their equals."""
    mass_BV = ((_relative(logits_BV, dtype) * scale).exp2() * _UNIT).long()
    ordered_BV, order_BV = logits_BV.sort(-1, descending=True)
    sum_BV = mass_BV.gather(-1, order_BV).cumsum(-1)
    goal_B1 = (sum_BV[:, -1:].double() * rounded(top_p)).ceil().long()
    last_B1 = (sum_BV < goal_B1).sum(-1, keepdim=True).clamp(max=logits_BV.shape[1] - 1)
    return logits_BV.masked_fill(logits_BV < ordered_BV.gather(-1, last_B1), -torch.inf)


def check(
    policy_BV: Tensor,
    seed_B: Tensor,
    position_B: Tensor,
    memory_BV: Tensor | None,
    temperature: float,
    top_k: int,
    top_p: float,
    min_prob: float,
) -> None:
    reference.check_sample(policy_BV, seed_B, memory_BV, temperature, top_p, min_prob)
    if position_B.shape != seed_B.shape or position_B.dtype != torch.int64:
        raise checks.BadInput(f"position_B is {position_B.dtype} of shape {list(position_B.shape)}")
    if top_k < 0:
        raise checks.BadInput(f"top_k is {top_k}, it must be 0 or more")
