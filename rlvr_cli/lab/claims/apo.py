"""APO (Anchored Policy Optimization)."""

from rlvr_cli.lab import recovery, squeeze
from rlvr_cli.lab.check import Check
from rlvr_cli.lab.ledger import RATES, Claim, Lab, paired

KL = "grpo+kl:beta=0.01"


def loses_coverage(lab: Lab) -> list[Check]:
    checks = []
    for name in ("pass@16", "pass@64 of 256"):
        ends = [lab.language("grpo", name, at_start=when) for when in (False, True)]
        checks += paired(f"{name}, after less before, points", ends, [1, -1], below=0.0)
    return checks


def default_is_best(lab: Lab, other: str) -> list[Check]:
    return [
        *lab.better("pass@1, points", "apo", other, "pass@1"),
        *lab.better("pass@16, points", "apo", other, "pass@16"),
    ]


CLAIMS = [
    Claim("A1", "eq. 2, Proposition B.3", "A penalised error's mass goes to the others in "
          "proportion to what they have, most to the likeliest", "one small update of 4,000 random "
          "policies by NSR", lambda lab: squeeze.squeezing()[:2]),
    Claim("A2", "Proposition B.3", "A penalised error lifts even the least likely alternative, if "
          "little", "share of 4,000 random policies", lambda lab: squeeze.squeezing()[2:],
          "Only its logit rises. Its probability falls as soon as sum pi^2 exceeds pi_k + pi_err: "
          "the dominant action takes from it. The effect is stronger than the paper says "
          "(errata, P12)."),
    Claim("A3", "Proposition B.2", "A reward strictly lowers every action that was not sampled",
          "one small update of 4,000 random policies: logits, probabilities",
          lambda lab: squeeze.passive_suppression(),
          "That is true for logits. A rare alternative's probability rises if the dominant "
          "action's falls by more (errata, P11)."),
    Claim("A4", "eq. 20", "The gradient of the safe mass is pi_k (1 - P_S)",
          "APO's update less that without anchor", lambda lab: squeeze.pull_identity()[:1]),
    Claim("A5", "D.1", "Without the error in the anchor set, the pull lowers the error too",
          "share of updates", lambda lab: squeeze.pull_identity()[1:]),
    Claim("A6", "Proposition B.1", "The pull is collinear with the gradient of coverage (eq. 5)",
          "cosine of 4,000 random policies' updates", lambda lab: squeeze.collinear(),
          "Only if the error is outside the manifold: eq. 5 includes the error, the anchor set "
          "excludes it (errata, P5)."),
    Claim("A7", "B.3", "The pull on a suppressed alternative does not vanish",
          "strength at pi = 1e-6 over that at 1e-2", lambda lab: squeeze.persistent_pull(),
          "It is proportional to pi_k, like the plain gradient (errata, P6)."),
    Claim("A8", "B.4", "An APO update cannot leave the clip's range",
          "share of 4,000 policies with a ratio outside 0.8 to 1.2 after four epochs at rate 2",
          lambda lab: squeeze.clipped_updates(),
          "A clip removes a gradient; it does not bound a step (errata, P4). The claim is about "
          "all updates, so one rate is enough to refute it."),
    Claim("A9", "sec. 4, B.3", "Elastic recovery: with the anchor a collapsed policy finds back",
          "five actions, start collapsed on an error, mean reward over 300 steps; APO less GRPO, "
          "NSR with anchor less NSR", lambda lab: recovery.checks(lab.seeds, RATES),
          "At rates 0.01 and 0.1 no policy recovers within 300 steps."),
    Claim("A10", "Table 2", "APO beats GRPO in Pass@1 and Pass@K", "built-in task, 20 steps",
          lambda lab: default_is_best(lab, "grpo")),
    Claim("A11", "Table 3", "APO keeps more entropy than GRPO", "built-in task, 20 steps",
          lambda lab: lab.better("entropy, nats", "apo", "grpo", "entropy")),
    Claim("A12", "sec. 6.1, Table 5", "K = 8 is better than K = 4", "built-in task, 20 steps",
          lambda lab: default_is_best(lab, "apo:k=4")),
    Claim("A13", "sec. 6.1, Table 5", "beta = 0.1 is better than no anchor", "built-in task, 20 "
          "steps", lambda lab: default_is_best(lab, "apo:beta=0")),
    Claim("A14", "sec. 6.1, Table 5", "lambda = 1.05 is better than 1", "built-in task, 20 steps",
          lambda lab: default_is_best(lab, "apo:lam=1")),
    Claim("A15", "Table 2", "A KL penalty of 0.01 costs GRPO Pass@1", "built-in task, 20 steps",
          lambda lab: lab.better("pass@1, points", KL, "grpo", "pass@1", above=-float("inf"),
                                 below=0.0)),
    Claim("A16", "Table 2", "GRPO loses Pass@K against the base policy", "built-in task, 20 steps",
          loses_coverage),
    Claim("A17", "sec. 5.2", "NSR's Pass@1 is GRPO's, its Pass@K higher", "built-in task; Pass@1 "
          "within 2 points", lambda lab: lab.better("pass@1, points", "nsr", "grpo", "pass@1",
                                                    above=-2.0, below=2.0)
          + lab.better("pass@16, points", "nsr", "grpo", "pass@16")),
    Claim("A18", "sec. 5.2", "A KL penalty on errors alone is better than one on all", "-", None,
          "Not run: the budget was spent on the ablations of K, beta and lambda."),
    Claim("A19", "Table 1", "The reference policy's top 8 hold 97% of ground-truth tokens", "-",
          None, "The built-in task has dozens of right answers and no ground-truth text."),
]  # fmt: skip
