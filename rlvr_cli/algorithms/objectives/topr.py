"""TOPR: errors count less as the policy leaves them, successes in full (arXiv:2503.14286, eq. 8).

Elsewhere: ROLL, Trinity-RFT, a recipe for verl, each with another ratio.
Use: Samples of an older policy, as with `--async --old-logprobs rollout`; many updates per batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rlvr_cli.algorithms.objective import Objective, Step
from rlvr_cli.algorithms.terms import advantage as advantages, ratio as ratios, surrogate, weight

if TYPE_CHECKING:
    from torch import Tensor


def build(
    *,
    ratio: Literal["sequence", "length-normalized", "token"] = "sequence",
    advantage: Literal["signed", "group-norm"] = "signed",
    baseline: float = 0.0,
    aggregation: weight.Aggregation = "seq-mean-token-mean",
    eps: float = 1e-6,
    ddof: advantages.Ddof = 1,
) -> Objective:
    """Each completion's mean of w A log pi, then the mean over completions.

        L = -1/N sum_i 1/|o_i| sum_t w_i A_i log pi(y_it)
        w = 1 if A_i > 0, sg(min(exp(sum_t d_it), 1)) if A_i < 0
        A_i = 1 - baseline if the completion is correct, else -1 - baseline

    The paper's rewards are 1 and -1, which the verdict gives here: by a reward of 0 an error would
    teach nothing. A `baseline` above 0 gives errors more weight, one below 0 less (sec. 4.3). With
    `advantage=group-norm` A_i is (R_i - mean R) / (std R + eps). `ratio=length-normalized` and
    `ratio=token` have exp(mean_t d_it) and exp d_it in w. The paper's ratio is to the
    policy that sampled: `--old-logprobs rollout`.
    """
    if not -1 < baseline < 1:
        raise ValueError("baseline must be between -1 and 1; psr and nsr leave out one side")
    if advantage == "group-norm" and baseline:
        raise ValueError("a group's mean is the baseline of group-norm: leave baseline at 0")

    def signed(step: Step) -> dict[str, Tensor]:
        positive, negative = 1 - baseline, -1 - baseline
        return {
            "advantage": advantages.signed(step.correct_N, positive=positive, negative=negative)
        }

    relative = advantages.normed(eps=eps, ddof=ddof)
    span = ratios.BY_NAME[ratio]
    is_signed = advantage == "signed"
    return Objective(
        advantage=signed if is_signed else relative,
        log_ratio=lambda batch: span(batch.logp_BT, batch.old_logp_BT, batch.mask_BT),
        surrogate=lambda batch, log_ratio_BT: surrogate.tapered(
            log_ratio_BT, batch.logp_BT, batch.advantage_BT
        ),
        weight=weight.BY_NAME[aggregation],
        ratio="token" if ratio == "token" else "sequence",
        needs=frozenset({"correct"} if is_signed else ()),
        group_relative=not is_signed,
    )
