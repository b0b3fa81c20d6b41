"""The divergence of a completion from the reference policy, for estimators that charge it."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from rlvr_cli.algorithms.objective import COMPLETION_KL, Objective
from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.stages import common
from rlvr_cli.storage.manifest import digests
from rlvr_cli.storage.shards import Shards

_COLUMNS = ("old_logp", "ref_logp")


def logprobs(
    objective: Objective, scores: Shards, rollouts: Shards, given: Path | None
) -> Shards | None:
    """The log-probs that the estimator needs, `given` or next to the scores; None if it needs none.

    An error where they are not there, lack a column, or are of other rollouts.
    """
    if COMPLETION_KL not in objective.needs:
        if given:
            raise UsageError("--logprobs says nothing to this estimator", "leave it out")
        return None
    shards = common.logprobs_of(scores, given)
    columns = [set(one.manifest["only"] or ()) for one in shards.inputs] if shards else [set()]
    if missing := [name for name in _COLUMNS if not all(name in one for one in columns)]:
        elsewhere = " --out more-logprobs`, then name that with --logprobs" if shards else "`"
        raise DataError(
            f"kl-in-reward needs {' and '.join(missing)} of `{rollouts.path}`, which no logprobs "
            "directory here has",
            f"make it with `{_command(rollouts)}{elsewhere}",
        )
    assert shards
    parents = [name for one in shards.inputs for name in digests(one.manifest, "rollouts")]
    if parents != [one.digest for one in rollouts.inputs]:
        raise DataError(
            f"`{shards.path}` was made from other rollouts than `{rollouts.path}`",
            "make it again with `rlvr logprob`, or name the right one with --logprobs",
        )
    return shards


def _command(rollouts: Shards) -> str:
    return f"rlvr logprob {rollouts.as_argument} --columns {','.join(_COLUMNS)} --ref-model MODEL"


def sums(known: Shards, rollouts: Shards) -> np.ndarray:
    """Of each completion the sum over its tokens of log pi_old - log pi_ref, in nats, [N]."""
    parts = [np.empty(0)]
    for index in range(len(known)):
        only = (*_COLUMNS, "token_ids")
        table = pa.table(common.zip_columns(index, rollouts, known, only=only))
        for name in _COLUMNS:
            again = "make it again with `rlvr logprob`"
            common.require_logps(table, name, f"`{known.path}`", again)
        old_N, ref_N = (common.arrays(table[name]) for name in _COLUMNS)
        gaps = (o.astype(np.float64) - r for o, r in zip(old_N, ref_N, strict=True))
        parts.append(np.array([gap.sum() for gap in gaps]))
    return np.concatenate(parts)
