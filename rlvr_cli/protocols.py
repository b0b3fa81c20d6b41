"""What a verifier, a rollout engine, a training engine and a tracker are."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

Status = Literal["ok", "no_answer", "skipped", "timeout", "oom", "error", "bad_gold"]
FAULTS: tuple[Status, ...] = ("timeout", "oom", "error", "bad_gold")


@dataclass(frozen=True)
class Verdict:
    """What a verifier says of one completion; a fault has a status and no reward, never a 0.

    `skipped` is no fault: a function says that it does not judge this completion. `extracted` is
    what was read out of the completion, and `reason` says why: why there is no answer, why the
    gold cannot be read, what failed, or what a judge wrote.
    """

    status: Status
    reward: float | None = None
    correct: bool | None = None
    extracted: str | None = None
    reason: str | None = None


class Verifier(Protocol):
    """Pure and quick whatever a model wrote, as it runs in the calling process; if not: Isolated"""

    def __call__(self, completion: str, *, answer: str, extra: dict[str, Any]) -> Verdict:
        """The verdict on `completion`; never raises, whatever a model wrote."""
        ...


@dataclass(frozen=True)
class Limits:
    """What one verdict may use; more is a fault."""

    seconds: float  # from when its process takes it up, without waiting for a core
    memory_bytes: int  # address space
    first_seconds: float = 0.0  # more for the first verdict in each process, which imports


@dataclass(frozen=True)
class Isolated:
    """A verifier whose work may hang, crash or eat memory: it has a process that can be killed.

    `extract` reads the answer out of a completion; it is pure and quick, as it runs in the calling
    process. `judge` is asked once for each gold and extracted answer; without one it says whether
    the gold can be read at all: `bad_gold` or `no_answer`.
    """

    extract: Callable[[str, bool], str | None]  # (completion, is it finished)
    judge: Callable[[str | None, str, dict[str, Any]], Verdict]  # (extracted, answer, extra)
    limits: Limits
    version: str  # of all that its verdicts depend on
    reads: tuple[str, ...] = ()  # the keys of `extra` that `judge` reads; "prompt" is the text
    imports: tuple[str, ...] = ()  # modules worth loading before its process is forked
    late_imports: tuple[str, ...] = ()  # those that few answers need: after the first time-out
    runs_code: bool = False  # whether it executes what a model wrote
    is_pure: bool = True  # whether `version` decides its verdicts, so that they may be reused


@dataclass(frozen=True)
class Group:
    """Completions of one prompt, and what is stored about both."""

    completions: tuple[str, ...]
    token_ids: tuple[list[int], ...] | None  # None of text that came without tokens
    answer: str
    messages: Any  # text, or the messages of a chat
    prompt_id: str
    source: str | None
    extra: dict[str, Any]


@dataclass(frozen=True)
class GroupVerifier:
    """A verifier of several completions at once, in a process that can be killed.

    `judge` gives one verdict a completion, in order. A group is all completions of a prompt, so
    that a verdict depends on nothing else; where `is_batched` is False it is one completion.
    """

    judge: Callable[[Group], list[Verdict]]
    limits: Limits  # of one call
    version: str  # of all that its verdicts depend on
    is_batched: bool
    columns: tuple[str, ...] = ()  # what it needs of a prompt's `extra`
    reads_tokens: bool = False
    needs_tokens: bool = False  # whether text without token ids is refused


Ask = Callable[[str, str, dict[str, Any], Counter[str]], Verdict]
"""Asks a service for the verdict on (extracted, answer, extra), and adds up what that used."""


@dataclass(frozen=True)
class Remote:
    """A verifier that asks a service: it waits more than it computes, and asks many at once.

    `settle` and `extract` are pure and quick. `settle` gives the verdict on what need not be asked,
    such as a bad gold or an empty answer, and None on the rest. `connect` gives what one thread
    asks with.
    """

    extract: Callable[[str, bool], str | None]  # (completion, is it finished)
    settle: Callable[[str | None, str, dict[str, Any]], Verdict | None]  # (extracted, answer, ...)
    connect: Callable[[], AbstractContextManager[Ask]]
    check: Callable[[], None]  # a UserError if the service does not answer
    seconds: Callable[[str, dict[str, Any]], float]  # within which (answer, extra) is answered
    in_flight: int
    version: str  # of all that its verdicts depend on, its options included
    host: str  # where completions are sent, as an error says it
    host_variable: str  # the environment variable by which users choose a host
    key_variable: str = ""  # that of the key, where it is not the usual one
    reads: tuple[str, ...] = ()  # the keys of `extra` that questions include; "prompt" is the text
    columns: tuple[str, ...] = ()  # those of them that a prompt must have
    needs_answer: bool = True  # whether a prompt must have a gold
    is_pure: bool = True  # whether `version` decides its verdicts, so that they may be reused


Equality = Callable[[str], str] | Literal["text", "none"]
"""What a file of `verifiers/` says, as its `EQUALITY`, of two answers that it extracts.

