"""IAC and DLC (When Sharpening Becomes Collapse)."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from rlvr_cli.lab import check, outcome
from rlvr_cli.lab.check import Check, at_each
from rlvr_cli.lab.ledger import RATES, Claim, Lab
from rlvr_cli.lab.systems import SIAMESE, classes

Way = tuple[str, dict[str, Any]]  # an algo and its settings
RAW, SHIFTED, NORMALISED = ESTIMATORS = "reinforce", "dr-grpo", "grpo"
LIKE = "reinforce-pp:kl=0"
SHARPNESS = "mean over 500 steps of the larger of Cat's and Persian's share of their mass"


def sharpness(lab: Lab, algo: str, **settings: Any) -> np.ndarray:
    """How early and how far each seed's policy sharpened, from 1/2 to 1, [S]."""
    system, run = lab.classes(algo, **settings)
    return outcome.over_time(run, outcome.curve(system, run, "share"))


def sharper(lab: Lab, first: Way, second: Way, statement: str) -> Check:
    """Whether the first (algo, settings) sharpens more than the second, paired by seed."""
    difference = sharpness(lab, first[0], **first[1]) - sharpness(lab, second[0], **second[1])
    return check.mean(statement, difference, above=0.0)


def collapsed(lab: Lab, statement: str, algo: str, **settings: Any) -> Check:
    """Whether 95% of seeds have collapsed by the end."""
    system, run = lab.classes(algo, **settings)
    step_S = outcome.collapse_step(system, run)
    return check.share(statement, np.isfinite(step_S), above=0.95)


def estimators(lab: Lab) -> list[Check]:
    return collapse(lab, ESTIMATORS) + [
        collapsed(lab, f"by step 2000, {a}, rate 1", a, steps=2000) for a in ESTIMATORS
    ]


def collapse(lab: Lab, algos: Sequence[str], **settings: Any) -> list[Check]:
    return at_each(RATES, lambda rate: [
        collapsed(lab, f"collapsed by step 500, {a}", a, learning_rate=rate, **settings)
        for a in algos
    ])  # fmt: skip


def winner(lab: Lab, rate: float) -> list[Check]:
    system, run = lab.classes(RAW, learning_rate=rate)
    cat_SR, persian_SR = (outcome.curve(system, run, name) for name in ("cat", "persian"))
    early = np.searchsorted(run.step_R, 25)
    leads_SR = persian_SR > cat_SR
    return [
        check.share("Persian wins", leads_SR[:, -1], above=0.4, below=0.6),
        check.share("who leads at step 25 wins", leads_SR[:, early] == leads_SR[:, -1], above=0.75),
    ]


def delayed_by_size(lab: Lab) -> list[Check]:
    return at_each(RATES, lambda rate: [
        sharper(lab, (a, {"group_size": 4, "learning_rate": rate}),
                (a, {"group_size": 32, "learning_rate": rate}), f"G=4 less G=32, {a}")
        for a in ESTIMATORS
    ])  # fmt: skip


def by_rate(lab: Lab, first: str, second: str, **settings: Any) -> list[Check]:
    return at_each(RATES, lambda rate: [
        sharper(lab, (first, {"learning_rate": rate} | settings),
                (second, {"learning_rate": rate} | settings), f"{first} less {second}")
    ])  # fmt: skip


def at_equal_success(lab: Lab, rate: float) -> list[Check]:
    """The share when 95% of the mass is correct; seeds that both reach it."""
    shares, reached = [], []
    for algo in (SHIFTED, NORMALISED):
        system, run = lab.classes(algo, learning_rate=rate, steps=1500 if rate < 1 else 500)
        step_S = outcome.solved_step(system, run)
        shares.append(outcome.at_step(run, outcome.curve(system, run, "share"), step_S))
        reached.append(np.isfinite(step_S))
    both_S = reached[0] & reached[1]
    statement = f"{SHIFTED} less {NORMALISED} when 95% are right"
    return [check.mean(statement, (shares[0] - shares[1])[both_S], above=0.0)]


