"""The stage that measures how different the completions of a prompt are, right or wrong.

Shapes: P prompts, M metrics.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rlvr_cli import registry
from rlvr_cli.errors import DataError
from rlvr_cli.evaluation.load import (
    apart,
    is_directory,
    refuse_columns,
    refuse_folder,
    refuse_graded,
)
from rlvr_cli.evaluation.measures import Measures, finite, joined, over_files
from rlvr_cli.evaluation.metric_shards import write_metrics
from rlvr_cli.evaluation.metrics import answers, ngrams
from rlvr_cli.evaluation.metrics.tokens import tokenize
from rlvr_cli.evaluation.metrics.ucc import Similar
from rlvr_cli.evaluation.tallies import Tally
from rlvr_cli.interop.completions import Batch, Columns, Stream
from rlvr_cli.specs import grammar
from rlvr_cli.stages import common
from rlvr_cli.storage import schema
from rlvr_cli.storage.shards import Shards
from rlvr_cli.storage.writer import OnPart

WANTED = {"completion", "correct", "reward", "extracted", "source", "finish"}
BEHAVIOUR = {"diversity": 2}  # it rises when the same completions get other figures
TOKEN_COLUMNS = {"entropy": "token entropy", "max_prob": "max-prob"}


@dataclass
class Group:
    """The completions of one prompt."""

    source: str | None = None
    texts: list[str] = field(default_factory=list)
    right: int = 0
    wrong: Counter[str] = field(default_factory=Counter)
    lengths: list[int] = field(default_factory=list)  # tokens of the policy, where they are known
    truncated: int = 0
    ends: int = 0  # completions of which is known whether they were truncated


@dataclass
class Completions:
    """The groups of a path by source and prompt, with what is known about them."""

    groups: dict[tuple[str | None, str], Group] = field(default_factory=dict)
    has_answers: bool = False
    shared: bool = False  # whether sources have prompts in common
    rollouts: Shards | None = None
    scores: Shards | None = None
    read: dict[str, Any] = field(default_factory=dict)  # how another tool's files were read
    repeated: int = 0

    def usable(self) -> dict[tuple[str | None, str], Group]:
        """The groups of two or more, the only ones that can differ; an error if there are none."""
        usable = {name: group for name, group in self.groups.items() if len(group.texts) > 1}
        if not usable:
            raise DataError(
                "no prompt has two completions, so none can differ",
                "sample several completions of each prompt, as in `rlvr rollout -n 8`",
            )
        return usable

    def names(self) -> list[str]:
        """The ids of the usable groups; prefixed with the source where sources share one."""
        keys = list(self.usable())
        if len({prompt_id for _, prompt_id in keys}) == len(keys):
            return [prompt_id for _, prompt_id in keys]
        return [f"{source}/{prompt_id}" for source, prompt_id in keys]

    def tally(self) -> Tally:
        """The answers of the usable groups; no votes if no answer was extracted."""
        groups = list(self.usable().values())
        return Tally(
            prompt_id=self.names(),
            n_P=np.array([len(group.texts) for group in groups]),
            correct_P=np.array([group.right for group in groups]),
            excluded_P=np.zeros(len(groups), dtype=int),
            texts=None,
            left_out=self.alone(),
            source=[group.source for group in groups],
            votes=[group.wrong for group in groups] if self.has_answers else None,
            ids=[prompt_id for _, prompt_id in self.usable()],
            read=self.read,
            shared=self.shared,
        )

    def alone(self) -> list[str]:
        """The prompts with one completion, which are left out."""
        return [name for (_, name), group in self.groups.items() if len(group.texts) < 2]


def load(path: Path, columns: Columns | None = None) -> Completions:
    """The completions of a scores or rollouts directory, or of files that another tool wrote."""
    completions = Completions()
    if is_directory(path):
        shards = Shards.open(path, "scores", "rollouts")
        merge = refuse_columns(shards, columns)
        inputs = [] if merge else apart(shards)
        completions.read = {"correct": [], "correct_above": None, "apart": inputs} if inputs else {}
        completions.rollouts = shards
        if shards.kind == "scores":
            completions.scores, completions.rollouts = shards, shards.parent("rollouts")
        for batch, length_N in _parts(shards, completions.rollouts, inputs):
            _add(completions, batch, length_N)
        return completions
    refuse_folder(path)
    stream = Stream(path, columns, wanted=WANTED)
    for batch in stream:
        _add(completions, batch)
    if completions.has_answers:
        refuse_graded(stream)  # correct answers are one class of the entropy
    completions.read, completions.repeated = stream.facts(), stream.repeated
    completions.shared = stream.prompts.are_shared()
    stream.require_completions()
    return completions


def _parts(
    shards: Shards, rollouts: Shards, inputs: list[str]
) -> Iterator[tuple[Batch, list[int | None]]]:
    directories = [rollouts] if shards.kind == "rollouts" else [rollouts, shards]
    for index in range(len(shards)):
        columns = {
            n: c.combine_chunks() for n, c in common.zip_columns(index, *directories).items()
        }
        verdicts = columns.get("correct")
        correct = None if verdicts is None else pc.fill_null(pc.cast(verdicts, "int8"), -1)
        yield (
            Batch(
                columns["prompt_id"],
                correct=None if correct is None else correct.to_numpy(zero_copy_only=False),
                completion=columns["completion"],
                extracted=columns.get("extracted"),
                finish=columns["finish_reason"],
                source=_source(columns, inputs),
            ),
            pc.list_value_length(columns["token_ids"]).to_pylist(),
        )


def _source(columns: dict[str, pa.Array], inputs: list[str]) -> pa.Array | None:
    """The name of the input of each row, where inputs are sources."""
    number_N = columns[schema.INPUT] if inputs else None
    return None if number_N is None else pa.array(inputs, pa.large_string()).take(number_N)


def _add(
    completions: Completions, batch: Batch, length_N: Sequence[int | None] | None = None
) -> None:
    nothing = [None] * len(batch)
    lists = [
        nothing if column is None else column.to_pylist()
        for column in (batch.source, batch.completion, batch.extracted, batch.finish)
    ]
    correct = nothing if batch.correct is None else batch.correct.tolist()
    completions.has_answers |= batch.extracted is not None and batch.extracted.null_count < len(
        batch
    )
    rows = zip(batch.prompt_id.to_pylist(), *lists, correct, length_N or nothing, strict=True)
    for prompt_id, source, text, extracted, finish, right, length in rows:
        group = completions.groups.setdefault((source, prompt_id), Group(source))
        group.texts.append(text or "")
        group.truncated += finish == "length"
        group.ends += finish is not None
        if length is not None:
            group.lengths.append(length)
        if right == 1:
            group.right += 1
        elif extracted is not None:
            group.wrong[extracted] += 1


def measure(completions: Completions, tallied: Tally, similarities: Sequence[str]) -> Measures:
    """The diversity of each prompt's completions, one metric a column.

    `1 - self-bleu`, `distinct-1` to `distinct-3`, `answer entropy` (nats) where the tally has
    votes, the mean of each similarity over pairs, `length` (tokens of the policy, or words and
    symbols) and its standard deviation, and the `truncated` share
    of those whose end is known, where every prompt has such.
    """
    groups = completions.usable()
    similarity_of = {spec: registry.build("similarities", spec) for spec in similarities}
    wrong, rows = tallied.wrong, []
    has_ends = all(group.ends for group in groups.values())
    silent_P = [] if wrong is None else tallied.silent_P.tolist()
    for p, group in enumerate(groups.values()):
        row = {"1 - self-bleu": 1.0 - ngrams.self_bleu(group.texts)}
        row |= {f"distinct-{n}": v for n, v in enumerate(ngrams.distinct(group.texts), 1)}
        if wrong is not None:
            row["answer entropy"] = answers.entropy(group.right, wrong[p], silent_P[p])
        # Texts of only white space are one text, the empty one.
        texts = [text if text.strip() else "" for text in group.texts]
        for spec, similarity in similarity_of.items():
            row[f"{spec} similarity"] = Similar.of(texts, similarity).mean()
        length_N = lengths(group)
        row |= {"length": float(length_N.mean()), "length std": float(length_N.std(ddof=1))}
        if has_ends:
            row["truncated"] = group.truncated / group.ends
        rows.append(row)
    names = list(rows[0])
    return Measures(completions.names(), names, np.array([[row[n] for n in names] for row in rows]))


def specs(text: str) -> list[str]:
    """The similarities in `tfidf,rouge-l`, each in its full spelling; a UsageError if unknown."""
    return [registry.canonical("similarities", name) for name in grammar.listed(text)]


def with_tokens(completions: Completions, measures: Measures, path: Path) -> Measures:
    """The measures with those of a logprobs directory of the same rollouts."""
    logprobs = Shards.open(path, "logprobs")
    if (
        completions.rollouts is None
        or logprobs.parent("rollouts").digest != completions.rollouts.digest
    ):
        raise DataError(
            f"`{path}` has the log-probs of other rollouts",
            "name the scores or rollouts that they belong to",
        )
    if completions.read.get("apart"):
        raise DataError(
            f"the inputs of `{path}` have prompts in common, whose log-probs would be one figure",
            "leave --logprobs out, or name the scores of one input and its log-probs",
        )
    return joined(measures, token_measures(logprobs, measures.prompt_id))


def write(
    out: Path, completions: Completions, measures: Measures, params: dict[str, Any], on_part: OnPart
) -> Shards:
    """A metrics directory: one row a prompt, the means and intervals in the summary."""
    groups = list(completions.usable().values())
    columns: dict[str, Any] = {
        "prompt_id": measures.prompt_id,
        "source": [group.source for group in groups],
        "n": [len(group.texts) for group in groups],
        "correct": [group.right for group in groups],
        "excluded": [0] * len(groups),
    }
    parents = {"rollouts": completions.rollouts} if completions.rollouts else {}
    return write_metrics(
        out,
        "diversity",
        columns,
        measures,
        params,
        parents,
        summary(completions, measures),
        on_part,
        BEHAVIOUR,
    )


def lengths(group: Group) -> np.ndarray:
    """Of each completion the policy's tokens, or words and symbols where those are unknown."""
    if len(group.lengths) == len(group.texts):
        return np.array(group.lengths)
    return tokenize(group.texts).lengths()


