"""The share of tokens that each correction leaves without weight, by length and noise.

    python -P benchmarks/correction_drops.py

Log ratios of a token are normal with mean -s^2/2 and standard deviation s, so that the mean weight
of a token is 1, as it is of what the behaviour policy drew. Completions are of one length, and
advantages below 0, which off-policy-mask is for. Prints the table of docs/correction.md.
"""

import argparse

import torch

from rlvr_cli.algorithms import objective as objectives
from rlvr_cli.algorithms.objective import Objective, TokenBatch

MODIFIERS = (
    "is-correction",
    "is-correction:kind=icepop",
    "is-correction:kind=sequence-tis",
    "is-correction:kind=sequence-mask",
    "is-correction:kind=sequence-mask,cap=3",
    "is-correction:kind=sequence-mask,low=0.5",
    "reject:by=k1,above=0.001",
    "reject:by=k1,above=0.01",
    "reject:by=k1,over=max,above=0.2",
    "reject",
    "off-policy-mask",
    "off-policy-mask:delta=0.0001",
)
NOISES, LENGTHS = (0.01, 0.05), (128, 1024, 8192)
ROWS = 128  # completions at a time


def drawn(generator: torch.Generator, noise: float, length: int) -> TokenBatch:
    shape = (ROWS, length)
    normal_BT = torch.randn(shape, generator=generator, dtype=torch.float64)
    old_BT = torch.zeros(shape, dtype=torch.float64)
    return TokenBatch(
        logp_BT=old_BT,
        old_logp_BT=old_BT,
        mask_BT=torch.ones(shape, dtype=torch.bool),
        advantage_B=-torch.ones(ROWS, dtype=torch.float64),
        entropy_BT=old_BT,
        behaviour_logp_BT=noise**2 / 2 - noise * normal_BT,
    )


def shares(objective: Objective, batch: TokenBatch) -> tuple[float, float]:
    """The share of tokens that weigh below 0.01, and of those whose weight is cut or dropped."""
    (factor,), ((_, count), *_) = objective.factors, objective.shares
    hit_BT, _ = count(batch, torch.zeros_like(batch.logp_BT))
    weight_BT = factor(batch) * torch.ones_like(batch.logp_BT)
    return float((weight_BT < 0.01).double().mean()), float(hit_BT.double().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--completions", type=int, default=256)
    given = parser.parse_args()
    cells = [(noise, length) for noise in NOISES for length in LENGTHS]
    print("| modifier |", *(f"{length} at {noise} |" for noise, length in cells))
    print("|---|" + "---|" * len(cells))
    torch.set_num_threads(1)
    built = {name: objectives.build(f"gpg+{name}") for name in MODIFIERS}
    sums = {name: [[0.0, 0.0] for _ in cells] for name in MODIFIERS}
    batches = max(given.completions // ROWS, 1)
    for at, (noise, length) in enumerate(cells):
        generator = torch.Generator().manual_seed(at)
        for _ in range(batches):
            batch = drawn(generator, noise, length)
            for name, objective in built.items():
                for kind, share in enumerate(shares(objective, batch)):
                    sums[name][at][kind] += share / batches
    for name, row in sums.items():
        texts = [
            f"{lost:.1%}" + (f" ({hit:.1%})" if abs(hit - lost) > 5e-4 else "") for lost, hit in row
        ]
        print(f"| `+{name}` |", *(f"{text} |" for text in texts))


if __name__ == "__main__":
    main()
