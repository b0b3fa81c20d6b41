"""What each objective's loss costs beside a bare PPO clip, forward and backward.

    python -P benchmarks/objective_cost.py --rows 64 --width 1024 [--device cuda]

Microseconds per 1,000 trained tokens, the median of alternating rounds in one process, and the
ratio to the bare clip of that round. The model's own forward and backward pass are not in it.
"""

import argparse
import platform
import statistics
import time
from importlib.metadata import version

import torch

from rlvr_cli import registry
from rlvr_cli.algorithms import objective
from rlvr_cli.algorithms.objective import TokenBatch, Totals

MODIFIED = ("dapo+iac", "grpo+kl", "grpo+entropy", "grpo+negative-only", "grpo+is-correction")


def make_batch(rows: int, width: int, device: str) -> TokenBatch:
    rng = torch.Generator().manual_seed(0)

    def nats(scale: float) -> torch.Tensor:
        return (scale * torch.randn(rows, width, generator=rng)).to(device)

    length_B1 = torch.randint(width // 4, width + 1, (rows, 1), generator=rng).to(device)
    mask_BT = torch.arange(width, device=device) < length_B1
    logp_BT, drift_BT = -nats(1.0).abs(), nats(0.1)
    anchor_BT = -nats(1.0).abs()
    columns = {"power": 0.6, "clip_low": 0.2, "clip_high": 0.35}
    return TokenBatch(
        logp_BT=logp_BT.requires_grad_(),
        old_logp_BT=(logp_BT + drift_BT).detach(),
        mask_BT=mask_BT,
        advantage_B=torch.randn(rows, generator=rng).to(device),
        entropy_BT=nats(1.0).abs().requires_grad_(),
        ref_logp_BT=(logp_BT + drift_BT).detach(),
        behaviour_logp_BT=(logp_BT + drift_BT).detach(),
        anchor_logp_BT=anchor_BT.requires_grad_(),
        anchor_ref_logp_BT=anchor_BT.detach(),
        columns={k: torch.full((rows,), v, device=device) for k, v in columns.items()},
    )


def bare_clip(batch: TokenBatch) -> torch.Tensor:
    r_BT = (batch.logp_BT - batch.old_logp_BT).exp()
    a_B1 = batch.advantage_B[:, None]
    gain_BT = torch.minimum(r_BT * a_B1, r_BT.clamp(0.8, 1.2) * a_B1)
    return -(gain_BT * batch.mask_BT).sum() / batch.mask_BT.sum()


def seconds(make, batch: TokenBatch, repeats: int) -> float:
    wait = torch.cuda.synchronize if batch.logp_BT.is_cuda else lambda: None
    wait()
    start = time.perf_counter()
    for _ in range(repeats):
        leaves = (batch.logp_BT, batch.entropy_BT, batch.anchor_logp_BT)
        torch.autograd.grad(make(batch), leaves, allow_unused=True)
    wait()
    return (time.perf_counter() - start) / repeats


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    batch = make_batch(given.rows, given.width, given.device)
    tokens = int(batch.mask_BT.sum())
    totals = Totals(tokens=tokens, sequences=given.rows, max_length=given.width)
    card = torch.cuda.get_device_name() if given.device == "cuda" else platform.machine()
    print(f"{card}, {torch.get_num_threads()} threads, torch {version('torch')}; "
          f"{given.rows} rows, {tokens} trained tokens of {given.width} a row\n")  # fmt: skip
    print("| objective | us per 1,000 tokens | of a bare clip |\n|---|---|---|")
    repeats = 5 if given.device == "cpu" else 50
    for spec in [*registry.names("objectives"), *MODIFIED]:
        algo = objective.build(spec)
        pairs = []
        for _ in range(given.rounds):
            bare = seconds(bare_clip, batch, repeats)
            result = seconds(lambda b, g=algo: objective.loss(g, b, totals).value, batch, repeats)
            pairs.append((result, result / bare))
        cost = statistics.median(result for result, _ in pairs) * 1e6 / tokens * 1000
        ratio = statistics.median(ratio for _, ratio in pairs)
        print(f"| {spec} | {cost:.1f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
