"""What the rewards and completions of a step must satisfy before they give advantages."""

from __future__ import annotations

import shlex

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rlvr_cli.algorithms import group_stats
from rlvr_cli.algorithms.objective import Objective, Step
from rlvr_cli.algorithms.terms import weight
from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.runtime.later import torch
from rlvr_cli.stages import common
from rlvr_cli.storage.shards import Shards


def require_longest(objective: Objective, sampled: Shards) -> int:
    """The longest completion that sampling allows, in tokens; 0 where that is unknown.

    An error where the objective needs it: the longest row at hand would be another number.
    """
    limits = {one.params.get("max_new_tokens") or 0 for one in sampled.inputs}
    longest: int = objective.longest or (limits.pop() if len(limits) == 1 else 0)
    is_constant = objective.weight is weight.constant
    if not longest and (is_constant or objective.longer_than):
        name = "dr-grpo" if is_constant else "overlong"
        says = "say different things of" if len(sampled.inputs) > 1 else "does not say"
        raise UsageError(
            f"`{sampled.path}` {says} how long a completion could be, which "
            f"{'the constant length' if is_constant else 'overlong'} is relative to",
            f"say it in tokens, as in `{name}:longest=4096`"
            + (
                ", or use another aggregation, as in `dppo-tv:aggregation=token-mean`"
                if is_constant
                else ""
            ),
        )
    return longest


def check_length(objective: Objective, longest: int) -> None:
    """Refuses a length penalty that would charge every completion that sampling allows."""
    if longest <= objective.longer_than:
        raise UsageError(
            f"overlong's buffer of {objective.longer_than} tokens is not below the longest "
            f"completion of {longest}",
            f"use overlong:buffer={max(longest // 5, 1)}",
        )


def require_one_prompt(rollouts: Shards) -> None:
    """An error where no completions could be merged, or an id is two prompts in two inputs."""
    if len(rollouts.inputs) == 1:
        raise UsageError(
            f"--merge is for several inputs, and there is one, `{rollouts.path}`", "leave it out"
        )
    rollouts.parent("prompts")


def truncated(
    columns: dict[str, pa.ChunkedArray], present_N: np.ndarray, rollouts: Shards
) -> torch.Tensor:
    """Whether each completion was cut before its end; an error where a trained one's is unknown."""
    reason = columns["finish_reason"]
    unknown_N = present_N & pc.is_null(reason).to_numpy()
    if unknown_N.any():
        row = int(unknown_N.argmax())
        prompt_id, sample = (columns[name][row].as_py() for name in common.KEY)
        raise DataError(
            f"`{rollouts.path}` does not say why sample {sample} of prompt `{prompt_id}` ended, "
            "which mask-truncated asks",
            "leave mask-truncated out, or import the completions with their finish reasons",
        )
    return torch.from_numpy(pc.fill_null(pc.not_equal(reason, "stop"), False).to_numpy())


def require_correct(
    columns: dict[str, pa.ChunkedArray], present_N: np.ndarray, scores: Shards
) -> None:
    """An error where a trained completion has a reward and no verdict."""
    unknown_N = present_N & pc.is_null(columns["correct"]).to_numpy()
    if unknown_N.any():
        row = int(unknown_N.argmax())
        prompt_id, sample = (columns[name][row].as_py() for name in common.KEY)
        path = scores.parent("rollouts").as_argument
        raise DataError(
            f"`{scores.path}` has a reward but no verdict `correct` for sample {sample} of prompt "
            f"`{prompt_id}`, which this objective needs",
            f"score it with a verifier: `rlvr score {shlex.quote(str(path))} --verifier V`",
        )


def check_rewards(
    objective: Objective,
    step: Step,
    prompt_ids: pa.ChunkedArray,
    scores: Shards,
    allow_singletons: bool,
) -> None:
    """An error where a reward is not finite or too low, or a group is too small."""
    if not bool(torch.isfinite(step.reward_N).all()):
        row = int((~torch.isfinite(step.reward_N)).nonzero()[0])
        raise DataError(
            f"`{scores.path}` holds the reward {float(step.reward_N[row])} for prompt "
            f"`{prompt_ids[row]}`",
            "a reward must be finite; fix the verifier and score again",
        )
    low_N = step.present_N & (step.reward_N < objective.least_reward)
    if bool(low_N.any()):
        row = int(low_N.nonzero()[0])
        raise DataError(
            f"`{scores.path}` holds the reward {float(step.reward_N[row]):g} for prompt "
            f"`{prompt_ids[row]}`, and this objective divides by the mean reward of a prompt",
            "use a verifier whose rewards are at 0 or above, or another objective, as in "
            "`--algo rloo`",
        )
    size_N = group_stats.total(torch.ones_like(step.group_N), step.group_N)
    least = objective.least_group
    small_N = step.present_N & (size_N < least)
    if objective.group_relative and not allow_singletons and bool(small_N.any()):
        row = int(small_N.nonzero()[0])
        one = least == 2
        raise DataError(
            f"prompt `{prompt_ids[row].as_py()}` has {'one' if one else int(size_N[row])} "
            f"completion{'' if size_N[row] == 1 else 's'}, its group needs "
            f"{'two' if one else least}",
            "sample more with `rlvr rollout -n`, or give it advantage 0 with --allow-singletons",
        )