def half_the_rate(lab: Lab) -> list[Check]:
    """Rates at which both solve the task as fast: the median steps to 95% differ by less."""
    checks = []
    for rate in (0.3, 1.0):
        first = lab.classes(NORMALISED, learning_rate=rate / 2)
        second = lab.classes(SHIFTED, learning_rate=rate)
        success = [outcome.over_time(m, outcome.curve(s, m, "success")) for s, m in (first, second)]
        statement = f"{NORMALISED} at rate {rate / 2:g} less {SHIFTED} at {rate:g}"
        checks += [
            check.mean(f"sharpness, {statement}", sharpness(lab, NORMALISED, learning_rate=rate / 2)
                       - sharpness(lab, SHIFTED, learning_rate=rate), above=-0.03, below=0.03),
            check.mean(f"success, {statement}", success[0] - success[1], above=-0.03, below=0.03),
        ]  # fmt: skip
    return checks


def quicker(lab: Lab, first: str, second: str) -> list[Check]:
    return at_each(RATES, lambda rate: [
        sharper(lab, (NORMALISED, {"optimizer": first, "learning_rate": rate}),
                (NORMALISED, {"optimizer": second, "learning_rate": rate}),
                f"{first} less {second}")
    ])  # fmt: skip


def at_once(lab: Lab) -> list[Check]:
    return at_each(RATES, lambda rate: [
        collapsed(lab, f"{a}, G={G}", a, steps=20, group_size=G, optimizer="momentum",
                  learning_rate=rate)
        for a in ESTIMATORS for G in (4, 32)
    ])  # fmt: skip


def siamese(lab: Lab, rate: float, similarity: str, size: int = 8) -> np.ndarray:
    system, run = lab.classes(NORMALISED, size, rate)
    return outcome.curve(system, run, f"siamese@siamese-{similarity}")


def siamese_mean(lab: Lab, rate: float, similarity: str, size: int = 8) -> np.ndarray:
    _, run = lab.classes(NORMALISED, size, rate)
    return outcome.over_time(run, siamese(lab, rate, similarity, size))


def squeezed(lab: Lab, rate: float) -> list[Check]:
    p_SR = {n: siamese(lab, rate, n) for n in SIAMESE}
    return [check.mean(f"{n} similarity", p[:, -1] - p[:, 0], below=0.0) for n, p in p_SR.items()]


def by_similarity(lab: Lab, rate: float) -> list[Check]:
    return [
        check.mean(f"{a} less {b} similarity",
                   siamese_mean(lab, rate, a) - siamese_mean(lab, rate, b), below=0.0)
        for a, b in pairwise(SIAMESE)
    ]  # fmt: skip


def by_size(lab: Lab, rate: float) -> list[Check]:
    return [
        check.mean(f"{n} similarity",
                   siamese_mean(lab, rate, n, 32) - siamese_mean(lab, rate, n, 4), below=0.0)
        for n in SIAMESE
    ]  # fmt: skip


def printed_ratios(lab: Lab) -> list[Check]:
    features = classes().queries
    own = np.array(features["persian"])
    ratios = {n: own @ own / (own @ np.array(features[f"siamese-{n}"])) for n in SIAMESE}
    pairs = zip(ratios, (1.38, 1.57, 1.72), strict=True)
    return [
        check.exact("high less mid similarity", ratios["high"] - ratios["mid"], below=0.0),
        check.exact("mid less low similarity", ratios["mid"] - ratios["low"], below=0.0),
        *(check.exact(f"error of the printed {printed}, {name}", abs(ratios[name] - printed),
                      below=0.005) for name, printed in pairs),
    ]  # fmt: skip


def diverse(lab: Lab, optimizer: str, rate: float) -> list[Check]:
    system, run = lab.classes("grpo+iac", learning_rate=rate, optimizer=optimizer, memory=0.5)
    share_SR = outcome.curve(system, run, "share")
    late_SR = share_SR[:, run.step_R >= 400]
    success_S = outcome.curve(system, run, "success")[:, -1]
    return [
        check.mean("success at the end", success_S, above=0.9),
        check.mean("larger share at the end", share_SR[:, -1], below=0.9),
        check.share("collapsed at the end", share_SR[:, -1] >= 0.95, below=0.05),
        check.mean("drift of the share over the last 100 steps",
                   late_SR[:, -1] - late_SR[:, 0], above=-0.02, below=0.02),
    ]  # fmt: skip