A function that makes the completion which gives an answer and no more: the one is then verified
with the other as its gold. `text`: only equal texts are equal. `none`: what it extracts is no
answer, and there is nothing to vote on.
"""


class Unusable(Exception):
    """Why a row of a data set can be no prompt, as in "its answer is `proof`"."""


Layout = Callable[[dict[str, Any]], dict[str, Any]]
"""What the `build` of a file of `layouts/` returns: a row of a data set as what a prompt needs.

It gives `prompt` (text or messages) and `answer` (the gold), and may give `verifier`, `source`,
`used` (the columns that need not be kept) and `extra` (what a verifier looks for in the prompt's
`extra`, in addition to the columns that are kept). It raises `Unusable` where the row has no prompt
or no answer that can be verified.
"""


@dataclass(frozen=True)
class Request:
    """One completion to sample.

    If only a server knows the policy, the prompt is `asked`: text, or the turns of a chat.
    The stored bytes of its `images` come in the order of their tokens in the prompt.
    """

    prompt_token_ids: list[int]
    seed: int
    asked: str | list[dict[str, Any]] | None = None
    images: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class Completion:
    """One sampled completion.

    Where it stopped its last token ends the sequence, or completes a stop string. A completion of
    `Request.asked` has `text`, no tokens, and may not say why it ended.
    """

    token_ids: list[int]
    behaviour_logp: list[float]  # nats, of what was sampled from, at the sampling temperature
    finish_reason: Literal["stop", "length", "abort"] | None
    policy_logp: list[float] | None = None  # nats, of the policy where a memory was taken off it
    text: str | None = None
    too_long: str = ""  # why a server refuses the prompt: there is no room for it and a completion


@dataclass(frozen=True)
class SamplingParams:
    """How to sample; a temperature of 0 takes the likeliest token, `top_k` 0 means all tokens.

    With `mu` above 0 from softmax((policy - mu memory) / temperature), over the tokens that the
    policy gives at least `min_prob` times its largest probability (DLC, When Sharpening Becomes
    Collapse, 3.2).

    A completion also ends with the token that completes one of the `stop` strings. The stage cuts
    there whatever an engine returns (`models.stops`); one that stops there saves the time.
    """

    max_new_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    mu: float = 0.0
    min_prob: float = 0.0
    stop: tuple[str, ...] = ()


class RolloutEngine(Protocol):
    supports_continuous_batching: bool
    """Whether it does best with the requests of several parts at once; if not, what it samples may
    depend on how its requests are cut, in the last bits."""
    needs_weight_sync: bool
    """Whether it holds weights of its own: it is a `ColocatedEngine` then. If it samples with the
    trainer's, there is nothing to sync: it samples from the policy as the trainer has it."""

    def generate(
        self, requests: list[Request], sampling: SamplingParams
    ) -> Iterator[tuple[int, Completion]]:
        """The completion of each request with its index in the list, in any order."""
        ...


class ColocatedEngine(RolloutEngine, Protocol):
    """A rollout engine with weights of its own, which stays next to a trainer."""

    dtype: str  # of its products: float32, bfloat16 or fp8

    def sync_weights(self, trainer: "HoldsWeights", policy: Any) -> None:
        """Makes it sample from what the trainer holds now, whose checkpoint `policy` may be."""
        ...

    def sleep(self) -> None:
        """Frees what memory it can until the next `sync_weights`."""
        ...


