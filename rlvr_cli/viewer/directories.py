"""Rollouts, and what was computed from them, for reading: parts are read when they are shown."""

import functools
import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rlvr_cli.errors import DataError, UserError
from rlvr_cli.interop.turns import fingerprint, turns
from rlvr_cli.storage.images import Images
from rlvr_cli.storage.lineage import Lineage
from rlvr_cli.storage.shards import Shards
from rlvr_cli.viewer.index import UNKNOWN, Columns, Detail, Index

_KEY: Sequence[str] = ("prompt_id", "sample_index")


class DirectoryIndex(Index):
    """The completions of a lineage, by row."""

    def __init__(self, lineage: Lineage) -> None:
        self.lineage = lineage
        rollouts, scores = lineage.rollouts, lineage.scores
        if not rollouts.rows:
            raise DataError(f"`{rollouts.path}` holds no rows", "look at the command that wrote it")
        tables = [self._columns(index) for index in range(len(rollouts))]
        table = pa.concat_tables(tables).combine_chunks()
        prompts = table["prompt_id"].combine_chunks().dictionary_encode()
        status = table["status"].combine_chunks().dictionary_encode()
        statuses = sorted(status.dictionary.to_pylist())
        places = np.array([statuses.index(name) for name in status.dictionary.to_pylist()])
        self._extracted = table["extracted"]
        super().__init__(
            Columns(
                prompts.indices.to_numpy(),
                table["sample_index"].to_numpy(),
                pc.fill_null(table["correct"].cast(pa.int8()), UNKNOWN).to_numpy(),
                pc.fill_null(table["reward"].cast(pa.float64()), np.nan).to_numpy(),
                pc.fill_null(pc.equal(table["finish_reason"], "length"), False).to_numpy(),
                places[status.indices.to_numpy()],
            ),
            prompts.dictionary.to_pylist(),
            statuses,
        )
        self._starts = np.cumsum([0, *(len(part) for part in tables)])
        self._matching: dict[str, np.ndarray] = {}
        self._without_images = ""  # why, where the prompts' images cannot be read
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

    def _columns(self, index: int) -> pa.Table:
        """The small columns of one part; of completions without scores the verdict is null."""
        names = [*_KEY, "finish_reason", "status"]
        table = self.lineage.rollouts.part(index, names)
        added = {"correct": pa.bool_(), "reward": pa.float64(), "extracted": pa.large_string()}
        if self.lineage.scores is None:
            for name, kind in added.items():
                table = table.append_column(name, pa.nulls(len(table), kind))
            return table
        scored = self.lineage.scores.part(index, [*_KEY, "status", *added])
        _require_alike(table, scored, self.lineage.scores, index)
        place = table.schema.get_field_index("status")
        table = table.set_column(place, "status", scored["status"])
        for name in added:
            table = table.append_column(name, scored[name])
        return table

    @functools.cached_property
    def length_N(self) -> np.ndarray:
        """Tokens where all rows have them, else characters."""
        rollouts = self.lineage.rollouts
        parts = [
            rollouts.part(index, ["token_ids", "completion"]) for index in range(len(rollouts))
        ]
        table = pa.concat_tables(parts)
        if table["token_ids"].null_count:
            return pc.utf8_length(table["completion"]).to_numpy()  # type: ignore[no-any-return]
        self.unit = "tokens"
        return pc.list_value_length(table["token_ids"]).to_numpy()  # type: ignore[no-any-return]

    def holding(self, text: str) -> np.ndarray:
        if text not in self._matching:
            rollouts = self.lineage.rollouts
            parts = [
                matches(rollouts.part(index, ["completion"])["completion"], text)
                for index in range(len(rollouts))
            ]
            folded = text.casefold()
            asked_P = np.array([folded in self._asked(p).casefold() for p in self.ids])
            match_N = np.concatenate(parts) | matches(self._extracted, text)
            self._matching = {text: match_N | asked_P[self.prompt_N]}
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
            rollout["sample_index"], None if messages is None else turns(json.loads(messages)),
            answer, rollout["completion"], rollout["token_ids"], rollout["finish_reason"],
            score.get("status", rollout["status"]), int(self.verdict_N[row]),
            score.get("reward"), score.get("extracted"), score.get("reason"),
            advantage.get("advantage"),
            {name: np.array(v, dtype=np.float64) for name, v in values.items() if v is not None},
            images=self._images.images_of(rollout["prompt_id"]) if self._images else (),
            others={"images": self._without_images} if self._without_images else {},
        )  # fmt: skip

    def asked(self, prompt: int) -> tuple[int | None, int | None]:
        messages, answer = self._prompt(self.ids[prompt])
        asked_for = None if messages in (None, '""') else fingerprint(json.loads(str(messages)))
        return asked_for, None if answer is None else hash(answer)

    def _asked(self, prompt_id: str) -> str:
        """All that a prompt says, to search in."""
        messages, answer = self._prompt(prompt_id)
        said = [] if messages is None else [said for _, said in turns(json.loads(messages))]
        return "\n".join([prompt_id, *said, answer or ""])

    def _prompt(self, prompt_id: str) -> tuple[str | None, str | None]:
        return self._prompts.get(prompt_id, (None, None))

    @functools.cached_property
    def _images(self) -> Images | None:
        """Those of the prompts; None where there are none, or they cannot be read."""
        try:
            return Images.of(self.lineage.prompts) if self.lineage.prompts else None
        except UserError as error:
            self._without_images = f"cannot be read: {error}; {error.hint}"
            return None

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


def matches(column: pa.Array | pa.ChunkedArray, text: str) -> np.ndarray:
    """Which values hold a text, in either case [N]."""
    matching = pc.fill_null(pc.match_substring(column, text, ignore_case=True), False)
    match_N: np.ndarray = matching.to_numpy(zero_copy_only=False)
    return match_N


def _require_alike(a: pa.Table, b: pa.Table, shards: Shards, index: int) -> None:
    if not a.select(_KEY).combine_chunks().equals(b.select(_KEY).combine_chunks()):
        raise DataError(
            f"part {index} of `{shards.path}` has other rows than the rollouts",
            "compute the newer of the two again",
        )
