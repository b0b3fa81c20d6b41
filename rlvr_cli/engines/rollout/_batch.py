"""Continuous batching: rows that are decoded together, each at its own position.

A row that ends is refilled with the next job; when none waits, fewer rows are decoded.
"""

import contextlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rlvr_cli.engines.rollout._attend import attending
from rlvr_cli.engines.rollout._decoder import Decoder, to_device
from rlvr_cli.engines.rollout._step import DecodingStep, State
from rlvr_cli.models.stops import StopScan, StopStrings
from rlvr_cli.protocols import Completion, Request, SamplingParams

_MOVED = 32  # rows of the cache that are copied together


class Pace(NamedTuple):
    """How the host keeps up with a device."""

    burst: int  # steps between two polls of which rows have ended
    lag: int  # polls by which it trails the device, which thus always has a burst queued
    least_left: int  # tokens that a row must have left for a capture of fewer rows to pay


PACE = {"cuda": Pace(burst=4, lag=1, least_left=128), "cpu": Pace(burst=1, lag=0, least_left=1)}


@dataclass(frozen=True)
class GenerationJob:
    """A completion to sample, and the most tokens that it may have."""

    index: int
    request: Request
    limit: int


@dataclass(frozen=True)
class _RunningJob:
    """The job of a row, and the step before its first."""

    job: GenerationJob
    start: int

    def cached(self, steps: int) -> int:
        """The most positions that it has filled in the cache after so many steps."""
        return len(self.job.request.prompt_token_ids) - 1 + self.sampled(steps)

    def sampled(self, steps: int) -> int:
        return min(steps - self.start, self.job.limit)


@dataclass(frozen=True)
class DonePoll:
    """Which rows had ended at a step, in host memory once `event` has happened.

    Where there are stop strings, also the number of tokens of each row, and its last ones.
    """

    done_B: Tensor
    indices: dict[int, int]  # of the jobs, by the rows that had them
    event: Any
    count_B: Tensor | None = None
    last_BK: Tensor | None = None

    def ended(self) -> set[int]:
        """The indices of jobs whose rows had ended; waits for the step."""
        if self.event:
            self.event.synchronize()
        is_done = self.done_B.tolist()
        return {index for row, index in self.indices.items() if is_done[row]}

    def stopped(self, scan: StopScan, running: set[int]) -> dict[int, int]:
        """Of each running job that a stop string has ended, how many tokens it has."""
        assert self.count_B is not None and self.last_BK is not None
        counts, last = self.count_B.tolist(), self.last_BK.tolist()
        sizes = {
            index: scan.add(index, last[row], counts[row])
            for row, index in self.indices.items()
            if index in running
        }
        return {index: size for index, size in sizes.items() if size is not None}


