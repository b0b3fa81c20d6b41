"""Tallies of scores directories, and of what other tools wrote."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.evaluation.pairing import PromptFacts
from rlvr_cli.evaluation.tallies import Tally, Tallying
from rlvr_cli.interop import file_sets, names, parquet_columns
from rlvr_cli.interop.completions import Batch, Columns, Stream
from rlvr_cli.stages import common
from rlvr_cli.storage import schema
from rlvr_cli.storage.begun import is_begun
from rlvr_cli.storage.joined import TwoPrompts
from rlvr_cli.storage.manifest import Damaged, parents
from rlvr_cli.storage.shards import MANIFEST, Shards, has_parts, hint_within


def tally(
    path: Path,
    *,
    columns: Columns | None = None,
    texts: bool | Literal["if there"] = False,
    answers: bool = True,
    facts: PromptFacts | None = None,
) -> tuple[Tally, Shards | None]:
    """The tally of a scores directory, or of what another tool wrote: files, or a pattern.

    Files are streamed; only counts by prompt, and the correct texts if wanted, stay in memory.
    `texts` may be `if there`: files without completions are then no error. Without `answers` wrong
    answers are not counted. `facts` collects what files say of their prompts.
    """
    if is_directory(path):
        scores = Shards.open(path, "scores")
        merge = refuse_columns(scores, columns)
        return of_scores(scores, texts=bool(texts), answers=answers, merge=merge), scores
    refuse_folder(path)
    wanted = {"correct", "reward", "extracted"} | ({"completion"} if texts else set())
    stream = Stream(path, columns, wanted=wanted | (facts.wanted if facts else set()))
    tallying = Tallying(texts=bool(texts), answers=answers)
    for batch in stream:
        tallying.add(batch)
        if facts:
            facts.add(batch)
    if facts and len(stream.steps) == 1 and (step := str(*stream.steps)).isdecimal():
        facts.step = int(step)
    _require_columns(stream, texts=texts is True)
    shared = stream.prompts.are_shared()
    tallied = replace(tallying.done(), read=stream.facts(), repeated=stream.repeated, shared=shared)
    return (tallied if "completion" in stream.has else replace(tallied, texts=None)), None


def refuse_graded(stream: Stream) -> None:
    """An error if correctness would come from graded rewards instead of verdicts."""
    if stream.graded:
        raise DataError(
            f"`{stream.path}` has graded rewards, which do not say what is correct",
            "say what reward is right, as in --correct-above 0.5, or name a column that says it "
            "with --correct-column",
        )


def is_directory(path: Path) -> bool:
    """Whether this is a directory that a stage wrote."""
    return is_begun(path) or has_parts(path)


def refuse_folder(path: Path) -> None:
    """An error for a folder of directories of stages, such as a run of train."""
    depths = ("", "*/", "*/*/")
    directories = [m.parent for depth in depths for m in path.glob(f"{depth}scores/{MANIFEST}")]
    if directories:
        evaluations = [one for one in directories if "eval" in one.parts]
        raise UsageError(
            f"`{path}` is not a scores directory, but holds {len(directories)}",
            f"name one, as in `{max(evaluations or directories)}`",
        )
    if hint := hint_within(path, ("scores",)):
        raise UsageError(f"`{path}` holds directories of rlvr, and no scores", hint)


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


def refuse_columns(shards: Shards, columns: Columns | None) -> bool:
    """Whether the inputs of a directory are to be merged; an error for other options of files."""
    if columns is None or not columns.merge or schema.INPUT not in shards.schema.names:
        names.refuse_columns(shards.path, columns)
        return False
    names.refuse_columns(shards.path, replace(columns, merge=False))
    return True


def apart(shards: Shards) -> list[str]:
    """The names of the inputs of a directory where they have prompts in common; else none.

    Those are the shortest ends of their paths that differ.
    """
    if schema.INPUT not in shards.schema.names:
        return []
    first: dict[str, int] = {}
    for index in range(len(shards)):
        table = shards.part(index, ["prompt_id", schema.INPUT])
        for row in table.group_by(table.column_names, use_threads=False).aggregate([]).to_pylist():
            if first.setdefault(row["prompt_id"], row[schema.INPUT]) != row[schema.INPUT]:
                return _input_names(shards)
    return []


def _input_names(shards: Shards) -> list[str]:
    """A name for each of the rollouts that a directory was derived from."""
    recorded = [parent["path"] for parent in parents(shards.manifest, "rollouts")]
    paths = [Path(os.path.normpath(shards.path.absolute() / path)) for path in recorded]
    while len(set(paths)) > len({path.name for path in paths}) == 1:
        paths = [path.parent for path in paths]
    return list(file_sets.labels(paths).values())


def of_scores(
    scores: Shards, *, texts: bool = False, answers: bool = True, merge: bool = False
) -> Tally:
    """The tally of a scores directory, a part at a time.

    Inputs that have prompts in common are sources, as files are, unless they are to be merged.
    """
    inputs = [] if merge else apart(scores)
    tallying = Tallying(texts=texts, answers=answers)
    for batch in _batches(scores, inputs, texts=texts):
        tallying.add(batch)
    read = {"correct": [], "correct_above": None, "apart": inputs} if inputs else {}
    return replace(tallying.done(), read=read)


def _batches(scores: Shards, inputs: list[str], *, texts: bool) -> Iterator[Batch]:
    sources = _sources(scores)
    directories = [scores.parent("rollouts"), scores] if texts else [scores]
    for index in range(len(scores)):
        columns = {
            name: column.combine_chunks()
            for name, column in common.zip_columns(index, *directories).items()
        }
        encoded = columns["prompt_id"].dictionary_encode()
        named = pa.array([sources.get(p) for p in encoded.dictionary.to_pylist()], pa.string())
        source = named.take(encoded.indices)
        if inputs:
            own = inputs[columns[schema.INPUT][0].as_py()] if len(encoded) else ""
            source = parquet_columns.in_source(own, source, len(encoded))
        yield Batch(
            encoded,
            _truths(columns["correct"]),
            completion=columns.get("completion"),
            extracted=columns["extracted"],
            source=source,
        )


def remarks(tallied: Tally, scores: Shards | None) -> Iterator[str]:
    """What figures lack whose prompts moved, and how those of all sources together are taken."""
    if tallied.shared and not tallied.read["apart"]:
        yield (
            "the sources have prompts in common: in all of them together a prompt counts once, "
            "with its mean over them"
        )
    try:
        if scores is not None:
            scores.parent("prompts")
    except LookupError:
        return
    except DataError as error:
        yield f"without sources and golds of prompts: {error}; {error.hint}"


def _truths(correct: pa.Array) -> np.ndarray:
    truth_N: np.ndarray = pc.fill_null(pc.cast(correct, pa.int8()), -1).to_numpy()
    return truth_N


def _sources(scores: Shards) -> dict[str, str]:
    """The source of each prompt; none where the prompts were moved away."""
    try:
        prompts = scores.parent("prompts")
    except (Damaged, TwoPrompts):
        raise
    except (DataError, LookupError):
        return {}
    pairs = (zip(t["prompt_id"].to_pylist(), t["source"].to_pylist(), strict=True)
             for t in prompts.parts())  # fmt: skip
    return {prompt_id: source for part in pairs for prompt_id, source in part}
