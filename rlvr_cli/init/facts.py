"""What a model and a data set are, as far as it decides the numbers of a run; no weight is read."""

import json
import re
import statistics
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlvr_cli.config import RolloutOptions
from rlvr_cli.errors import DataError
from rlvr_cli.interop import readers
from rlvr_cli.memory_estimate.model_size import shape_of
from rlvr_cli.models import chat, engine_choice, policy as policies, pretrained, tokenizers
from rlvr_cli.models.policy import Policy
from rlvr_cli.stages import golds, score
from rlvr_cli.stages.prompts import Source
from rlvr_cli.verification.scoring import rewards

_SAMPLE = 256  # rows whose prompts are encoded and whose golds are read
_LONGEST = 16  # prompts with most characters, encoded besides
_NUMBER = re.compile(r"-?[\d,]+(\.\d+)?")
_LETTER = re.compile(r"[(\[]?[A-Z][)\].]?")
_MARKED = re.compile(r"####|\\boxed|\\fbox")
_LATEX = re.compile(r"\\[a-zA-Z]+|[\d^_=]")
_OTHERS = 0.2  # of the golds of mathematics may be words, such as `east`
_SHORT = 60  # characters of a gold that is an answer and no text


@dataclass(frozen=True)
class ModelFacts:
    """A policy: its size, its dtype on disk, and what its configuration allows."""

    policy: Policy
    architecture: str
    parameters: int
    dtype: str
    context: int  # tokens
    has_template: bool
    is_static: bool  # whether the graph engine can sample from it
    reads_images: bool = False

    def __str__(self) -> str:
        template = "a chat template" if self.has_template else "no chat template"
        return (
            f"{self.architecture}, {self.parameters / 1e6:,.1f} million parameters in "
            f"{self.dtype}, a context of {self.context:,} tokens, {template}"
            f"{', reads images' if self.reads_images else ''}"
        )


@dataclass(frozen=True)
class DataFacts:
    """A data set: its rows, how long its prompts are in tokens, and what verifies its golds."""

    rows: int
    columns: str
    kind: str  # how a prompt reaches the model
    median: float
    longest: int
    lengths: tuple[int, ...]  # of the prompts that were encoded, sorted
    verifier: str | None  # None where each row names its own
    why: str
    with_images: int = 0  # rows

    def __str__(self) -> str:
        text = (
            f"{self.rows:,} rows, {self.columns}; prompts are {self.kind} of {self.median:g} "
            f"(median) to {self.longest} tokens"
        )
        return text + (f", {self.with_images:,} of them with images" if self.with_images else "")


def of_model(name: str) -> ModelFacts:
    """The facts of a policy: a directory, a checkpoint, a hub name or `builtin`."""
    policy = policies.resolve(name)
    parameters = shape_of(policy).parameters
    config = pretrained.config((policy.base or policy).path)
    names = getattr(config, "architectures", None) or [type(config).__name__]
    return ModelFacts(
        policy,
        names[0],
        parameters,
        str(getattr(config, "dtype", None) or "float32").removeprefix("torch."),
        policies.context_length(policy),
        bool(getattr(tokenizers.load(policy), "chat_template", None)),
        engine_choice.obstacle(config, "cuda") is None,
        policies.reads_images(policy),
    )


