"""Whether the sampler and the trainer give the same log-probs to the same tokens."""

from dataclasses import dataclass

import numpy as np

from rlvr_cli.errors import UserError
from rlvr_cli.protocols import HoldsWeights, Request, RolloutEngine, Row, SamplingParams
from rlvr_cli.runtime import distributed

# Nats, of the mean over tokens. bfloat16 engines differ by 0.02 to 0.1, stale weights by 1 or more.
# FP8 gave 0.18 on random models; a cache of int8 gave 0.02 with SmolLM2-135M in float32.
TOLERANCE = {"float32": 1e-3, "bfloat16": 0.25, "int8": 0.25, "fp8": 0.5}


Prompt = tuple[list[int], tuple[bytes, ...]]  # token ids, and the stored bytes of images


@dataclass(frozen=True)
class Agreement:
    """Gaps between the log-probs of sampled tokens, in nats."""

    tokens: int
    mean: float
    largest: float
    outside: float  # share of tokens whose ratio is outside 1 +- 0.1


def measure(
    sampler: RolloutEngine,
    trainer: HoldsWeights,
    prompts: list[Prompt],
    *,
    max_new_tokens: int,
    temperature: float = 1.0,
) -> Agreement:
    """Samples a completion of each prompt and has the trainer compute its log-probs again.

    Every process of the world must call this; the gaps are those of all samplers.
    """
    sampling = SamplingParams(max_new_tokens, temperature)
    requests = [Request(ids, seed, images=own) for seed, (ids, own) in enumerate(prompts)]
    completions = dict(sampler.generate(requests, sampling))
    mine = [
        (prompts[i], completions[i].token_ids, completions[i].behaviour_logp)
        for i in sorted(completions)
    ]
    drawn = [row for rows in distributed.gather(mine) for row in rows]
    rows = [Row(ids, tokens, images=own) for (ids, own), tokens, _ in drawn]
    logps = trainer.logp(rows, temperature)
    gap_N = np.abs(np.concatenate(logps) - np.concatenate([sampled for *_, sampled in drawn]))
    outside = float((np.exp(np.minimum(gap_N, 20.0)) > 1.1).mean())
    return Agreement(len(gap_N), float(gap_N.mean()), float(gap_N.max()), outside)


def check(gap: Agreement, dtype: str) -> None:
    """An error if the gaps are larger than rounding explains."""
    if gap.mean <= TOLERANCE[dtype]:
        return
    raise UserError(
        f"after the weight sync, sampler and trainer differ by {gap.mean:.3g} nats "
        f"a token on average, {gap.largest:.3g} at most, over {gap.tokens} tokens; "
        f"{TOLERANCE[dtype]:g} is what {dtype} allows",
        "the sampler may compute with other weights than it was given: sample with "
        "--engine transformers, which has the trainer's own",
    )
