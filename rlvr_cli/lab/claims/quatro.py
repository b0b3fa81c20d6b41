"""QUATRO (arXiv:2602.04620)."""

from functools import cache
from itertools import pairwise

import numpy as np
import torch

from rlvr_cli.algorithms.objective import build
from rlvr_cli.lab import check, squeeze
from rlvr_cli.lab.check import Check, at_each
from rlvr_cli.lab.ledger import RATES, Claim, Lab, paired
from rlvr_cli.lab.settings import Settings
from rlvr_cli.lab.table import AdvantageTable

DELTAS = (0.1, 0.01, 0.001)
GSPO = "gspo:clip_low=0.2,clip_high=0.2"
EPOCHS = ("--epochs", "5")
FASTER, FASTEST = ("--learning-rate", "6e-4"), ("--learning-rate", "2e-3")


def quatro(delta: float) -> str:
    return f"quatro:delta={delta:g}"


def dual(delta: float) -> dict[str, np.ndarray]:
    """Advantages of right and wrong, and lam, of 1 to 7 right completions of 8."""
    table = AdvantageTable(build(quatro(delta)), torch.tensor([0.0, 1.0], dtype=torch.float64), 8)
    estimates = table(torch.tensor([[8 - c, c] for c in range(1, 8)]))
    columns = {name: estimates[name][:, 1].numpy() for name in ("lam", "achieved_kl")}
    wrong, right = estimates["advantage"].T.numpy()
    return columns | {"right": right, "wrong": wrong}


@cache
def updated_kl(spec: str, epochs: int) -> dict[float, np.ndarray]:
    """KL(new || old) of 500 random policies after epochs on one group of 8, [S], by rate."""
    logits_SA = squeeze.random_logits("trust region", spread=1.0)[:500]
    reward = (1.0, 0.0, 1.0, 0.0, 0.0, 0.0)
    settings = Settings(spec, 8, steps=1, epochs=epochs)
    change_SA, _ = squeeze.updated(settings, reward, logits_SA, "trust region", rates=RATES)
    logits_SA = logits_SA.repeat(len(RATES), 1)
    new_SA, old_SA = (logits_SA + change_SA).log_softmax(-1), logits_SA.log_softmax(-1)
    kl_S = (new_SA.exp() * (new_SA - old_SA)).sum(1).numpy()
    return dict(zip(RATES, np.split(kl_S, len(RATES)), strict=True))


def region(rate: float) -> list[Check]:
    return [
        check.share(f"updates within 1.5 delta, delta {d:g}",
                    updated_kl(quatro(d), 100)[rate] <= 1.5 * d, above=0.9) for d in DELTAS[:2]
    ]  # fmt: skip


def tighter_than_clips(rate: float) -> list[Check]:
    own = updated_kl(quatro(0.1), 100)[rate]
    return [check.mean(f"KL after 100 epochs, less {name}'s", own - updated_kl(spec, 100)[rate],
                       below=0.0) for name, spec in (("GRPO", "grpo"), ("GSPO", GSPO))]  # fmt: skip


def stabiliser(rate: float) -> list[Check]:
    return [
        check.mean(f"KL after {epochs} epochs, with the term less without",
                   updated_kl(quatro(0.1), epochs)[rate]
                   - updated_kl("quatro:delta=0.1,log_ratio=false", epochs)[rate], below=0.0)
        for epochs in (2, 20)
    ]  # fmt: skip


def magnitude(lab: Lab) -> list[Check]:
    advantages = dual(0.1)
    return [
        check.exact("largest step of |A| of right ones, 1 to 7 right",
                    np.diff(np.abs(advantages["right"])).max(), below=0.0),
        check.exact("largest step of |A| of wrong ones, 1 to 7 right",
                    np.diff(np.abs(advantages["wrong"])).max(), below=0.0),
    ]  # fmt: skip


def by_variance(lab: Lab) -> list[Check]:
    lam, right = dual(0.1)["lam"], np.arange(1, 8)
    spread = right * (8 - right)
    pairs = [(a, b) for a in range(7) for b in range(7) if spread[a] > spread[b]]
    agree = np.mean([lam[a] > lam[b] for a, b in pairs])
    return [check.exact("share of pairs of groups that agree", agree, above=0.999)]


def grows_with_k(lab: Lab) -> list[Check]:
    checks = []
    for low, high in (("pass@1", "pass@16"), ("pass@1 of 256", "pass@32 of 256")):
        figures = [lab.language(s, n) for n in (high, low) for s in (quatro(0.1), "grpo")]
        statement = f"gain over GRPO at {high} less that at {low}, points"
        checks += paired(statement, figures, (1, -1, -1, 1), above=0.0)
    return checks


def against(
    lab: Lab, metric: str, others: tuple[str, ...], *options: str, spec: str = ""
) -> list[Check]:
    checks = []
    for other in others:
        statement = f"{metric}, less {other.partition(':')[0]}'s"
        checks += lab.better(statement, spec or quatro(0.1), other, metric, *options)
    return checks


