"""The advantages that an objective's estimator gives to every possible group, computed once each.

Shapes: S seeds, A actions, L levels of reward, N completions of a batch.
"""

import torch
from torch import Tensor

from rlvr_cli.algorithms.objective import ADVANTAGE, KEEP, Objective, Step, advantages
from rlvr_cli.errors import UsageError

_LARGEST = 10**7


class AdvantageTable:
    """The advantages of groups, each a rollout batch of its own.

    Estimators see only rewards, and an action's reward is fixed: completions of equal reward
    have equal advantages, and a group is its counts of each level of reward. So many seeds
    share few groups, and statistics over the batch, as in REINFORCE++, stay within a seed.
    """

    def __init__(self, objective: Objective, reward_A: Tensor, group_size: int) -> None:
        self._objective, self._size = objective, group_size
        self._reward_L, self._level_A = torch.unique(reward_A, return_inverse=True)
        levels = len(self._reward_L)
        if (group_size + 1) ** (levels - 1) > _LARGEST:
            raise UsageError(
                f"groups of {group_size} with {levels} levels of reward are too many to list",
                "choose a smaller group",
            )
        self._level_AL = torch.nn.functional.one_hot(self._level_A, levels)
        self._radix_L = (group_size + 1) ** torch.arange(levels)
        self._radix_L[-1] = 0  # the other counts decide it
        self._row_of = torch.full(((group_size + 1) ** (levels - 1),), -1)
        self._columns: dict[str, Tensor] = {}  # [rows, A]

    def __call__(self, count_SA: Tensor) -> dict[str, Tensor]:
        """The columns of `objective.advantages` that a loss reads, of each action, [S, A].

        An action that a group does not contain has those of another.
        """
        count_SL = count_SA @ self._level_AL
        code_S = count_SL @ self._radix_L
        row_S = self._row_of[code_S]
        if bool((row_S < 0).any()):
            for code in torch.unique(code_S[row_S < 0]).tolist():
                self._add(code, count_SL[(code_S == code).nonzero()[0, 0]])
            row_S = self._row_of[code_S]
        return {name: value[row_S] for name, value in self._columns.items()}

    def _add(self, code: int, counts_L: Tensor) -> None:
        """Computes the advantages of the group with these counts of each level of reward."""
        level_N = torch.repeat_interleave(torch.arange(len(counts_L)), counts_L)
        reward_N = self._reward_L[level_N]
        columns = advantages(
            self._objective,
            Step(
                reward_N=reward_N,
                present_N=torch.ones_like(level_N, dtype=torch.bool),
                correct_N=reward_N > 0,
                group_N=torch.zeros_like(level_N),
                length_N=torch.ones_like(level_N),
                max_length=1,
            ),
        )
        first_L = (counts_L.cumsum(0) - counts_L).clamp(max=self._size - 1)
        self._row_of[code] = len(next(iter(self._columns.values()))) if self._columns else 0
        for name in (ADVANTAGE, KEEP, *self._objective.columns):
            row_1A = columns[name][first_L[self._level_A]][None]
            old = self._columns.get(name)
            self._columns[name] = row_1A if old is None else torch.cat([old, row_1A])
