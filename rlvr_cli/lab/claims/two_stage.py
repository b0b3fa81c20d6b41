"""Two-stage (arXiv:2510.04028)."""

from itertools import pairwise
from typing import Any

import numpy as np

from rlvr_cli.lab import check, outcome, squeeze
from rlvr_cli.lab.check import Check
from rlvr_cli.lab.ledger import Claim, Lab, paired
from rlvr_cli.lab.systems import Floats

REWARDS, START = (0.5, 1.0, 0.0), (0.5, 0.05, 0.45)
RARE = (0.7, 0.005, 0.295)
FOUR, FOUR_START = (0.6, 1.0, 0.3, 0.0), (0.4, 0.05, 0.3, 0.25)
SIZES, TEMPERATURES = (2, 3, 5, 10), (1.0, 2.0, 5.0, 20.0)
NEGATIVE = "dr-grpo+negative-only"


def path(lab: Lab, action: str, algo: str = "dr-grpo", rewards: Floats = REWARDS,
         start: Floats = START, **settings: Any) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """The recorded steps [R], and the probability of an action or another quantity [S, R]."""
    system, run = lab.actions(algo, rewards, start, **settings)
    return run.step_R, outcome.curve(system, run, action)


def rise_and_fall(lab: Lab, action: str = "a1", **settings: Any) -> np.ndarray:
    """Seeds in which an action rises by 0.05 and then falls by 0.1 below its peak, [S]."""
    _, p_SR = path(lab, action, **settings)
    peak_S = p_SR.max(1)
    flag_S: np.ndarray = (peak_S > p_SR[:, 0] + 0.05) & (p_SR[:, -1] < peak_S - 0.1)
    return flag_S


def two_stages(lab: Lab) -> list[Check]:
    checks = []
    for start in (START, (0.6, 0.1, 0.3)):
        rises_S = rise_and_fall(lab, start=start)
        _, optimal_SR = path(lab, "a2", start=start)
        both_S = rises_S & (optimal_SR[:, -1] > 0.5)
        checks.append(check.share(f"start {start}", both_S, above=0.9))
    return checks


def unchanged(lab: Lab) -> list[Check]:
    """P(a2) where a3 has lost half of its probability: the first stage is on."""
    _, low_SR = path(lab, "a3")
    _, optimal_SR = path(lab, "a2")
    at_S = (low_SR < START[2] / 2).argmax(1)
    change_S = optimal_SR[np.arange(len(at_S)), at_S] - START[1]
    return [check.mean("P(a2) when P(a3) has halved, less 0.05", change_S, above=-0.02, below=0.02)]


def shrinks(lab: Lab) -> list[Check]:
    _, high_SR = path(lab, "a1", start=(0.7, 0.02, 0.28))
    _, optimal_SR = path(lab, "a2", start=(0.7, 0.02, 0.28))
    at_S = (high_SR > 0.9).argmax(1)
    less_S = optimal_SR[np.arange(len(at_S)), at_S] < 0.02
    return [check.share("P(a2) has fallen when P(a1) reaches 0.9, start (0.7, 0.02, 0.28)", less_S,
                        above=0.5)]  # fmt: skip


def negative_shifts(lab: Lab) -> list[Check]:
    """The sign of r(a1) less the policy's mean reward is that of a1's expected advantage."""
    step_R, reward_SR = path(lab, "reward")
    return [
        check.share("a1 above the mean at step 50", reward_SR[:, step_R == 50][:, 0] < 0.5,
                    above=0.9),
        check.share("a1 below the mean at the end", reward_SR[:, -1] > 0.5, above=0.9),
    ]  # fmt: skip


def sizes(lab: Lab) -> list[Check]:
    stages = {G: rise_and_fall(lab, group_size=G) for G in SIZES}
    checks = [check.share(f"two stages, G={G}", flag_S, above=0.9) for G, flag_S in stages.items()]
    _, small_SR = path(lab, "a1", group_size=2)
    _, large_SR = path(lab, "a1", group_size=10)

    def roughness(p_SR: np.ndarray) -> np.ndarray:
        path_S = np.abs(np.diff(p_SR[:, :50], axis=1)).sum(1)
        excess_S: np.ndarray = path_S - np.abs(p_SR[:, 49] - p_SR[:, 0])
        return excess_S

    statement = "back and forth of P(a1) in the first 49 steps, G=2 less G=10"
    return [*checks, check.mean(statement, roughness(small_SR) - roughness(large_SR), above=0.0)]


