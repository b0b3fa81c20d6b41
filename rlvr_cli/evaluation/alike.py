"""What two sides have in common other than their prompts: completions, or their noise.

Two policies that are sampled with one seed draw each completion with the same random numbers, so
that completions differ where the policies do. Verdicts of the same completions differ where the
verifiers do. A paired difference then holds less noise than one of sides without anything shared.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rlvr_cli.errors import DataError
from rlvr_cli.evaluation.conditions import SAMPLING
from rlvr_cli.stages import common
from rlvr_cli.storage.shards import Shards

_NOISE = (*SAMPLING, "seed", "step", "engine")


@dataclass(frozen=True)
class Alike:
    """How many of the completions of two sides are the same, and how many of those verdicts.

    `first_alone` and `second_alone` count the same completions that one side alone calls right.
    """

    completions: int
    same: int
    first_alone: int
    second_alone: int

    def described(self, names: tuple[str, str]) -> str:
        one, other = names
        text = f"{self.same} of {self.completions} completions are the same in both"
        if not self.first_alone + self.second_alone:
            return f"{text}, with the same verdicts"
        return (
            f"{text}: only {one} calls {self.first_alone} of them right, only {other} "
            f"{self.second_alone}"
        )

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def of(first: Shards | None, second: Shards | None) -> Alike | None:
    """What two scores directories share; None unless they are of the same completions or noise."""
    if first is None or second is None:
        return None
    try:
        rollouts = [scores.parent("rollouts") for scores in (first, second)]
    except (DataError, LookupError):
        return None
    a, b = rollouts
    is_same = a.digest == b.digest
    if not (is_same or _share_noise(a, b)):
        return None
    total = same = first_alone = second_alone = 0
    for index in range(len(a)):
        right_N, other_N = (_right(scores, index) for scores in (first, second))
        equal_N = np.ones(len(right_N), bool) if is_same else _equal(a, b, index)
        total, same = total + len(equal_N), same + int(equal_N.sum())
        first_alone += int((equal_N & right_N & ~other_N).sum())
        second_alone += int((equal_N & other_N & ~right_N).sum())
    return Alike(total, same, first_alone, second_alone)


def _share_noise(a: Shards, b: Shards) -> bool:
    """Whether each completion of both was drawn with the same random numbers."""
    if a.manifest["stage"] != "rollout" or b.manifest["stage"] != "rollout":
        return False
    noises = [[shards.manifest["params"].get(name) for name in _NOISE] for shards in (a, b)]
    return noises[0] == noises[1] and _keys(a) == _keys(b)


def _keys(shards: Shards) -> list[pa.Table]:
    return [shards.part(index, common.KEY) for index in range(len(shards))]


def _right(scores: Shards, index: int) -> np.ndarray:
    """Which rows of a part are right, [N]; those without a verdict are not."""
    right_N: np.ndarray = pc.fill_null(scores.part(index, ["correct"])["correct"], False).to_numpy()
    return right_N


def _equal(a: Shards, b: Shards, index: int) -> np.ndarray:
    """Which completions of a part are the same in both, token by token, [N]."""
    one, other = (shards.part(index, ["token_ids"])["token_ids"].to_pylist() for shards in (a, b))
    return np.array([x == y for x, y in zip(one, other, strict=True)], bool)
