"""The log-probs of what vLLM samples, read for all requests of a step at once.

vLLM splits the log-probs of each step into objects per request, which with 512 requests takes the
host about as long as the step takes the GPU. `BatchedLogprobs` takes them out of the step's output
before the scheduler does that. The values are the same.
"""

import contextlib
from typing import Any

import numpy as np

from rlvr_cli.errors import DataError

_ROWS = 512  # at first; memory that is not touched costs nothing
_DISCARDED = 0  # the row of requests that nobody waits for
_UNASSIGNED = -1  # of a request that has no token yet


class PerRequestLogprobs(contextlib.nullcontext[None]):
    """For an engine whose scheduler is in another process: each output has its own log-probs."""

    def expect(self, name: str) -> None:
        """Nothing is kept."""

    def take(self, name: str, output: Any) -> list[float]:
        return list(output.logprobs.logprobs)


class BatchedLogprobs:
    """Tokens and log-probs of the running requests, one row each, within a `with`.

    `scheduler` is the one of an engine in this process, and all its requests ask for log-probs.
    """

    def __init__(self, scheduler: Any, max_new_tokens: int) -> None:
        self._scheduler = scheduler
        self._rows: dict[str, int] = {}
        self._free = list(range(_ROWS, _DISCARDED, -1))
        self._tokens_RT = np.zeros((1 + _ROWS, max_new_tokens), np.int32)
        self._logps_RT = np.zeros((1 + _ROWS, max_new_tokens), np.float32)
        self._counts_R = np.zeros(1 + _ROWS, np.int64)

    def __enter__(self) -> "BatchedLogprobs":
        self._update = self._scheduler.update_from_output
        self._scheduler.update_from_output = self._taking
        return self

    def __exit__(self, *_: object) -> None:
        del self._scheduler.update_from_output  # uncovers the method of its class

    def expect(self, name: str) -> None:
        """Keeps the log-probs that are sampled for the request that vLLM calls `name`."""
        self._rows[name] = _UNASSIGNED

    def take(self, name: str, output: Any) -> list[float]:
        """The log-probs of a request's output, in nats; its row is free afterwards."""
        row, length = self._rows.pop(name), len(output.token_ids)
        same = row > 0 and self._counts_R[row] == length
        if not same or not np.array_equal(self._tokens_RT[row, :length], output.token_ids):
            raise DataError(
                f"vLLM returned log-probs of other tokens than those of its completion {name}",
                "report it with the version of vLLM; --engine graph or transformers samples too",
            )
        self._counts_R[row] = 0
        self._free.append(row)
        logps: list[float] = self._logps_RT[row, :length].tolist()
        return logps

    def _taking(self, scheduled: Any, output: Any) -> Any:
        if output.logprobs is not None:
            self._keep(output.req_ids, output.sampled_token_ids, output.logprobs)
            output.logprobs = None
        return self._update(scheduled, output)

    def _keep(self, names: list[str], sampled: list[list[int]], logprobs: Any) -> None:
        """Stores a step: at most one token per request, the first of its ids; none in a prompt."""
        sampling = [i for i, tokens in enumerate(sampled) if len(tokens)]
        rows = np.array([self._row(names[i]) for i in sampling], np.int64)
        columns = self._counts_R[rows]
        self._tokens_RT[rows, columns] = np.asarray(logprobs.logprob_token_ids)[sampling, 0]
        self._logps_RT[rows, columns] = np.asarray(logprobs.logprobs)[sampling, 0]
        self._counts_R[rows] += 1
        self._counts_R[_DISCARDED] = 0

    def _row(self, name: str) -> int:
        row = self._rows.get(name, _DISCARDED)
        if row == _UNASSIGNED:
            if not self._free:
                self._grow()
            row = self._rows[name] = self._free.pop()
        return row

    def _grow(self) -> None:
        """Doubles the number of rows."""
        rows = len(self._counts_R)
        self._free += range(2 * rows - 1, rows - 1, -1)
        for name in ("_tokens_RT", "_logps_RT", "_counts_R"):
            values = getattr(self, name)
            setattr(self, name, np.concatenate((values, np.zeros_like(values))))
