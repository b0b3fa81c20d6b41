"""Softmax identities of APO (B.1 to B.4) and of two-stage (Lemma 1, Theorem 1), by our objectives.

Each is checked on policies of random logits, by one update of the objective that the identity is
about. Shapes: S policies (or groups), A actions.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from rlvr_cli.lab import check, recovery
from rlvr_cli.lab.bandit import Policies
from rlvr_cli.lab.check import Check
from rlvr_cli.lab.settings import Settings
from rlvr_cli.lab.systems import bandit
from rlvr_cli.runtime import seeds as seeding

ACTIONS = 6
POLICIES = 4000
GROUPS = 200_000
IDENTITY = 1e-9  # the largest error that an identity may have
REWARDS = (1.0, 0.3, 0.0, 0.6, 0.1, 0.8)


def updated(
    settings: Settings, reward: tuple[float, ...], logits_SA: Tensor, name: str,
    reference: tuple[float, ...] | None = None, rates: Sequence[float] = (),
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The change of the logits in one update, [S, A], and the actions, [S, G].

    S is that of the logits for each of `rates`, one after the other; without any, for the
    settings' rate.
    """
    size = logits_SA.shape[1]
    repeats = max(1, len(rates))
    even = (1 / size,) * size
    system = bandit(reward, even, reference)
    policies = Policies(system, settings, len(logits_SA), rates)
    with torch.no_grad():
        policies.weight_SAD.copy_(logits_SA.repeat(repeats, 1)[..., None])
    generator = torch.Generator().manual_seed(seeding.derive("squeeze", name))
    uniform_SG = torch.rand(
        (len(logits_SA), settings.group_size), generator=generator, dtype=torch.float64
    )
    action_SG = policies.train(uniform_SG.repeat(repeats, 1))
    return policies.weight_SAD.detach()[..., 0] - logits_SA.repeat(repeats, 1), action_SG


def random_logits(name: str, spread: float = 2.0) -> Tensor:
    generator = torch.Generator().manual_seed(seeding.derive("squeeze logits", name))
    shape = (POLICIES, ACTIONS)
    return spread * torch.randn(shape, generator=generator, dtype=torch.float64)


def _one_hot(action_S: Tensor) -> Tensor:
    return torch.nn.functional.one_hot(action_S, ACTIONS).double()


def lemma_1() -> list[Check]:
    """dz_u = eta A(v) (1[u = v] - pi(u)) for the sampled action v (two-stage, Lemma 1)."""
    reward = (1.0, -1.0, 0.5, -0.5, 2.0, -2.0)
    logits_SA = random_logits("lemma 1")
    change_SA, action_SG = updated(Settings("reinforce", 1, 1.0, 1), reward, logits_SA, "lemma 1")
    action_S = action_SG[:, 0]
    advantage_S1 = torch.tensor(reward, dtype=torch.float64)[action_S][:, None]
    formula_SA = advantage_S1 * (_one_hot(action_S) - logits_SA.softmax(-1))
    error = float((change_SA - formula_SA).abs().max())
    return [check.exact("largest difference from the formula", error, below=IDENTITY)]