def more_diverse(lab: Lab, rate: float) -> list[Check]:
    ways: list[dict[str, Any]] = [{"optimizer": o, "learning_rate": rate} for o in ("sgd", "adamw")]
    return [
        sharper(lab, ("grpo+iac", way), ("grpo+iac", way | {"memory": 0.5}), way["optimizer"])
        for way in ways
    ]


def infinite_samples(lab: Lab) -> list[Check]:
    """pi* of random references, advantages and betas."""
    rng = np.random.default_rng(0)
    ref_NA = rng.dirichlet(np.full(6, 0.5), 10_000)
    up_N1, down_N1 = rng.exponential(size=(10_000, 1)), -rng.exponential(size=(10_000, 1))
    advantage_NA = np.where(np.arange(6) < 3, up_N1, down_N1) / rng.uniform(0.05, 2, (10_000, 1))
    weight_NA = ref_NA * np.exp(advantage_NA - advantage_NA.max(1, keepdims=True))
    best_NA = weight_NA / weight_NA.sum(1, keepdims=True)
    up = (best_NA >= ref_NA * (1 - 1e-12))[:, :3].all(1)
    return [check.share("random cases in which every correct mode gains", up, above=0.999)]


def _batches() -> tuple[np.ndarray, ...]:
    """References, counts of eight samples and normalised advantages of mixed groups."""
    rng = np.random.default_rng(1)
    ref_NA = rng.dirichlet(np.full(6, 0.7), 20_000)
    count_NA = rng.multinomial(8, ref_NA)
    rate_N = count_NA[:, :3].sum(1) / 8
    mixed_N = (rate_N > 0) & (rate_N < 1)
    ref_NA, count_NA, rate_N = ref_NA[mixed_N], count_NA[mixed_N], rate_N[mixed_N]
    sigma_N = np.sqrt(rate_N * (1 - rate_N))
    advantage_NA = np.where(np.arange(6) < 3, (1 - rate_N)[:, None], -rate_N[:, None])
    return ref_NA, count_NA, advantage_NA / sigma_N[:, None], rate_N, sigma_N


def partition(lab: Lab) -> list[Check]:
    ref_NA, count_NA, advantage_NA, rate_N, sigma_N = _batches()
    z_N = (ref_NA * np.exp(count_NA * advantage_NA / 8)).sum(1)
    seen_NA, right_A = count_NA > 0, np.arange(6) < 3
    least_N = np.where(seen_NA & right_A, ref_NA, np.inf).min(1)
    most_N = np.where(seen_NA & ~right_A, ref_NA, -np.inf).max(1)
    bound_N = 1 + rate_N * (1 - rate_N) / sigma_N * (least_N - most_N)
    return [check.share("mixed batches whose Z' is at least the bound", z_N >= bound_N - 1e-12,
                        above=0.999)]  # fmt: skip


def maximiser(lab: Lab) -> list[Check]:
    """Eq. 3 at Eq. 4's policy, and with a sampled wrong mode a thousand times less likely."""
    ref_NA, count_NA, advantage_NA, *_ = _batches()
    policy_NA = ref_NA * np.exp(count_NA * advantage_NA / 8)
    policy_NA /= policy_NA.sum(1, keepdims=True)

    def value(policy_NA: np.ndarray) -> np.ndarray:
        log_NA = np.log(policy_NA)
        kl_N = (policy_NA * (log_NA - np.log(ref_NA))).sum(1)
        value_N: np.ndarray = (count_NA * advantage_NA * log_NA).sum(1) / 8 - kl_N
        return value_N

    wrong_N = np.where(np.arange(6) < 3, -1, count_NA).argmax(1)
    rows = np.arange(len(policy_NA))
    other_NA = policy_NA.copy()
    other_NA[rows, wrong_N] /= 1e6
    other_NA /= other_NA.sum(1, keepdims=True)
    return [check.share("mixed batches in which that policy is no better",
                        value(other_NA) <= value(policy_NA), above=0.999)]  # fmt: skip


