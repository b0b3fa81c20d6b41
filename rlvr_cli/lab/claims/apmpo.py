"""APMPO (arXiv:2605.04066)."""

import math
from itertools import pairwise

import torch

from rlvr_cli.algorithms.objective import TokenBatch, Totals, build, loss
from rlvr_cli.algorithms.terms import adaptive, surrogate
from rlvr_cli.lab import check
from rlvr_cli.lab.check import Check
from rlvr_cli.lab.ledger import Claim, Lab


def batch(columns: dict[str, float], rows: int = 64, tokens: int = 7) -> TokenBatch:
    """Random completions whose ratios are on both sides of every clip."""
    generator = torch.Generator().manual_seed(0)
    old_BT = -2 * torch.rand((rows, tokens), generator=generator, dtype=torch.float64)
    drift_BT = 0.5 * torch.randn((rows, tokens), generator=generator, dtype=torch.float64)
    advantage_B = torch.randn(rows, generator=generator, dtype=torch.float64)
    return TokenBatch(
        logp_BT=old_BT + drift_BT,
        old_logp_BT=old_BT,
        mask_BT=torch.ones((rows, tokens), dtype=torch.bool),
        advantage_B=advantage_B,
        entropy_BT=torch.zeros_like(old_BT),
        columns={n: torch.full((rows,), v, dtype=torch.float64) for n, v in columns.items()},
    )


def is_grpo(lab: Lab) -> list[Check]:
    completions = batch({"power": 1.0, "clip_low": 0.2, "clip_high": 0.2})
    totals = Totals(tokens=64 * 7, sequences=64, max_length=7)
    values = [
        float(loss(build(spec), completions, totals).value) for spec in ("apmpo:kl=0", "grpo")
    ]
    return [check.exact("difference of the losses of a random batch", abs(values[0] - values[1]),
                        below=1e-9)]  # fmt: skip


def gains(power: float, scale: float = 1.0) -> torch.Tensor:
    completions = batch({})
    return surrogate.power_mean(
        completions.logp_BT - completions.old_logp_BT,
        scale * completions.advantage_B[:, None],
        completions.mask_BT,
        power_B1=torch.full((64, 1), power, dtype=torch.float64),
        low_B1=torch.full((64, 1), 0.2, dtype=torch.float64),
        high_B1=torch.full((64, 1), 0.2, dtype=torch.float64),
    )[:, 0]


def is_geometric(lab: Lab) -> list[Check]:
    completions = batch({})
    d_BT = completions.logp_BT - completions.old_logp_BT
    advantage_B1 = completions.advantage_B[:, None]
    u_BT = torch.where(advantage_B1 > 0, d_BT.clamp(max=math.log(1.2)), d_BT.clamp(math.log(0.8)))
    expected_B = completions.advantage_B * u_BT.mean(1).exp()
    error = float((gains(1e-5) - expected_B).abs().max())
    return [check.exact("largest difference from the geometric mean, p = 1e-5", error, below=1e-4)]


def crossover(lab: Lab) -> list[Check]:
    ratio = float((gains(0.5, scale=2.0) / gains(0.5)).mean())
    return [check.exact("error of the claimed factor sqrt(2) for twice the advantage, p = 1/2",
                        abs(ratio - math.sqrt(2)), below=1e-3)]  # fmt: skip


def bound(mean: float, std: float) -> float:
    mean_N, std_N = torch.tensor([mean, std], dtype=torch.float64)
    clip_N = adaptive.clip_bound(mean_N, std_N, low=0.2, high=0.4, score="full", squash=True)
    return float(clip_N)


def mapping(lab: Lab) -> list[Check]:
    bounds = [bound(m, math.sqrt(m * (1 - m))) for m in (0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99)]
    steps = [b - a for a, b in pairwise(bounds)]
    return [
        check.exact("least bound", min(bounds), above=0.2),
        check.exact("largest bound", max(bounds), below=0.4),
        check.exact("least step as the mean reward grows", min(steps), above=0.0),
    ]


def exponent_at(mean: float) -> float:
    return float(adaptive.power(torch.tensor(mean), gamma=0.8, form="exponential"))


def beats(lab: Lab, metric: str) -> list[Check]:
    return [
        c for o in ("grpo", "dapo", "gmpo")
        for c in lab.better(f"{metric}, less {o}'s", "apmpo", o, metric)
    ]  # fmt: skip


CLAIMS = [
    Claim("P1", "Proposition 3", "At p = 1 the objective is GRPO's", "a random batch of 64 "
          "completions, ratios on both sides of the clip", is_grpo),
    Claim("P2", "Proposition 4", "As p goes to 0 it is a geometric mean", "the same batch",
          is_geometric),
    Claim("P3", "Proposition 5, eq. 31", "Its sensitivity to the advantage goes as A^p, with a "
          "crossover", "gain at twice the advantage", crossover,
          "All tokens of a completion share A and the power mean is homogeneous: J(cA) = c J(A) "
          "(errata, A5)."),
    Claim("P4", "sec. 4.2, E.2", "As performance improves p decays to 0",
          "p at a mean reward of 1 "
          "and gamma = 0.8", lambda lab: [check.exact("p", exponent_at(1.0), below=0.05)],
          "With rewards of at most 1 it stays above 0.449 (errata, A8)."),
    Claim("P5", "Lemma 1", "The adaptive bound lies within e_min and e_max and grows with the "
          "feedback's stability", "binary rewards of mean 0.01 to 0.99", mapping),
    Claim("P6", "F.3", "An unstable batch gets the middle of the range", "bound at FSS = 0",
          lambda lab: [check.exact("distance from 0.3", abs(bound(0.0, 0.5) - 0.3), below=0.01)],
          "By eq. 6 it gets e_min (errata, A3)."),
    Claim("P7", "sec. 4.3", "An unstable batch gets a tighter bound than GRPO's fixed one",
          "bound at FSS = 0 less 0.2", lambda lab: [
              check.exact("difference", bound(0.0, 0.5) - 0.2, below=0.0)],
          "e_min is that fixed bound: the adaptive one only widens (errata, A4)."),
    Claim("P8", "Table 1", "APMPO beats GRPO, DAPO and GMPO in Pass@1", "built-in task, 20 steps",
          lambda lab: beats(lab, "pass@1")),
    Claim("P9", "Table 1", "APMPO beats GRPO, DAPO and GMPO in Pass@16", "built-in task, 20 steps",
          lambda lab: beats(lab, "pass@16")),
    Claim("P10", "Fig. 1b", "APMPO keeps more entropy than GRPO, DAPO and GMPO",
          "built-in task, 20 steps", lambda lab: beats(lab, "entropy")),
    Claim("P11", "Fig. 4d", "gamma = 0.8 is better than 0.4", "built-in task, 20 steps",
          lambda lab: lab.better("pass@1, points", "apmpo", "apmpo:gamma=0.4", "pass@1")),
    Claim("P12", "Fig. 4a to 4c", "Either part helps, both help most; the exponential exponent and "
          "the whole FSS are best", "-", None, "Not run; options exist: apmpo:exponent=linear, "
          "apmpo:fss=mean, apmpo:e_max=0.2, apmpo:gamma=0."),
]  # fmt: skip