def temperatures(lab: Lab) -> list[Check]:
    checks = []
    for low, high in pairwise(TEMPERATURES):
        entropy = []
        for temperature in (low, high):
            system, run = lab.actions("dr-grpo", REWARDS, START, temperature=temperature)
            entropy.append(outcome.over_time(run, outcome.curve(system, run, "entropy")))
        statement = f"mean entropy of the samples, tau {high:g} less {low:g}"
        checks.append(check.mean(statement, entropy[1] - entropy[0], above=0.0))
    return checks


def hotter_finds_it(lab: Lab) -> list[Check]:
    checks = []
    for temperature in (5.0, 20.0):
        late = [path(lab, "a2", start=RARE, temperature=t)[1][:, -1] for t in (temperature, 1.0)]
        statement = f"P(a2) at step 1500, tau {temperature:g} less 1, start {RARE}"
        checks.append(check.mean(statement, late[0] - late[1], above=0.0))
    return checks


def momentum(lab: Lab) -> list[Check]:
    checks = []
    for name, rate in (("same rate", 0.1), ("a tenth of the rate", 0.01)):
        _, plain_SR = path(lab, "reward")
        system, run = lab.actions("dr-grpo", REWARDS, START, optimizer="momentum", rate=rate)
        reward_S = outcome.over_time(run, outcome.curve(system, run, "reward"))
        _, sgd = lab.actions("dr-grpo", REWARDS, START)
        difference_S = reward_S - outcome.over_time(sgd, plain_SR)
        statement = f"mean reward over 1500 steps, momentum less SGD, {name}"
        checks.append(check.mean(statement, difference_S, below=0.0))
    return checks


def negative_only(lab: Lab, quantity: str, **bounds: float) -> list[Check]:
    checks = []
    for start in (START, (0.6, 0.1, 0.3)):
        first, second = (path(lab, quantity, algo, start=start)[1][:, -1]
                         for algo in (NEGATIVE, "dr-grpo"))  # fmt: skip
        statement = f"{quantity} at the end, negative only less all, start {start}"
        checks.append(check.mean(statement, first - second, **bounds))
    return checks


def binary_negative_only(lab: Lab) -> list[Check]:
    """With two right answers of equal reward, as on verifiable tasks."""
    rewards, start = (1.0, 1.0, 0.0), (0.5, 0.1, 0.4)
    first, second = (path(lab, "entropy", algo, rewards, start)[1][:, -1]
                     for algo in (NEGATIVE, "dr-grpo"))  # fmt: skip
    return [check.mean("entropy at the end, rewards 1, 1, 0", first - second, above=0.0)]


def language_entropy(lab: Lab) -> list[Check]:
    spec = "grpo+negative-only"
    ends = [lab.language(spec, "entropy", at_start=when) for when in (False, True)]
    return [
        *lab.better("less GRPO's", spec, "grpo", "entropy"),
        *paired("less the base policy's", ends, [1, -1], above=0.0),
    ]


def large_k(lab: Lab, spec: str) -> list[Check]:
    checks = []
    for k in (16, 64, 256):
        name = f"pass@{k} of 256"
        ends = [lab.language(spec, name, at_start=when) for when in (True, False)]
        checks += paired(f"pass@{k} of 256 samples, base less {spec}, points", ends, [1, -1],
                       above=0.0)  # fmt: skip
    return checks


