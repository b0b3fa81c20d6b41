"""Completions for reading: small columns of all of them in memory, texts read when shown.

Shapes: N completions, P prompts.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np

from rlvr_cli.storage.images import Image

RIGHT, WRONG, UNKNOWN = 1, 0, -1


@dataclass(frozen=True)
class Columns:
    """What is known of every completion, in the order of the rows."""

    prompt_N: np.ndarray  # which prompt it answers
    sample_N: np.ndarray
    verdict_N: np.ndarray  # RIGHT, WRONG or UNKNOWN
    reward_N: np.ndarray  # NaN where there is none
    cut_N: np.ndarray
    status_N: np.ndarray  # its place among the statuses


@dataclass(frozen=True)
class Detail:
    """All that is known about one completion; unknown fields are None."""

    sample: int
    turns: list[tuple[str, str]] | None  # role and text of the prompt's messages
    answer: str | None
    completion: str | None
    token_ids: list[int] | None
    finish_reason: str | None
    status: str | None
    verdict: int
    reward: float | None
    extracted: str | None
    reason: str | None
    advantage: float | None
    values: dict[str, np.ndarray] = field(repr=False)  # of each token: log-prob, entropy
    others: dict[str, str] = field(default_factory=dict)  # further columns of a file
    images: tuple[Image, ...] = ()  # of the prompt


class Index(ABC):
    """Completions by row, and the rows and figures of each prompt."""

    unit = "characters"  # of a length

    def __init__(
        self,
        columns: Columns,
        ids: list[str],
        statuses: list[str],
        sources: list[str | None] | None = None,
    ) -> None:
        self.ids, self.statuses = ids, statuses
        self._sources = sources
        self.prompt_N, self.sample_N = columns.prompt_N, columns.sample_N
        self.verdict_N, self.cut_N = columns.verdict_N, columns.cut_N
        self.status_N = columns.status_N
        self._order_N = np.argsort(self.prompt_N, kind="stable")
        self.n_P = self._counted(np.ones(len(self), dtype=bool))
        self._ends_P = np.cumsum(self.n_P)
        self.right_P = self._counted(self.verdict_N == RIGHT)
        self.known_P = self._counted(self.verdict_N != UNKNOWN)
        self.cut_P = self._counted(self.cut_N) / self.n_P
        rewarded_N = ~np.isnan(columns.reward_N)
        with np.errstate(invalid="ignore"):
            rewards_P = np.bincount(
                self.prompt_N[rewarded_N], columns.reward_N[rewarded_N], minlength=len(ids)
            )
            self.reward_P = rewards_P / self._counted(rewarded_N)
            share_P = self.right_P / self.known_P
        self.rate_P = np.where(self.known_P > 0, share_P, self.reward_P)

    def __len__(self) -> int:
        return len(self.prompt_N)

    def _counted(self, which_N: np.ndarray) -> np.ndarray:
        return np.bincount(self.prompt_N[which_N], minlength=len(self.ids))

    def rows_of(self, prompt: int) -> np.ndarray:
        """The rows of a prompt, in order."""
        end = int(self._ends_P[prompt])
        return self._order_N[end - int(self.n_P[prompt]) : end]

    @property
    def needs_sources(self) -> bool:
        """Whether an id without its source is ambiguous."""
        return len(set(self.ids)) < len(self.ids)

    def names(self, *, with_sources: bool) -> list[str]:
        """Each prompt's name: its id, after its source if that is wanted."""
        if not with_sources or self._sources is None:
            return self.ids
        return [f"{s}/{i}" if s else i for s, i in zip(self._sources, self.ids, strict=True)]

    @property
    @abstractmethod
    def length_N(self) -> np.ndarray:
        """The length of each completion, in `unit`."""

    @abstractmethod
    def asked(self, prompt: int) -> tuple[int | None, int | None]:
        """Hashes of a prompt's text and of its gold; None where it has none."""

    def several(self, prompt: int) -> bool:
        """Whether the rows of one id differ in their prompt or gold."""
        return False

    @abstractmethod
    def detail(self, row: int) -> Detail:
        """The completion of a row."""

    @abstractmethod
    def holding(self, text: str) -> np.ndarray:
        """Rows with a text, in either case, in completion, prompt, gold or extracted answer [N]."""