def _theorem_1_share(algo: str, size: int) -> np.ndarray:
    """The update of each group in units of Theorem 1's expectation, along it, [S]."""
    logits_A = torch.tensor([0.5, -1.5, 0.3, -0.5, 0.0, -2.0], dtype=torch.float64)
    pi_A, reward_A = logits_A.softmax(-1), torch.tensor(REWARDS, dtype=torch.float64)
    expected_A = pi_A * (reward_A - pi_A @ reward_A)
    name = f"theorem 1 {algo} {size}"
    settings = Settings(algo, size, 1.0, 1)
    change_SA, _ = updated(settings, REWARDS, logits_A.repeat(GROUPS // size, 1), name)
    return (change_SA @ expected_A / (expected_A @ expected_A)).numpy()


def theorem_1(algo: str, size: int, claimed: float) -> list[Check]:
    """E dz_v = eta pi(v) [(1 - pi(v)) A(v) - sum_{u != v} pi(u) A(u)] (two-stage, Theorem 1).

    The bracket is r(v) - E r whatever the baseline. Within 2% of `claimed` times the theorem's.
    """
    statement = f"update over Theorem 1's, {algo}, G = {size}"
    bounds = {"above": 0.98 * claimed, "below": 1.02 * claimed}
    return [check.mean(statement, _theorem_1_share(algo, size), **bounds)]


def _sampled_once(algo: str, reward: float, name: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Probabilities, the change of logits and of log-probs, and what was sampled."""
    logits_SA = random_logits(name)
    settings = Settings(algo, 1, 1e-4, 1)
    change_SA, action_SG = updated(settings, (reward,) * ACTIONS, logits_SA, name)
    after_SA, before_SA = (logits_SA + change_SA).log_softmax(-1), logits_SA.log_softmax(-1)
    return before_SA.exp(), change_SA / 1e-4, after_SA - before_SA, action_SG[:, 0]


def passive_suppression() -> list[Check]:
    """A reward lowers every action that was not sampled (APO, Proposition B.2)."""
    _, change_SA, gain_SA, action_S = _sampled_once("reinforce", 1.0, "suppression")
    other_SA = _one_hot(action_S) == 0
    return [
        check.share("policies whose other logits all fall",
                    ((change_SA < 0) | ~other_SA).all(1).numpy(), above=0.99),
        check.share("policies whose other probabilities all fall",
                    ((gain_SA < 0) | ~other_SA).all(1).numpy(), above=0.99),
    ]  # fmt: skip


def squeezing() -> list[Check]:
    """An error's mass goes to the others in proportion to what they have (APO, eq. 2, B.3)."""
    pi_SA, change_SA, gain_SA, action_S = _sampled_once("nsr", 0.0, "squeezing")
    other_SA = _one_hot(action_S) == 0
    error = float((change_SA - pi_SA)[other_SA].abs().max())
    pi_SA = pi_SA.masked_fill(~other_SA, -1)
    likeliest_S = (change_SA.masked_fill(~other_SA, -1).argmax(1) == pi_SA.argmax(1)).numpy()
    weakest_S = pi_SA.masked_fill(~other_SA, 2).argmin(1, keepdim=True)
    return [
        check.exact("largest difference of dz_k from eta C pi_k", error, below=IDENTITY),
        check.share("policies where the likeliest other gains most", likeliest_S, above=0.99),
        check.share("policies whose least likely other action gets likelier",
                    (gain_SA.gather(1, weakest_S) > 0)[:, 0].numpy(), above=0.99),
    ]  # fmt: skip


def _pull(name: str, suppressed: float | None = None) -> dict[str, Tensor]:
    """What the anchor adds to the update of a group with one error: APO less APO without anchor.

    Actions 0 to 2 are the reference policy's likeliest three; only action 5 is right.
    """
    logits_SA = random_logits(name, spread=1.0)
    if suppressed is not None:
        rest_S = logits_SA[:, 1:].logsumexp(-1)
        logits_SA[:, 0] = rest_S + math.log(suppressed / (1 - suppressed))
    reference = (0.4, 0.25, 0.15, 0.1, 0.06, 0.04)
    reward = (0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    changes = [
        updated(Settings(f"apo:k=3,lam=1,clip_low=1,eps=0,beta={beta}", 2, 1.0, 1), reward,
                 logits_SA, name, reference)
        for beta in (0.001, 0)
    ]  # fmt: skip
    action_SG = changes[0][1]
    mixed_S = (action_SG == 5).sum(1) == 1
    error_S = action_SG.amin(1)[mixed_S]  # the right action has the highest number
    anchor_SA = (torch.arange(ACTIONS) < 3) & (_one_hot(error_S) == 0)
    return {
        "pull": (changes[0][0] - changes[1][0])[mixed_S],
        "pi": logits_SA.softmax(-1)[mixed_S],
        "anchor": anchor_SA.double(),
        "z": (anchor_SA * torch.tensor(reference, dtype=torch.float64)).sum(1, keepdim=True),
        "error": error_S,
    }


def _mass_gradient(pi_SA: Tensor, members_SA: Tensor) -> Tensor:
    """d sum_S pi / dz_k = pi_k (1[k in S] - P_S), [S, A] (APO, eq. 20)."""
    return pi_SA * (members_SA - (pi_SA * members_SA).sum(1, keepdim=True))


def pull_identity() -> list[Check]:
    """The pull is beta |A| / Z times pi_k (1 - P_S) on S, and -pi_k P_S outside S (eq. 20)."""
    update = _pull("pull")
    scale = 0.001 / math.sqrt(2) / 2  # beta |A| / G, A of one right of two
    formula_SA = scale / update["z"] * _mass_gradient(update["pi"], update["anchor"])
    error = float((update["pull"] - formula_SA).abs().max() / formula_SA.abs().max())
    lowered = (update["pull"].gather(1, update["error"][:, None]) < 0)[:, 0].numpy()
    return [
        check.exact("largest relative difference from the formula", error, below=IDENTITY),
        check.share("updates whose pull lowers the error too", lowered, above=0.98),
    ]


def collinear() -> list[Check]:
    """The pull is collinear with the gradient of Eq. 5's coverage (APO, Proposition B.1)."""
    update = _pull("collinear")
    safe_SA = (torch.arange(ACTIONS) < 3).double().expand_as(update["pi"])
    cosine_S = torch.cosine_similarity(update["pull"], _mass_gradient(update["pi"], safe_SA))
    inside_S = update["error"] < 3
    return [
        check.share(f"cosine above 0.999, error {where} the manifold",
                    (cosine_S[rows_S] > 0.999).numpy(), above=0.9)
        for where, rows_S in (("outside", ~inside_S), ("inside", inside_S))
    ]  # fmt: skip


def persistent_pull() -> list[Check]:
    """The pull on a suppressed action does not vanish with it (APO, B.3)."""

    def strength(suppressed: float) -> float:
        update = _pull("persistent", suppressed)
        return float(update["pull"][update["error"] != 0, 0].mean())

    ratio = strength(1e-6) / strength(1e-2)
    return [check.exact("pull at a probability of 1e-6 over that at 1e-2", ratio, above=0.1)]


def expected_signs() -> list[Check]:
    """E dz >= 0 for the best action and < 0 for the worst (two-stage, C.4)."""
    pi_SA = random_logits("signs").softmax(-1)
    reward_A = torch.tensor(REWARDS, dtype=torch.float64)
    expected_SA = pi_SA * (reward_A - pi_SA @ reward_A[:, None])
    best, worst = int(reward_A.argmax()), int(reward_A.argmin())
    return [
        check.share(
            "policies whose best action gains", (expected_SA[:, best] >= 0).numpy(), above=0.99
        ),
        check.share(
            "policies whose worst action loses", (expected_SA[:, worst] < 0).numpy(), above=0.99
        ),
    ]


def clipped_updates() -> list[Check]:
    """No APO update leaves the clip's range: it is "mathematically impossible" (APO, B.4)."""
    logits_SA = random_logits("clip", spread=1.0)
    settings = Settings("apo:k=3", 8, 2.0, 1, epochs=4)
    reference = (0.4, 0.25, 0.15, 0.1, 0.06, 0.04)
    change_SA, action_SG = updated(settings, REWARDS, logits_SA, "clip", reference)
    after_SA = (logits_SA + change_SA).log_softmax(-1) - logits_SA.log_softmax(-1)
    ratio_SG = after_SA.gather(1, action_SG).exp()
    outside_S = ((ratio_SG - 1).abs() > 0.2).any(1).numpy()
    return [check.share("updates with a ratio outside 0.8 to 1.2", outside_S, below=0.01)]


def identities(seeds: int) -> dict[str, list[Check]]:
    """Every check, by what it is about."""
    return {
        "Lemma 1 (two-stage)": lemma_1(),
        "Theorem 1 (two-stage), RLOO": theorem_1("rloo", 2, 1.0) + theorem_1("rloo", 8, 1.0),
        "Theorem 1 (two-stage), its own advantage": theorem_1("dr-grpo", 2, 1.0)
        + theorem_1("dr-grpo", 8, 1.0),
        "Theorem 1 times (G - 1) / G": theorem_1("dr-grpo", 2, 1 / 2)
        + theorem_1("dr-grpo", 8, 7 / 8),
        "best and worst action (two-stage, C.4)": expected_signs(),
        "passive suppression (APO, B.2)": passive_suppression(),
        "squeezing (APO, eq. 2 and B.3)": squeezing(),
        "pull of the anchor (APO, eq. 20)": pull_identity(),
        "collinear with coverage (APO, B.1)": collinear(),
        "persistent recovery (APO, B.3)": persistent_pull(),
        "clipped updates (APO, B.4)": clipped_updates(),
        "elastic recovery (APO, sec. 4)": recovery.checks(seeds),
    }