Ints = Sequence[int] | np.ndarray
Floats = Sequence[float] | np.ndarray


@dataclass(frozen=True)
class Row:
    """One completion to train on."""

    prompt_token_ids: Ints
    token_ids: Ints
    advantage: float = 0.0
    old_logp: Floats | None = None
    ref_logp: Floats | None = None
    behaviour_logp: Floats | None = None
    sampler_logp: Floats | None = None  # the policy's, by the sampler: what the gap to it is from
    ref_topk_ids: Any = None  # int32 array [T, K], likeliest first
    ref_topk_logp: Any = None  # float32 array [T, K], nats
    columns: dict[str, float] = field(default_factory=dict)
    token_columns: dict[str, Floats] = field(default_factory=dict)  # [T] each
    images: tuple[bytes, ...] = ()  # of its prompt, as stored, in the order of their tokens

    @property
    def size(self) -> int:
        """Tokens of the prompt and the completion."""
        return len(self.prompt_token_ids) + len(self.token_ids)


class HoldsWeights(Protocol):
    """A policy in memory: what a rollout engine takes weights from, and is compared with."""

    is_sharded: bool
    """Whether each process holds only a share of the weights, and cannot compute alone."""

    def logp(self, rows: list[Row], temperature: float) -> list[np.ndarray]:
        """The policy's log-probs of the rows' tokens, as training computes them."""
        ...

    def weights(self) -> Iterator[tuple[str, Any]]:
        """The policy's full weights, one after the other, in the precision that it computes in.

        Their names and shapes are those of the policy's checkpoint, which a model in memory may
        hold otherwise.
        """
        ...


class TrainingEngine(HoldsWeights, Protocol):
    """The policy being trained; where there are several processes, each of them calls the same."""

    @property
    def updates(self) -> int:
        """The optimizer steps that the policy has had, those before it was loaded included."""
        ...

    def accumulate(
        self, rows: list[Row], objective: Any, totals: Any, temperature: float
    ) -> dict[str, float]:
        """Adds the gradient of a mini-batch's rows; sums and extremes over their tokens."""
        ...

    def update(self, learning_rate: float) -> float:
        """Takes one optimizer step and clears the gradient; the gradient's norm before clipping."""
        ...

    def save(self, path: Path) -> None:
        """Writes a Hugging Face directory and what exact resume needs."""
        ...

    def publish(self, path: Path) -> None:
        """Writes only a Hugging Face directory, in the precision that the engine computes in."""
        ...


@dataclass(frozen=True)
class TrackedRun:
    """A run as a tracker gets to know it."""

    name: str
    path: Path
    config: dict[str, dict[str, Any]]  # the tables of its config.toml
    key: str | None = None  # what `Tracker.start` returned when the run was first sent


@dataclass(frozen=True)
class Tracked:
    """What a tracker knows of a run that it has begun or resumed."""

    key: str  # by which it finds the run again
    last: int | None = None  # the newest step that it has, -1 for none; None where it cannot say


class Tracker(Protocol):
    """Keeps a run's figures elsewhere; what it raises ends the tracking, never the run."""

    def start(self, run: TrackedRun) -> Tracked:
        """Begins the run, or resumes the one of `run.key`."""
        ...

    def log(self, step: int, figures: dict[str, float], samples: list[dict[str, Any]]) -> None:
        """Keeps the figures of a step, and completions of its evaluation where it had one.

        Steps come in order, each once. `figures` are finite; a name may hold `/` and `@`. The
        rows of `samples` have the same keys; values are text, numbers or None.
        """
        ...

    def finish(self) -> None:
        """Returns once everything that was logged is stored."""
        ...


@runtime_checkable
class ImageTracker(Protocol):
    """A tracker that shows images, too."""

    def log_images(self, step: int, images: dict[str, list[Any]]) -> None:
        """Keeps the images of the prompts of the samples, by the id of each prompt.

        It is called before `log` of the first evaluation that is sent. An image has `sha256`,
        `format` (PNG, JPEG or WEBP), `width`, `height` and its bytes by `read()`.
        """
        ...
