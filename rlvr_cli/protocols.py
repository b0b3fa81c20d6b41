"""The interfaces of verifiers, layouts, rollout engines, training engines and trackers."""

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
    """A verifier's judgement of one completion; a fault has a status and no reward, never a 0.

    `skipped` is not a fault: the function does not judge this completion. `extracted` is the
    answer that was read from the completion. `reason` says why there is no answer, why the gold
    cannot be read, or what failed, or holds a judge's reply.
    """

    status: Status
    reward: float | None = None
    correct: bool | None = None
    extracted: str | None = None
    reason: str | None = None


class Verifier(Protocol):
    """A function that is pure and quick on any text, as it runs in the calling process."""

    def __call__(self, completion: str, *, answer: str, extra: dict[str, Any]) -> Verdict:
        """The verdict on `completion`; never raises, whatever a model wrote."""
        ...


@dataclass(frozen=True)
class Limits:
    """The time and memory that one verdict may use; more is a fault."""

    seconds: float  # from its start in the process, without the time it waits for a core
    memory_bytes: int  # address space
    first_seconds: float = 0.0  # extra time for the first verdict in each process, for imports


@dataclass(frozen=True)
class Isolated:
    """A verifier that may hang, crash or use much memory: it runs in a process that can be killed.

    `extract` reads the answer from a completion; it is pure and quick, as it runs in the calling
    process. `judge` is called once for each gold and extracted answer; if the answer is None, it
    returns `bad_gold` if the gold cannot be read, else `no_answer`.
    """

    extract: Callable[[str, bool], str | None]  # (completion, whether it is finished)
    judge: Callable[[str | None, str, dict[str, Any]], Verdict]  # (extracted, answer, extra)
    limits: Limits
    version: str  # of everything that its verdicts depend on
    reads: tuple[str, ...] = ()  # the keys of `extra` that `judge` reads; "prompt" is the text
    imports: tuple[str, ...] = ()  # modules to load before its process is forked
    late_imports: tuple[str, ...] = ()  # modules that few answers need: after the first time-out
    runs_code: bool = False  # whether it executes programs that a model wrote
    is_pure: bool = True  # whether `version` decides its verdicts, so that they may be reused


@dataclass(frozen=True)
class Group:
    """Completions of one prompt, and what is stored about both."""

    completions: tuple[str, ...]
    token_ids: tuple[list[int], ...] | None  # None for text without tokens
    answer: str
    messages: Any  # text, or the messages of a chat
    prompt_id: str
    source: str | None
    extra: dict[str, Any]


@dataclass(frozen=True)
class GroupVerifier:
    """A verifier of several completions at once, in a process that can be killed.

    `judge` gives one verdict per completion, in order. A group is all completions of a prompt, so
    that a verdict depends on nothing else; if `is_batched` is False, it is one completion.
    """

    judge: Callable[[Group], list[Verdict]]
    limits: Limits  # of one call
    version: str  # of everything that its verdicts depend on
    is_batched: bool
    columns: tuple[str, ...] = ()  # the columns that it needs in a prompt's `extra`
    reads_tokens: bool = False
    needs_tokens: bool = False  # whether text without token ids is refused


Ask = Callable[[str, str, dict[str, Any], Counter[str]], Verdict]
"""Asks a service for the verdict on (extracted, answer, extra), and counts the tokens it used."""


@dataclass(frozen=True)
class Remote:
    """A verifier that asks a service: it mostly waits, so many requests are in flight at once.

    `settle` and `extract` are pure and quick. `settle` gives the verdict if no request is needed,
    such as for a bad gold or an empty answer, else None. `connect` opens the connection of one
    thread.
    """

    extract: Callable[[str, bool], str | None]  # (completion, is it finished)
    settle: Callable[[str | None, str, dict[str, Any]], Verdict | None]  # (extracted, answer, ...)
    connect: Callable[[], AbstractContextManager[Ask]]
    check: Callable[[], None]  # a UserError if the service does not answer
    seconds: Callable[[str, dict[str, Any]], float]  # the time limit for (answer, extra)
    in_flight: int
    version: str  # of everything that its verdicts depend on, including its options
    host: str  # where completions are sent, as errors name it
    host_variable: str  # the environment variable by which users choose a host
    key_variable: str = ""  # that of the key, if it is not the usual one
    reads: tuple[str, ...] = ()  # the keys of `extra` that questions include; "prompt" is the text
    columns: tuple[str, ...] = ()  # those of them that a prompt must have
    needs_answer: bool = True  # whether a prompt must have a gold
    is_pure: bool = True  # whether `version` decides its verdicts, so that they may be reused


Equality = Callable[[str], str] | Literal["text", "none"]
"""The `EQUALITY` of a file of `verifiers/`: how two extracted answers are compared.

A function that writes a completion which only states an answer: one answer is then verified with
the other as its gold. `text`: only equal texts are equal. `none`: what it extracts is not an
answer, so there is nothing to vote on.
"""


class Unusable(Exception):
    """Why a row of a data set cannot become a prompt, as in "its answer is `proof`"."""