class ContinuousBatch:
    """At most `rows` completions on the device; a second decoder is the memory model (DLC).

    At least `least` rows are decoded together. `noise` is the version of the noise.
    """

    def __init__(
        self,
        decoders: Sequence[Decoder],
        rows: int,
        sampling: SamplingParams,
        ends: Sequence[int],
        width: int,
        *,
        least: int = 1,
        stop: StopStrings | None = None,
        noise: int = 1,
    ) -> None:
        self._decoders, self._has_memory, self._ends = decoders, len(decoders) > 1, set(ends)
        self._device = decoders[0].device
        self._pace = PACE[self._device.type]
        self._state = State.of(rows, width, self._device)
        self._step = DecodingStep(
            decoders, self._state, sampling, to_device(list(ends), self._device), noise
        )
        self._read_stream: Any = None
        if self._device.type == "cuda":
            self._read_stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._jobs: dict[int, _RunningJob] = {}
        self._polls: deque[DonePoll] = deque()
        self._scan = StopScan(stop) if stop else None
        self.rows, self._least, self.steps = rows, least, 0

    @property
    def free(self) -> list[int]:
        return [row for row in range(self.rows) if row not in self._jobs]

    @property
    def busy(self) -> bool:
        return bool(self._jobs)

    def add(self, jobs: Sequence[GenerationJob]) -> None:
        """Gives free rows their jobs. All but a prompt's last token go into the cache now."""
        rows = self.free[: len(jobs)]
        for row, job in zip(rows, jobs, strict=True):
            self._jobs[row] = _RunningJob(job, self.steps)
        prompts = [list(map(int, job.request.prompt_token_ids)) for job in jobs]
        with attending(*(decoder.model for decoder in self._decoders)):
            for decoder in self._decoders:
                decoder.prefill([prompt[:-1] for prompt in prompts], rows)
        row_R, state = to_device(rows, self._device), self._state
        for state_B, values in (
            (state.token_B, [prompt[-1] for prompt in prompts]),
            (state.position_B, [len(prompt) - 1 for prompt in prompts]),
            (state.limit_B, [job.limit for job in jobs]),
            (state.seed_B, [job.request.seed for job in jobs]),
            (state.count_B, [0] * len(jobs)),
            (state.done_B, [False] * len(jobs)),
        ):
            state_B[row_R] = to_device(values, self._device, state_B.dtype)

    def compact(self) -> None:
        """Halves the rows as often as the busy ones fit into half of them, if it pays."""
        fewer = self.rows
        while len(self._jobs) <= (half := -(-fewer // 2)) >= self._least and half < fewer:
            fewer = half
        remaining = max(
            (row.job.limit - row.sampled(self.steps) for row in self._jobs.values()), default=0
        )
        if fewer == self.rows or remaining < self._pace.least_left:
            return
        outside = sorted(
            (row for row in self._jobs if row >= fewer),
            key=lambda row: self._jobs[row].cached(self.steps),
        )
        inside = [row for row in self.free if row < fewer]
        for start in range(0, len(outside), _MOVED):
            sources = outside[start : start + _MOVED]
            self._move(sources, inside[start : start + len(sources)])
        self.rows = fewer
        if self._polls:  # the next to be read must know the rows as they are after the moves
            self._polls[-1] = self._poll()

    def _move(self, sources: list[int], rows: list[int]) -> None:
        """Moves rows to free ones; `sources` come in the order of their cached length."""
        source_R, row_R = to_device(sources, self._device), to_device(rows, self._device)
        for decoder in self._decoders:
            decoder.move(source_R, row_R, self._jobs[sources[-1]].cached(self.steps))
        for value in self._state:
            value[row_R] = value[source_R]
        for source, row in zip(sources, rows, strict=True):
            self._jobs[row] = self._jobs.pop(source)

    def run(self) -> None:
        """Gives every row that has not ended its next tokens; on a GPU this does not wait."""
        self._step.run(self.rows, self._pace.burst)
        self.steps += self._pace.burst
        self._polls.append(self._poll())

    def _poll(self) -> DonePoll:
        state, last = self._state.first(self.rows), None
        if self._scan:
            before_K = torch.arange(-self._pace.burst, 0, device=self._device)
            column_BK = (state.count_B[:, None] + before_K).clamp(min=0)
            last = (_to_host(state.count_B), _to_host(state.tokens_BT.gather(1, column_BK)))
        done_B = _to_host(state.done_B)
        event = None
        if self._read_stream:
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record()
        indices = {row: running.job.index for row, running in self._jobs.items()}
        return DonePoll(done_B, indices, event, *(last or ()))

    def finished(self) -> list[tuple[int, Completion]]:
        """The index and the completion of each row that had ended at the poll before the last.

        Without a GPU, at the last. They are read while the next burst runs, which leaves ended
        rows as they are.
        """
        if len(self._polls) <= self._pace.lag:
            return []
        poll = self._polls.popleft()
        ended, sizes = poll.ended(), dict[int, int]()
        if self._scan:
            running = {running.job.index for running in self._jobs.values()}
            sizes = poll.stopped(self._scan, running)
        rows = [
            row
            for row, running in self._jobs.items()
            if running.job.index in ended or running.job.index in sizes
        ]
        if sizes:
            self._state.done_B[to_device(rows, self._device)] = True
        with (
            torch.cuda.stream(self._read_stream) if self._read_stream else contextlib.nullcontext()
        ):
            return self._read(rows, sizes) if rows else []

    def _read(self, rows: list[int], sizes: dict[int, int]) -> list[tuple[int, Completion]]:
        """The completions of rows; those that a stop string ended have the `sizes` of their jobs.

        On a GPU such a row may have gone on meanwhile.
        """
        row_R, state = to_device(rows, self._device), self._state
        jobs = [self._jobs.pop(row).job.index for row in rows]
        counts = [
            sizes.get(index, count)
            for index, count in zip(jobs, state.count_B[row_R].tolist(), strict=True)
        ]
        longest = max(counts)
        tokens, logps, policy_logps = (
            value_BT[row_R, :longest].tolist()
            for value_BT in (state.tokens_BT, state.logps_BT, state.policy_logps_BT)
        )
        completions = []
        for i, (index, count) in enumerate(zip(jobs, counts, strict=True)):
            is_stopped = index in sizes or tokens[i][count - 1] in self._ends
            completion = Completion(
                tokens[i][:count],
                logps[i][:count],
                "stop" if is_stopped else "length",
                policy_logps[i][:count] if self._has_memory else None,
            )
            completions.append((index, completion))
            if self._scan:
                self._scan.forget(index)
        return completions


def _to_host(values: Tensor) -> Tensor:
    """A copy in host memory, which on a GPU is there later."""
    return values.to("cpu", copy=True, non_blocking=True)