def of_data(name: str, source: Source, model: ModelFacts, verifier: str | None) -> DataFacts:
    """The facts of the prompts that `prompts.load` gave; an error if two rows have one id."""
    rows = source.rows
    if not rows:
        raise readers.no_rows(Path(name))
    twice = [i for i, count in Counter(row["prompt_id"] for row in rows).items() if count > 1]
    if twice:
        raise DataError(
            f"`{name}` has {len(twice)} ids of several rows each, such as `{twice[0]}`",
            "name a column of distinct values with --id-column, or none to number the rows",
        )
    sample = rows[:: -(-len(rows) // _SAMPLE)]
    longest = sorted(rows, key=lambda row: len(row["messages"]))[-_LONGEST:]
    with_images = sum(bool(row.get("images")) for row in rows)
    if with_images and not model.reads_images:
        raise DataError(
            f"{with_images:,} of {len(rows):,} prompts of `{name}` have images, and "
            f"`{model.policy.name}` reads only text",
            "name a policy that reads images: --model Qwen/Qwen2.5-VL-3B-Instruct, or builtin-vl",
        )
    lengths = [_lengths(model.policy, some) for some in (sample, longest)]
    chosen, why = _verifier(name, sample, verifier)
    return DataFacts(
        len(rows),
        _columns(name, source),
        _kind(sample, has_template=model.has_template),
        statistics.median(lengths[0]),
        max(map(max, lengths)),
        tuple(sorted(lengths[0])),
        chosen,
        why,
        with_images,
    )


def _lengths(policy: Policy, rows: list[dict[str, Any]]) -> list[int]:
    """The tokens of each prompt, those of its images among them."""
    processor = tokenizers.load_processor(policy)
    tokenizer = tokenizers.load(policy)
    encoder = chat.Encoder(tokenizer, RolloutOptions(), processor=processor)
    return [
        len(
            encoder.encode(
                row["prompt_id"],
                row["messages"],
                raw=bool(row["raw"]),
                images=tuple(image.read() for image in row.get("images") or ()),
            )
        )
        for row in rows
    ]


def _kind(rows: list[dict[str, Any]], *, has_template: bool) -> str:
    if not all(row["messages"][:1] == '"' for row in rows):
        return "messages"
    is_chat = has_template and not any(row["raw"] for row in rows)
    return "questions, each a user's turn of the chat template," if is_chat else "text"


def _columns(name: str, source: Source) -> str:
    """Where prompt and gold are in a file, and what else a row holds."""
    extra = json.loads(source.rows[0]["extra"] or "{}")
    path = Path(name)
    if source.parents or source.params.get("split") or not path.exists():
        return f"prompts and golds; {_others(extra)}"
    rows = [next(readers.rows(path))]
    columns = [
        source.params.get(f"{what}_column") or readers.column(rows, None, known, "", path)
        for what, known in (("prompt", readers.PROMPT), ("answer", readers.ANSWER))
    ]
    others = _others([column for column in extra if column not in columns])
    return f"prompts in `{columns[0]}`, golds in `{columns[1]}`, {others}"


def _others(columns: Collection[str]) -> str:
    return f"others: {', '.join(columns)}" if columns else "no others"


def _verifier(name: str, rows: list[dict[str, Any]], given: str | None) -> tuple[str | None, str]:
    """The verifier of the prompts and why; an error if none is known or it reads no gold."""
    if given:
        rewards.check(given)
        return _read_by(name, rows, given), "as given"
    if all(row["verifier"] for row in rows):
        _read_by(name, rows, None)
        names = Counter(row["verifier"] for row in rows)
        return None, f"each row names its own: {', '.join(names)}"
    answers = [str(row["answer"]).strip() for row in rows]
    if all(_NUMBER.fullmatch(answer) for answer in answers):
        return _read_by(name, rows, "number"), "every gold is a number: the last one counts"
    if all(_LETTER.fullmatch(answer) for answer in answers):
        return _read_by(name, rows, "choice"), "every gold is a letter"
    others = [answer for answer in answers if not _is_mathematics(answer)]
    if len(others) <= _OTHERS * len(answers):
        asked = sum(bool(_MARKED.search(row["messages"])) for row in rows)
        if 2 * asked > len(rows):
            return _read_by(name, rows, "math"), r"the prompts ask for `\boxed{}` or `####`"
        why = r"the prompts do not ask for `\boxed{}` or `####`: an unmarked answer counts too"
        return _read_by(name, rows, "math:unanchored=true"), why
    raise DataError(
        f"`{name}` has golds that no verifier is known to read, such as `{_cut(others[0])}`",
        f"name one with --verifier: {', '.join(rewards.names())}, or FILE.py:FUNCTION",
    )


def _is_mathematics(answer: str) -> bool:
    """Whether a gold marks its answer, or is a short formula or number."""
    return bool(_MARKED.search(answer)) or (len(answer) <= _SHORT and bool(_LATEX.search(answer)))


def _read_by(name: str, rows: list[dict[str, Any]], verifier: str | None) -> str | None:
    """The verifier that was given, if it reads golds at all."""
    parsed = [row | {"extra": json.loads(row["extra"] or "{}")} for row in rows]
    with score.scorer(use_cache=False) as scorer:
        unreadable = golds.unreadable(parsed, scorer, verifier)
    if len(unreadable) < len(rows):
        return verifier
    first = next(row for row in rows if row["prompt_id"] in unreadable)
    raise DataError(
        f"`{name}`: `{verifier or first['verifier']}` cannot read any of the golds, such as "
        f"`{_cut(first['answer'])}`: {unreadable[first['prompt_id']]}",
        "name another verifier with --verifier, or the column of the gold with --answer-column",
    )


def _cut(text: str) -> str:
    line = " ".join(str(text).split())
    return line if len(line) <= _SHORT else f"{line[:_SHORT]}..."