Layout = Callable[[dict[str, Any]], dict[str, Any]]
"""What the `build` of a file of `layouts/` returns: it turns a row of a data set into a prompt.

It returns `prompt` (text or messages) and `answer` (the gold), and may return `verifier`, `source`,
`used` (the columns that need not be kept) and `extra` (what a verifier reads in the prompt's
`extra`, in addition to the columns that are kept). It raises `Unusable` if the row has no prompt
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

    If it stopped, its last token ends the sequence or completes a stop string. A completion of
    `Request.asked` has `text`, no tokens, and `finish_reason` may be None.
    """

    token_ids: list[int]
    behaviour_logp: list[float]  # nats, of the sampled distribution, temperature included
    finish_reason: Literal["stop", "length", "abort"] | None
    policy_logp: list[float] | None = None  # nats, of the policy itself (with DLC)
    text: str | None = None
    too_long: str = ""  # a server's reason, if it has no room for the prompt and a completion


@dataclass(frozen=True)
class SamplingParams:
    """How to sample; a temperature of 0 takes the likeliest token, `top_k` 0 means all tokens.

    With `mu` above 0, samples from softmax((policy - mu memory) / temperature), over the tokens to
    which the policy gives at least `min_prob` times its largest probability (DLC, When Sharpening
    Becomes Collapse, 3.2).

    A completion also ends with the token that completes one of the `stop` strings. The stage cuts
    every completion there (`models.stops`); an engine that stops there only saves time.
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
    """Whether it works best on the requests of several parts at once; if not, the last bits of
    its samples may depend on how requests are batched."""
    needs_weight_sync: bool
    """Whether it has its own weights; it is then a `ColocatedEngine`. If it samples with the
    trainer's weights, there is nothing to sync."""

    def generate(
        self, requests: list[Request], sampling: SamplingParams
    ) -> Iterator[tuple[int, Completion]]:
        """The completion of each request with its index in the list, in any order."""
        ...


class ColocatedEngine(RolloutEngine, Protocol):
    """A rollout engine with its own weights, in the process of the trainer."""

    dtype: str  # of its products: float32, bfloat16 or fp8

    def sync_weights(self, trainer: "HoldsWeights", policy: Any) -> None:
        """Loads the trainer's current weights, of which `policy` may be the checkpoint."""
        ...

    def sleep(self) -> None:
        """Frees as much memory as it can until the next `sync_weights`."""
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
    sampler_logp: Floats | None = None  # the policy's, by the sampler, to measure the gap
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
    """A policy in memory, from which a rollout engine takes weights, and is compared with it."""

    is_sharded: bool
    """Whether each process holds only a share of the weights, and cannot compute alone."""

    def logp(self, rows: list[Row], temperature: float) -> list[np.ndarray]:
        """The policy's log-probs of the rows' tokens, as training computes them."""
        ...

    def weights(self) -> Iterator[tuple[str, Any]]:
        """The policy's full weights, one after the other, in the precision that it computes in.

        Names and shapes are those of the policy's checkpoint; a model in memory may differ.
        """
        ...


class TrainingEngine(HoldsWeights, Protocol):
    """The policy being trained; with several processes, all of them make the same calls."""

    @property
    def updates(self) -> int:
        """The number of optimizer steps so far, including those before it was loaded."""
        ...

    def accumulate(
        self, rows: list[Row], objective: Any, totals: Any, temperature: float
    ) -> dict[str, float]:
        """Adds the gradient of a mini-batch's rows; returns sums and extremes over their tokens."""
        ...

    def update(self, learning_rate: float) -> float:
        """Takes an optimizer step and clears the gradient; returns its norm before clipping."""
        ...

    def save(self, path: Path) -> None:
        """Writes a Hugging Face directory and what exact resume needs."""
        ...

    def publish(self, path: Path) -> None:
        """Writes only a Hugging Face directory, in the precision that the engine computes in."""
        ...


@dataclass(frozen=True)
class TrackedRun:
    """A run, as it is shown to a tracker."""

    name: str
    path: Path
    config: dict[str, dict[str, Any]]  # the tables of its config.toml
    key: str | None = None  # what `Tracker.start` returned when the run was first sent


@dataclass(frozen=True)
class Tracked:
    """A tracker's record of a run that it has begun or resumed."""

    key: str  # identifies the run to the tracker
    last: int | None = None  # the newest step that it has, -1 for none; None if unknown


class Tracker(Protocol):
    """Stores a run's figures elsewhere; its exceptions end the tracking, never the run."""

    def start(self, run: TrackedRun) -> Tracked:
        """Begins the run, or resumes the one of `run.key`."""
        ...

    def log(self, step: int, figures: dict[str, float], samples: list[dict[str, Any]]) -> None:
        """Stores the figures of a step, and completions of its evaluation if it had one.

        Steps come in order, each once. `figures` are finite; a name may hold `/` and `@`. The
        rows of `samples` have the same keys; values are text, numbers or None.
        """
        ...

    def finish(self) -> None:
        """Returns once everything that was logged is stored."""
        ...


@runtime_checkable
class ImageTracker(Protocol):
    """A tracker that also shows images."""

    def log_images(self, step: int, images: dict[str, list[Any]]) -> None:
        """Stores the images of the samples' prompts, by the id of each prompt.

        It is called before `log` of the first evaluation that is sent. An image has `sha256`,
        `format` (PNG, JPEG or WEBP), `width`, `height` and its bytes by `read()`.
        """
        ...