CLAIMS = [
    Claim("T1", "Lemma 1", "A sampled action's logit moves by eta A (1 - pi), another's by "
          "-eta A pi", "one update of 4,000 random policies", lambda lab: squeeze.lemma_1()),
    Claim("T2", "Theorem 1", "The expected update is eta pi (A - sum pi A), with the advantage of "
          "sec. 3.2", "mean update of 200,000 / G groups over the theorem's", lambda lab:
          squeeze.theorem_1("dr-grpo", 2, 1.0) + squeeze.theorem_1("dr-grpo", 8, 1.0),
          "The group's mean contains the action's own reward: the update is (G - 1) / G of the "
          "theorem's. The direction is right (errata, T2)."),
    Claim("T3", "Theorem 1", "The same with the mean of the others (RLOO) as baseline",
          "as T2", lambda lab: squeeze.theorem_1("rloo", 2, 1.0)
          + squeeze.theorem_1("rloo", 8, 1.0)),
    Claim("T4", "Remark 2", "A > 0 lowers the probability of every other action",
          "one small update of 4,000 random policies",
          lambda lab: squeeze.passive_suppression()[1:],
          "Logits fall by A pi each, so a dominant action loses most and a rare one gains from "
          "it: log pi_k changes by eta A (sum pi^2 - pi_k - pi_v) (errata, T10)."),
    Claim("T5", "sec. 3.2, Fig. 1", "Two stages: P(a1) rises, then falls while P(a2) takes over",
          "share of seeds with a rise of 0.05, a fall of 0.1, and P(a2) > 1/2 at step 1500; G = 2",
          two_stages),
    Claim("T6", "sec. 3.2", "P(a2) stays almost unchanged in the first stage",
          "within 0.02", unchanged),
    Claim("T7", "Remark 3", "Exploitation can shrink what is reachable", "share of seeds", shrinks),
    Claim("T8", "sec. 3.2", "The relative negative action changes from a3 to a1",
          "a1's reward against the policy's mean", negative_shifts),
    Claim("T9", "C.4, Fig. 5", "A larger G changes nothing of it and is more stable",
          "share of seeds; roughness of the path", sizes),
    Claim("T10", "C.4, Fig. 6", "A higher temperature makes samples more diverse",
          "paired by seed, 1500 steps", temperatures),
    Claim("T11", "C.4", "A higher temperature helps to find a rare optimal action",
          "paired by seed", hotter_finds_it),
    Claim("T12", "C.4", "E dz of the best action is never below 0, of the worst always",
          "4,000 random policies over six actions", lambda lab: squeeze.expected_signs()),
    Claim("T13", "C.4, Fig. 7", "With four actions those between rise and fall",
          "share of seeds in which a1 (second best) does; a3 (third) does", lambda lab: [
              check.share(a, rise_and_fall(lab, a, rewards=FOUR, start=FOUR_START, steps=3000),
                          above=0.5) for a in ("a1", "a3")],
          "a3's reward of 0.3 is below the policy's mean, 0.38, from the start: it only falls."),
    Claim("T14", "Remark 4", "Momentum of early gradients is suboptimal",
          "paired by seed", momentum),
    Claim("T15", "ours, of sec. 4", "Negative gradients alone keep more entropy (three actions)",
          "paired by seed, G = 2, 1500 steps", lambda lab: negative_only(lab, "entropy",
                                                                         above=0.0)
          + binary_negative_only(lab)),
    Claim("T16", "ours, of sec. 4", "Negative gradients alone find the optimal action as well",
          "P(a2) within 0.1 of that of all gradients, step 1500 (the paper's own claim is of "
          "language models: T17)",
          lambda lab: negative_only(lab, "a2", above=-0.1),
          "If a2 is sampled, a1 is the negative of the pair and its mass goes to the others in "
          "proportion to what they have: a2 itself is never pulled up."),
    Claim("T17", "sec. 4.2, Fig. 2", "GRPO-N keeps up with GRPO in accuracy", "built-in task, 20 "
          "steps; less than 2 points behind", lambda lab: lab.better(
              "pass@1, points", "grpo+negative-only", "grpo", "pass@1", above=-2.0)),
    Claim("T18", "sec. 4.2, Fig. 2", "GRPO-N's entropy is above GRPO's and the base policy's",
          "built-in task, 20 steps", language_entropy),
    Claim("T19", "sec. 1 and Table 1", "The base policy overtakes GRPO at large k",
          "built-in task, 20 steps, 256 samples of each of 43 prompts",
          lambda lab: large_k(lab, "grpo"),
          "At 256 samples the base policy solves every prompt, so nothing larger can be measured."),
    Claim("T20", "sec. 4.2, Fig. 2", "Entropy first falls and then rises with GRPO-N, GSPO, GSPO-N",
          "-", None, "This needs runs of hundreds of steps with evaluations in between."),
    Claim("T21", "sec. 4.2, Table 1", "GRPO-N and GSPO-N do better out of domain at every k", "-",
          None, "The built-in task has one domain."),
]  # fmt: skip
