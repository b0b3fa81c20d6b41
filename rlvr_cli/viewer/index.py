"""Rollouts for reading: small columns of all rows in memory, texts read when they are shown.

Shapes: N completions.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rlvr_cli.errors import DataError
from rlvr_cli.storage.lineage import Lineage
from rlvr_cli.storage.shards import Shards

RIGHT, WRONG, UNKNOWN = 1, 0, -1
VERDICTS = {"right": RIGHT, "wrong": WRONG, "no verdict": UNKNOWN}


@dataclass(frozen=True)
class RowFilter:
    """Which completions to show; None and "" let all pass."""

    verdict: str | None = None  # a key of VERDICTS
    truncated: bool | None = None
    status: str | None = None
    text: str = ""

    def words(self) -> list[str]:
        """What it lets pass, in words."""
        cut = {None: None, True: "truncated", False: "not truncated"}[self.truncated]
        status = self.status and f"status {self.status}"
        text = f"“{self.text}”" if self.text else None
        return [word for word in (self.verdict, cut, status, text) if word]


@dataclass(frozen=True)
class Detail:
    """All that is known of one completion; None where nothing is."""

    prompt_id: str
    sample: int
    messages: str | None
    answer: str | None
    completion: str
    token_ids: list[int] | None
    finish_reason: str | None
    status: str
    verdict: int
    reward: float | None
    extracted: str | None
    reason: str | None
    advantage: float | None
    values: dict[str, np.ndarray] = field(repr=False)  # of each token: log-prob, entropy


class Index:
    """The completions of a lineage, by row."""

    def __init__(self, lineage: Lineage) -> None:
        self.lineage = lineage
        rollouts, scores = lineage.rollouts, lineage.scores
        if not rollouts.rows:
            raise DataError(f"`{rollouts.path}` holds no rows", "look at the command that wrote it")
        tables = [self._columns(index) for index in range(len(rollouts))]
        table = pa.concat_tables(tables).combine_chunks()
        self.prompt_id: list[str] = table["prompt_id"].to_pylist()
        self.sample_N = table["sample_index"].to_numpy()
        cut = pc.equal(table["finish_reason"], "length")
        self.cut_N = pc.fill_null(cut, False).to_numpy()
        self.status: list[str] = table["status"].to_pylist()
        self.extracted = table["extracted"]
        verdict = pc.fill_null(table["correct"].cast(pa.int8()), UNKNOWN)
        self.verdict_N = verdict.to_numpy()
        self._starts = np.cumsum([0, *(len(part) for part in tables)])
        self.prompts = list(dict.fromkeys(self.prompt_id))
        self.rows_of: dict[str, list[int]] = {prompt_id: [] for prompt_id in self.prompts}
        for row, prompt_id in enumerate(self.prompt_id):
            self.rows_of[prompt_id].append(row)
        self.has_scores = scores is not None
        self.statuses = sorted(set(self.status))
        self._matching: dict[str, np.ndarray] = {}
        self._shards = {
            "rollouts": rollouts,
            "scores": scores,
            "advantages": lineage.advantages,
            "logprobs": lineage.logprobs,
        }
        self._part = functools.lru_cache(maxsize=8)(self._read)

    def _read(self, kind: str, index: int) -> pa.Table:
        shards = self._shards[kind]
        assert shards is not None
        return shards.part(index)

    def __len__(self) -> int:
        return len(self.prompt_id)

    def _columns(self, index: int) -> pa.Table:
        """The small columns of one part; of completions without scores the verdict is null."""
        names = ["prompt_id", "sample_index", "finish_reason", "status"]
        table = self.lineage.rollouts.part(index, names)
        if self.lineage.scores is None:
            rows = len(table)
            table = table.append_column("correct", pa.nulls(rows, pa.bool_()))
            return table.append_column("extracted", pa.nulls(rows, pa.large_string()))
        scored = self.lineage.scores.part(index, [*names[:2], "status", "correct", "extracted"])
        _require_alike(table, scored, self.lineage.scores, index)
        place = table.schema.get_field_index("status")
        table = table.set_column(place, "status", scored["status"])
        for name in ("correct", "extracted"):
            table = table.append_column(name, scored[name])
        return table

    def passing(self, wanted: RowFilter) -> np.ndarray:
        """Whether each row passes [N]."""
        pass_N = np.ones(len(self), dtype=bool)
        if wanted.verdict:
            pass_N &= self.verdict_N == VERDICTS[wanted.verdict]
        if wanted.truncated is not None:
            pass_N &= self.cut_N == wanted.truncated
        if wanted.status:
            pass_N &= np.array(self.status) == wanted.status
        if wanted.text:
            pass_N &= self._holding(wanted.text)
        return pass_N

    def _holding(self, text: str) -> np.ndarray:
        """Rows with a text, ignoring case, in completion, prompt, gold, or extracted answer."""
        if text not in self._matching:
            parts = [
                _matches(self.lineage.rollouts.part(index, ["completion"])["completion"], text)
                for index in range(len(self.lineage.rollouts))
            ]
            match_N = np.concatenate(parts) | _matches(self.extracted, text)
            asked = (" ".join((p, *filter(None, self._prompt(p)))) for p in self.prompts)
            folded = text.casefold()
            prompts = {
                p for p, a in zip(self.prompts, asked, strict=True) if folded in a.casefold()
            }
            match_N |= np.array([prompt_id in prompts for prompt_id in self.prompt_id])
            self._matching = {text: match_N}
        return self._matching[text]

    def detail(self, row: int) -> Detail:
        """The completion of a row; its part is read if it is not cached."""
        index = int(np.searchsorted(self._starts, row, side="right")) - 1
        at = row - int(self._starts[index])
        rollout, score, advantage, logprob = (
            {} if shards is None else self._part(kind, index).slice(at, 1).to_pylist()[0]
            for kind, shards in self._shards.items()
        )
        messages, answer = self._prompt(rollout["prompt_id"])
        values = {
            "log-prob": logprob.get("old_logp") or rollout["behaviour_logp"],
            "entropy": logprob.get("entropy"),
        }
        return Detail(
            rollout["prompt_id"], rollout["sample_index"], messages, answer,
            rollout["completion"], rollout["token_ids"], rollout["finish_reason"],
            score.get("status", rollout["status"]), int(self.verdict_N[row]),
            score.get("reward"), score.get("extracted"), score.get("reason"),
            advantage.get("advantage"),
            {name: np.array(v, dtype=np.float64) for name, v in values.items() if v is not None},
        )  # fmt: skip

    def _prompt(self, prompt_id: str) -> tuple[str | None, str | None]:
        return self._prompts.get(prompt_id, (None, None))

    @functools.cached_property
    def _prompts(self) -> dict[str, tuple[str, str | None]]:
        texts: dict[str, tuple[str, str | None]] = {}
        names = ["prompt_id", "messages", "answer"]
        prompts = self.lineage.prompts
        for index in range(len(prompts)) if prompts else ():
            assert prompts
            columns = [c.to_pylist() for c in prompts.part(index, names).columns]
            texts.update({p: (m, a) for p, m, a in zip(*columns, strict=True)})
        return texts


def _matches(column: pa.ChunkedArray, text: str) -> np.ndarray:
    matching = pc.match_substring(column, text, ignore_case=True)
    match_N: np.ndarray = pc.fill_null(matching, False).to_numpy()
    return match_N


def _require_alike(a: pa.Table, b: pa.Table, shards: Shards, index: int) -> None:
    key: Sequence[str] = ("prompt_id", "sample_index")
    if not a.select(key).combine_chunks().equals(b.select(key).combine_chunks()):
        raise DataError(
            f"part {index} of `{shards.path}` has other rows than the rollouts",
            "compute the newer of the two again",
        )