def token_measures(logprobs: Shards, prompt_ids: list[str]) -> Measures:
    """The mean over each prompt's tokens of entropy (nats) and of the likeliest token's share."""
    row_of = {prompt_id: row for row, prompt_id in enumerate(prompt_ids)}
    columns = [name for name in TOKEN_COLUMNS if name in logprobs.part(0).column_names]
    if not columns:
        raise DataError(
            f"`{logprobs.path}` has neither entropy nor max_prob",
            "compute them with `rlvr logprob ROLLOUTS --columns entropy,max_prob`",
        )
    sums_PM, tokens_P = np.zeros((len(prompt_ids), len(columns))), np.zeros(len(prompt_ids))
    for table in logprobs.parts():
        row_N = np.array([row_of.get(p, -1) for p in table["prompt_id"].to_pylist()])
        tokens_N = pc.fill_null(pc.list_value_length(table[columns[0]]), 0).to_numpy()
        row_T = np.repeat(row_N, tokens_N)
        mine_T = row_T >= 0
        size = len(prompt_ids)
        tokens_P += np.bincount(row_T[mine_T], minlength=size)
        for m, name in enumerate(columns):
            values = common.flat(table[name])[mine_T].astype(np.float64)
            sums_PM[:, m] += np.bincount(row_T[mine_T], weights=values, minlength=size)
    with np.errstate(invalid="ignore"):
        return Measures(
            prompt_ids, [TOKEN_COLUMNS[name] for name in columns], sums_PM / tokens_P[:, None]
        )


def summary(completions: Completions, measures: Measures) -> dict[str, Any]:
    """Counts, [mean, low, high] and standard error of each metric, lengths of all completions."""
    groups = list(completions.usable().values())
    sizes = [len(group.texts) for group in groups]
    length_N = np.concatenate([lengths(group) for group in groups])
    low, median, high = np.percentile(length_N, [5, 50, 95]).tolist()
    known = all(len(group.lengths) == len(group.texts) for group in groups)
    pooled = over_files(completions.tally(), measures)
    return {
        "prompts": len(pooled.prompt_id),
        "n": [min(sizes), max(sizes)],
        "excluded": 0,
        "repeated": completions.repeated,
        "left_out": completions.alone(),
        "left_out_for": "with one completion",
        "equal_texts": sum(len(g.texts) - len(set(g.texts)) for g in groups),
        **pooled.estimates(),
        "sources": {},
        "read": completions.read,
        "lengths": {
            "unit": "tokens" if known else "words and symbols",
            "mean": finite(float(length_N.mean())),
            "min": int(length_N.min()),
            "p5": low,
            "median": median,
            "p95": high,
            "max": int(length_N.max()),
        },
    }
