"""The log-probs of what vLLM samples, all of a step's at once.

vLLM cuts the log-probs of each step into objects for each request, which with 512 requests takes
its host about as long as the GPU takes for the step. `BatchedLogprobs` takes them off the step's
output before the scheduler does that. What is computed stays the same.
"""

import contextlib
from typing import Any

import numpy as np

from rlvr_cli.errors import DataError

_ROWS = 512  # to begin with; of memory that is not touched it costs nothing
_NOBODY = 0  # the row of requests that nobody waits for
_UNBORN = -1  # of one that has no token yet


class PerRequestLogprobs(contextlib.nullcontext[None]):
    """Those of an engine whose scheduler is in another process: requests bring them themselves."""

    def expect(self, name: str) -> None:
        """Nothing is kept."""

    def take(self, name: str, made: Any) -> list[float]:
        return list(made.logprobs.logprobs)


class BatchedLogprobs:
    """Tokens and log-probs of the requests that are at work, one row each, within a `with`.

    `scheduler` is the one of an engine in this process, and all its requests ask for log-probs.
    """

    def __init__(self, scheduler: Any, max_new_tokens: int) -> None:
        self._scheduler = scheduler
        self._rows: dict[str, int] = {}
        self._free = list(range(_ROWS, _NOBODY, -1))
        self._tokens_RT = np.zeros((1 + _ROWS, max_new_tokens), np.int32)
        self._logps_RT = np.zeros((1 + _ROWS, max_new_tokens), np.float32)
        self._counts_R = np.zeros(1 + _ROWS, np.int64)

    def __enter__(self) -> "BatchedLogprobs":
        self._update = self._scheduler.update_from_output
        self._scheduler.update_from_output = self._taking
        return self

    def __exit__(self, *_: object) -> None:
        del self._scheduler.update_from_output  # the method of its class is there again

    def expect(self, name: str) -> None:
        """Keeps what is sampled for the request that vLLM calls by `name`."""
        self._rows[name] = _UNBORN

    def take(self, name: str, made: Any) -> list[float]:
        """The log-probs of what vLLM made for a request, in nats; its row is then free."""
        row, length = self._rows.pop(name), len(made.token_ids)
        same = row > 0 and self._counts_R[row] == length
        if not same or not np.array_equal(self._tokens_RT[row, :length], made.token_ids):
            raise DataError(
                f"vLLM gives the log-probs of other tokens than those of its completion {name}",
                "report it with the version of vLLM; --engine graph or transformers samples too",
            )
        self._counts_R[row] = 0
        self._free.append(row)
        return self._logps_RT[row, :length].tolist()

    def _taking(self, scheduled: Any, output: Any) -> Any:
        if output.logprobs is not None:
            self._keep(output.req_ids, output.sampled_token_ids, output.logprobs)
            output.logprobs = None
        return self._update(scheduled, output)

    def _keep(self, names: list[str], sampled: list[list[int]], logprobs: Any) -> None:
        """One step's: at most one token a request, the first of its ids; none within its prompt."""
        at = [i for i, tokens in enumerate(sampled) if len(tokens)]
        rows = np.array([self._row(names[i]) for i in at], np.int64)
        places = self._counts_R[rows]
        self._tokens_RT[rows, places] = np.asarray(logprobs.logprob_token_ids)[at, 0]
        self._logps_RT[rows, places] = np.asarray(logprobs.logprobs)[at, 0]
        self._counts_R[rows] += 1
        self._counts_R[_NOBODY] = 0

    def _row(self, name: str) -> int:
        row = self._rows.get(name, _NOBODY)
        if row == _UNBORN:
            if not self._free:
                self._grow()
            row = self._rows[name] = self._free.pop()
        return row

    def _grow(self) -> None:
        """Twice as many rows."""
        rows = len(self._counts_R)
        self._free += range(2 * rows - 1, rows - 1, -1)
        for name in ("_tokens_RT", "_logps_RT", "_counts_R"):
            held = getattr(self, name)
            setattr(self, name, np.concatenate((held, np.zeros_like(held))))