def tenfold(lab: Lab) -> list[Check]:
    usual = lab.language(quatro(0.1), "pass@1")
    fast = lab.language(quatro(0.1), "pass@1", *FASTEST)
    return paired("points of pass@1 lost", [usual, fast], [1, -1], below=10.0)


CLAIMS = [
    Claim("Q1", "Proposition 3.1", "lambda is where the trust region's KL is delta", "1 to 7 right "
          "of 8; largest error of the KL", lambda lab: [
              check.exact(f"delta {d:g}", np.abs(dual(d)["achieved_kl"] - d).max(), below=1e-9)
              for d in DELTAS]),
    Claim("Q2", "sec. 3.3, Fig. 2", "A smaller delta makes lambda larger", "1 to 7 right of 8; "
          "least difference", lambda lab: [
              check.exact(f"delta {b:g} against {a:g}", (dual(b)["lam"] - dual(a)["lam"]).min(),
                          above=0.0) for a, b in pairwise(DELTAS)]),
    Claim("Q3", "sec. 3.3, Fig. 2", "The more completions are right, the smaller the update",
          "delta 0.1, G = 8", magnitude,
          "That is true for the right ones; the wrong ones are pushed harder, from 0.215 to 2.644 "
          "(errata, Q10)."),
    Claim("Q4", "Remark 3.2", "Groups of higher reward variance have a larger lambda",
          "delta 0.1, 1 to 7 right of 8", by_variance,
          "Groups with one and with seven right have the same variance and different lambdas."),
    Claim("Q5", "sec. 3.2", "The update stays within the trust region", "KL(new || old) of 500 "
          "random policies after 100 epochs on one group of 8", lambda lab: at_each(RATES, region)),
    Claim("Q6", "sec. 3.1", "It bounds the divergence better than clipping", "the same, paired",
          lambda lab: at_each(RATES, tighter_than_clips),
          "On one batch a clip stops a sample's gradient at a ratio of 1.2, well before delta = "
          "0.1 is reached. A large step goes far beyond the clip, and from there no gradient "
          "leads back; QUATRO's log-ratio term does."),
    Claim("Q7", "sec. 4.3, Fig. 4c", "The log-ratio term keeps the divergence down",
          "KL(new || old) of 500 random policies, paired",
          lambda lab: at_each(RATES, stabiliser)),
    Claim("Q8", "Table 1", "Better Pass@1 than GRPO, GSPO and DAPO at delta 0.1",
          "built-in task, 20 steps, points", lambda lab: [
              c for o in ("grpo", GSPO, "dapo") for c in lab.better(
                  f"pass@1, less {o.partition(':')[0]}'s", quatro(0.1), o, "pass@1")]),
    Claim("Q9", "Table 1", "The gain grows with k", "built-in task, 20 steps", grows_with_k,
          "GRPO leads at k = 1 and both approach 100% at large k, where any lead must shrink."),
    Claim("Q10", "sec. 4.2", "A smaller delta trades Pass@1 for entropy", "built-in task, 20 steps",
          lambda lab: lab.better("pass@1, 0.1 less 0.001, points", quatro(0.1), quatro(0.001),
                                 "pass@1")
          + lab.better("entropy, 0.001 less 0.1", quatro(0.001), quatro(0.1), "entropy")),
    Claim("Q11", "Table 2", "More entropy than GSPO, DAPO and CISPO, at every delta",
          "built-in task, 20 steps", lambda lab: [
              c for d in DELTAS for o in (GSPO, "dapo", "cispo") for c in lab.better(
                  f"delta {d:g} less {o.partition(':')[0]}", quatro(d), o, "entropy")],
          "GSPO uses the paper's clip of 0.2 here, as in every claim of this paper. With its own "
          "of 3e-4 it keeps more entropy than delta 0.1 and 0.01 do."),
    Claim("Q12", "Table 3", "More different solutions than GRPO, GPG, GMPO and GSPO",
          "built-in task, 20 steps, UCC@16",
          lambda lab: against(lab, lab.ucc, ("grpo", "gpg", "gmpo", GSPO))),
    Claim("Q13", "Fig. 4a", "With five epochs it stays ahead where GSPO and GRPO lose",
          "built-in task, 20 steps, 5 epochs: pass@1, entropy, UCC@16", lambda lab: [
              c for m in ("pass@1", "entropy", lab.ucc)
              for c in against(lab, m, ("grpo", GSPO), *EPOCHS)]),
    Claim("Q14", "Fig. 4b", "With three times the rate it is more accurate and more diverse",
          "built-in task, 20 steps", lambda lab: [
              c for m in ("pass@1", "entropy") for c in against(lab, m, ("grpo", GSPO), *FASTER)]),
    Claim("Q15", "Fig. 4b", "A tenfold rate does not break it", "built-in task, 20 steps; loses "
          "less than 10 points of Pass@1 against the usual rate",
          tenfold),
    Claim("Q16", "C.7", "It solves more prompts that the base policy never solves", "-", None,
          "On the built-in task the base policy solves every held-out prompt within 256 samples."),
    Claim("Q17", "Table 4", "The gains carry over to code", "-", None,
          "There is no code task here."),
]  # fmt: skip