def iac(lab: Lab, **settings: Any) -> list[Check]:
    return by_rate(lab, NORMALISED, "grpo+iac", **settings)


CLAIMS = [
    Claim("S1", "Corollary 2.1", "With infinitely many samples and a KL penalty every correct mode "
          "gains", "pi* of 10,000 random cases of six modes", infinite_samples),
    Claim("S2", "Theorem 2.2", "Eq. 4 is the policy that maximises Eq. 3",
          "Eq. 3 at Eq. 4's policy against one with less of a sampled wrong mode, random batches",
          maximiser, "Eq. 3 has no maximum: A log pi of a wrong mode grows without bound as pi "
          "goes to 0 (errata, I4)."),
    Claim("S3", "Theorem 2.3", "Z' is at least 1 + p(1 - p) / (beta sigma) times the probability "
          "gap", "20,000 random batches of eight", partition),
    Claim("S4", "sec. 2.4, Fig. 1", "Across estimators the policy collapses on one label",
          "share of seeds with 95% of the correct mass on one label, G = 8", estimators,
          "Groups that are all right have mean-shifted and normalised advantages of 0: once "
          "success nears 1 these policies stop moving, wherever they are."),
    Claim("S5", "sec. 2.4", "Which label wins is random, by early sampling noise",
          "raw rewards, G = 8", lambda lab: at_each(RATES, lambda rate: winner(lab, rate))),
    Claim("S6", "sec. 2.4, Fig. 1", "A larger group delays collapse", SHARPNESS, delayed_by_size),
    Claim("S7", "sec. 2.4, Fig. 1", "A larger group does not prevent collapse",
          "share of seeds, G = 32", lambda lab: collapse(lab, ESTIMATORS, group_size=32)),
    Claim("S8", "sec. 2.4, Fig. 1", "Raw rewards sharpen more than mean-shifted advantages",
          SHARPNESS, lambda lab: by_rate(lab, RAW, SHIFTED)),
    Claim("S9", "sec. 2.4, Fig. 1", "Normalised advantages are slower than mean-shifted ones",
          f"{SHARPNESS}; mean-shifted less normalised",
          lambda lab: by_rate(lab, SHIFTED, NORMALISED),
          "A mixed group's deviation of binary rewards is at most about 1/2, so dividing by it at "
          "least nearly doubles every update; p(1 - p) / sigma = sqrt(p(1 - p)) also fades later "
          "than p(1 - p) as success nears 1. See S10 and S11."),
    Claim("S10", "ours, of sec. 2.2", "At equal success normalised advantages leave more diversity",
          "larger share at the step at which 95% of the mass is correct; mean-shifted less "
          "normalised", lambda lab: at_each(
              (0.3, 1.0, 3.0, 10.0), lambda rate: at_equal_success(lab, rate))),
    Claim("S11", "ours, of S9", "At half the rate normalised advantages learn and sharpen as "
          "mean-shifted ones do: S9 is mostly step size", "differences within 0.03",
          half_the_rate),
    Claim("S12", "G, Fig. 3", "RLOO and REINFORCE++ delay collapse against raw rewards",
          SHARPNESS, lambda lab: by_rate(lab, RAW, "rloo") + by_rate(lab, RAW, LIKE)),
    Claim("S13", "G, Fig. 3", "With RLOO and REINFORCE++ the policy collapses in the end too",
          "share of seeds, G = 8", lambda lab: collapse(lab, ("rloo", LIKE))),
    Claim("S14", "G, Fig. 4", "Momentum collapses faster than SGD", f"GRPO, G = 8; {SHARPNESS}",
          lambda lab: quicker(lab, "momentum", "sgd")),
    Claim("S15", "G, Fig. 4", "With momentum the policy collapses within 20 steps, whatever G",
          "share of seeds collapsed by step 20; the paper does not say by which estimator",
          at_once),
    Claim("S16", "G, Fig. 4", "AdamW collapses faster than SGD", "as S14",
          lambda lab: quicker(lab, "adamw", "sgd")),
    Claim("S17", "G, Fig. 4", "AdamW is worse than momentum", "as S14",
          lambda lab: quicker(lab, "adamw", "momentum")),
    Claim("S18", "sec. 2.4, Fig. 2", "Training on Persian squeezes P(Siamese) of Siamese",
          "its change over 500 steps, GRPO, G = 8",
          lambda lab: at_each(RATES, lambda rate: squeezed(lab, rate))),
    Claim("S19", "sec. 2.4, Fig. 2", "The more similar, the more it is squeezed",
          "difference of the mean of P(Siamese) over 500 steps",
          lambda lab: at_each(RATES, lambda rate: by_similarity(lab, rate))),
    Claim("S20", "sec. 2.4, Fig. 2", "The larger the group, the more it is squeezed",
          "G = 32 less G = 4, mean of P(Siamese) over 500 steps",
          lambda lab: at_each(RATES, lambda rate: by_size(lab, rate))),
    Claim("S21", "G", "lambda / rho is 1.38, 1.57 and 1.72 and grows as similarity falls",
          "from the features; printed numbers within 0.005", printed_ratios),
    Claim("S22", "H, Fig. 5a", "IAC alone slows collapse (SGD)",
          f"{SHARPNESS}; GRPO less GRPO with IAC", iac,
          "IAC multiplies A > 0 by the number of failures, never by less than 1 in a "
          "mixed group: for one query it takes a larger step towards what was sampled."),
    Claim("S23", "H, Fig. 5c", "IAC alone slows collapse (AdamW)", f"{SHARPNESS}; GRPO less GRPO "
          "with IAC", lambda lab: iac(lab, optimizer="adamw")),
    Claim("S24", "H, Fig. 5b", "IAC with DLC comes to rest at a diverse policy (SGD)",
          "mu = 0.5, rate of the memory 1, G = 8",
          lambda lab: at_each(RATES, lambda rate: diverse(lab, "sgd", rate)),
          "The memory's initial value and learning rate are not published; here they are 0 and 1."),
    Claim("S25", "H, Fig. 5d", "IAC with DLC comes to rest at a diverse policy (AdamW)",
          "the same", lambda lab: at_each(RATES, lambda rate: diverse(lab, "adamw", rate))),
    Claim("S26", "H, Fig. 5", "DLC adds diversity to IAC", f"{SHARPNESS}; IAC less IAC with DLC",
          lambda lab: at_each(RATES, lambda rate: more_diverse(lab, rate))),
    Claim("S27", "Tables 2 and 3", "IAC beats GRPO in accuracy and Pass@8", "built-in task, 20 "
          "steps", lambda lab: lab.better("pass@1, points", "grpo+iac", "grpo", "pass@1")
          + lab.better("pass@16, points", "grpo+iac", "grpo", "pass@16")),
    Claim("S28", "Table 4", "IAC adds to DAPO", "built-in task, 20 steps",
          lambda lab: lab.better("pass@1, points", "dapo+iac", "dapo", "pass@1")
          + lab.better("pass@16, points", "dapo+iac", "dapo", "pass@16")),
    Claim("S29", "I, Fig. 6", "IAC keeps entropy higher than DAPO alone", "built-in task, 20 steps",
          lambda lab: lab.better("entropy, dapo", "dapo+iac", "dapo", "entropy")
          + lab.better("entropy, grpo", "grpo+iac", "grpo", "entropy")),
    Claim("S30", "I, Table 5", "alpha = 1 is better than 0.5 and than 0", "built-in task, pass@1",
          lambda lab: lab.better("1 less 0.5", "grpo+iac", "grpo+iac:alpha=0.5", "pass@1")
          + lab.better("1 less 0", "grpo+iac", "grpo", "pass@1")),
    Claim("S31", "I, Table 5", "IAC beats leaving out the easiest quarter of prompts", "-", None,
          "Not run: this needs the base policy's success rate on every training prompt."),
    Claim("S32", "Table 4", "DLC adds to DAPO with IAC on language models", "-", None,
          "Not run: dlc.md has GRPO with IAC and DLC on the built-in task, without DAPO."),
]  # fmt: skip
