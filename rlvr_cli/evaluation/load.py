"""Tallies of scores directories, and of what other tools wrote."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.evaluation.pairing import Asked
from rlvr_cli.evaluation.tallies import Tally, Tallying
from rlvr_cli.interop.completions import Batch, Columns, Stream
from rlvr_cli.interop.names import refuse_columns
from rlvr_cli.stages import common
from rlvr_cli.storage.manifest import Damaged
from rlvr_cli.storage.shards import MANIFEST, Shards, has_parts, is_begun


def tally(
    path: Path,
    *,
    columns: Columns | None = None,
    texts: bool | Literal["if there"] = False,
    answers: bool = True,
    asked: Asked | None = None,
) -> tuple[Tally, Shards | None]:
    """The tally of a scores directory, or of what another tool wrote: files, or a pattern.

    Files are streamed; only counts by prompt, and the correct texts if asked for, stay in memory.
    `texts` may be `if there`: files without completions are then no error. Without `answers` wrong
    answers are not counted. `asked` collects what files say of their prompts.
    """
    if is_directory(path):
        refuse_columns(path, columns)
        scores = Shards.open(path, "scores")
        return of_scores(scores, texts=bool(texts), answers=answers), scores
    refuse_folder(path)
    wanted = {"correct", "reward", "extracted"} | ({"completion"} if texts else set())
    stream = Stream(path, columns, wanted=wanted | (asked.wanted if asked else set()))
    tallying = Tallying(texts=bool(texts), answers=answers)
    for batch in stream:
        tallying.add(batch)
        if asked:
            asked.add(batch)
    if asked and len(stream.steps) == 1 and (step := str(*stream.steps)).isdecimal():
        asked.step = int(step)
    _require_columns(stream, texts=texts is True)
    tallied = replace(tallying.done(), read=stream.facts(), repeated=stream.repeated)
    return (tallied if "completion" in stream.has else replace(tallied, texts=None)), None


def refuse_graded(stream: Stream) -> None:
    """An error where what is correct would be rewards that are no verdicts."""
    if stream.graded:
        raise DataError(
            f"`{stream.path}` has graded rewards, which do not say what is correct",
            "say what reward is right, as in --correct-above 0.5, or name a column that says it "
            "with --correct-column",
        )


def is_directory(path: Path) -> bool:
    """Whether this is a directory that a stage made."""
    return is_begun(path) or has_parts(path)


def refuse_folder(path: Path) -> None:
    """An error for a folder that holds scores directories, such as a run of train."""
    depths = ("", "*/", "*/*/")
    found = [m.parent for depth in depths for m in path.glob(f"{depth}scores/{MANIFEST}")]
    if found:
        raise UsageError(
            f"`{path}` is no scores directory, but holds {len(found)}",
            f"name one, as in `{max([f for f in found if 'eval' in f.parts] or found)}`",
        )


def _require_columns(stream: Stream, *, texts: bool) -> None:
    if not stream.verdicts:
        header = ", ".join(stream.header)
        raise DataError(
            f"`{stream.path}` does not say which completions are correct; it has {header}",
            "name the column with --correct-column, or score it: rlvr import, then rlvr score",
        )
    refuse_graded(stream)
    if texts:
        stream.require_completions()


def of_scores(scores: Shards, *, texts: bool = False, answers: bool = True) -> Tally:
    """The tally of a scores directory, a part at a time."""
    tallying = Tallying(texts=texts, answers=answers)
    for batch in _batches(scores, texts=texts):
        tallying.add(batch)
    return tallying.done()


def _batches(scores: Shards, *, texts: bool) -> Iterator[Batch]:
    sources = _sources(scores)
    directories = [scores.parent("rollouts"), scores] if texts else [scores]
    for index in range(len(scores)):
        columns = {
            name: column.combine_chunks()
            for name, column in common.zip_columns(index, *directories).items()
        }
        encoded = columns["prompt_id"].dictionary_encode()
        named = pa.array([sources.get(p) for p in encoded.dictionary.to_pylist()], pa.string())
        yield Batch(
            encoded,
            _truths(columns["correct"]),
            completion=columns.get("completion"),
            extracted=columns["extracted"],
            source=named.take(encoded.indices),
        )


def _truths(correct: pa.Array) -> np.ndarray:
    truth_N: np.ndarray = pc.fill_null(pc.cast(correct, pa.int8()), -1).to_numpy()
    return truth_N


def _sources(scores: Shards) -> dict[str, str]:
    """The source of each prompt; none where the prompts were moved away."""
    try:
        prompts = scores.parent("prompts")
    except Damaged:
        raise
    except (DataError, LookupError):
        return {}
    pairs = (zip(t["prompt_id"].to_pylist(), t["source"].to_pylist(), strict=True)
             for t in prompts.parts())  # fmt: skip
    return {prompt_id: source for part in pairs for prompt_id, source in part}
