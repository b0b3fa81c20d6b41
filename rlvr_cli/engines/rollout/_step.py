"""The decoding step: one token for each of the first rows; on a GPU one CUDA graph per row count.

Shapes: B rows, V vocabulary, T tokens of the longest completion, E end-of-sequence ids.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from rlvr_cli.engines.rollout._attend import attending
from rlvr_cli.engines.rollout._decoder import Decoder
from rlvr_cli.kernels import dispatch
from rlvr_cli.kernels.reference import Sample, seeds_at
from rlvr_cli.models import lm_head
from rlvr_cli.protocols import SamplingParams

_WARM_UP = 2  # steps of a row count before it is captured


class State(NamedTuple):
    """The state of each row, on the device. Rows come first, so that a slice takes first rows."""

    token_B: Tensor  # the last one, which is not in the cache yet
    position_B: Tensor  # its position in the cache
    count_B: Tensor  # of tokens sampled
    limit_B: Tensor  # of tokens
    seed_B: Tensor
    done_B: Tensor
    tokens_BT: Tensor  # those sampled; ended rows write to the last column
    logps_BT: Tensor  # of what was sampled from
    policy_logps_BT: Tensor

    @classmethod
    def of(cls, rows: int, width: int, device: torch.device) -> "State":
        """That of rows which have ended, or had nothing to do yet."""

        def zeros(*shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
            return torch.zeros(rows, *shape, dtype=dtype, device=device)

        return cls(
            token_B=zeros(),
            position_B=zeros(),
            count_B=zeros(),
            limit_B=zeros(),
            seed_B=zeros(),
            done_B=torch.ones(rows, dtype=torch.bool, device=device),
            tokens_BT=zeros(width + 1),
            logps_BT=zeros(width + 1, dtype=torch.float32),
            policy_logps_BT=zeros(width + 1, dtype=torch.float32),
        )

    def first(self, rows: int) -> "State":
        return self.part(0, rows)

    def part(self, first: int, rows: int) -> "State":
        return State(*(value[first : first + rows] for value in self))


class DecodingStep:
    """A step of a policy's rows, or of a policy's and a memory model's (DLC).

    A row that has ended goes through the step as well, but reads nothing of its cache. On a GPU the
    memory model takes the step in parallel with the policy, within one graph. If the decoders take
    each row by itself, so do the draws.
    """

    def __init__(
        self,
        decoders: Sequence[Decoder],
        state: State,
        sampling: SamplingParams,
        ends_E: Tensor,
        noise: int = 1,
    ) -> None:
        self._state, self._sampling, self._ends_E, self._noise = state, sampling, ends_E, noise
        self._policy, self._memory = decoders[0], decoders[1] if len(decoders) > 1 else None
        self._models = [decoder.model for decoder in decoders]
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self._captures = self._policy.device.type == "cuda"
        if self._captures:
            self._pool = torch.cuda.graph_pool_handle()  # one graph runs at a time
            self._memory_stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def run(self, rows: int, steps: int) -> None:
        """Gives each of the first rows that has not ended `steps` tokens.

        On a GPU this does not wait, except the first time with so many rows: then the first steps
        run one by one, which compiles what needs compiling, and the next is captured.
        """
        if not self._captures:
            with attending(*self._models):
                self._repeat(rows, steps)
            return
        if rows not in self._graphs:
            warm_up = min(_WARM_UP, steps)
            self._graphs[rows] = self._capture(rows, warm_up)
            steps -= warm_up
        for _ in range(steps):
            self._graphs[rows].replay()

    def _repeat(self, rows: int, steps: int) -> None:
        together = 1 if self._policy.by_rows else rows
        for _ in range(steps):
            for first in range(0, rows, together):
                self._step(self._state.part(first, together), first)

    @torch.no_grad()
    def _step(self, row: State, first: int) -> None:
        position_B = torch.where(row.done_B, 0, row.position_B)
        logits_BV, memory_BV = self._logits(row.token_B, position_B, first)
        if self._noise == 1 or not self._sampling.temperature:
            seed_B = seeds_at(row.seed_B, row.count_B)
            drawn = draw(
                logits_BV, seed_B, self._sampling, memory_BV=memory_BV,
                deterministic=self._policy.deterministic,
            )  # fmt: skip
        else:
            drawn = dispatch.draw(
                logits_BV, row.seed_B, row.count_B, memory_BV=memory_BV,
                **drawing_options(self._sampling),
            )  # fmt: skip
        width = row.tokens_BT.shape[1] - 1
        column_B1 = torch.where(row.done_B, width, row.count_B)[:, None]
        row.tokens_BT.scatter_(1, column_B1, drawn.token_B[:, None])
        row.logps_BT.scatter_(1, column_B1, drawn.logp_B[:, None])
        row.policy_logps_BT.scatter_(1, column_B1, drawn.policy_logp_B[:, None])
        live_B = ~row.done_B
        row.token_B.copy_(torch.where(live_B, drawn.token_B, row.token_B))
        row.position_B.add_(live_B)
        row.count_B.add_(live_B)
        ended_B = (drawn.token_B[:, None] == self._ends_E).any(-1)
        row.done_B.logical_or_(ended_B | (row.count_B >= row.limit_B))

    def _logits(
        self, token_B: Tensor, position_B: Tensor, first: int
    ) -> tuple[Tensor, Tensor | None]:
        """The logits of both models; on a GPU the memory model has a stream of its own."""
        at = (token_B, position_B, first)
        if self._memory is None:
            return self._policy.logits(*at), None
        if not self._captures:
            logits_BV = self._policy.logits(*at)
            return lm_head.shared_vocab_logits(logits_BV, self._memory.logits(*at))
        main = torch.cuda.current_stream()
        self._memory_stream.wait_stream(main)
        with torch.cuda.stream(self._memory_stream):
            memory_BV = self._memory.logits(*at)
        logits_BV = self._policy.logits(*at)
        main.wait_stream(self._memory_stream)
        return lm_head.shared_vocab_logits(logits_BV, memory_BV)

    def _capture(self, rows: int, warm_up: int) -> torch.cuda.CUDAGraph:
        """The step of the first rows as a graph, after `warm_up` such steps.

        Other threads, NCCL's among them, may query their own work meanwhile.
        """
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        graph = torch.cuda.CUDAGraph()
        stream.wait_stream(torch.cuda.current_stream())
        with attending(*self._models):
            with torch.cuda.stream(stream):
                self._repeat(rows, warm_up)
            torch.cuda.current_stream().wait_stream(stream)
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                self._repeat(rows, 1)
        return graph


def drawing_options(sampling: SamplingParams) -> dict[str, float]:
    """The options of `drawing.draw`."""
    names = ("temperature", "top_k", "top_p", "mu", "min_prob")
    return {name: getattr(sampling, name) for name in names}


def draw(
    logits_BV: Tensor,
    seed_B: Tensor,
    sampling: SamplingParams,
    *,
    memory_BV: Tensor | None = None,
    deterministic: bool = False,
) -> Sample:
    """A token of each row, with the noise of its seed at position 0; the likeliest at temperature 0

    From the policy less `mu` times the memory where there is one. Log-probs are those of the
    distribution sampled from: after temperature, top-k and top-p; at temperature 0, of the unscaled
    policy. If `deterministic`, bits do not depend on the number of rows, and top-k keeps equals of
    the last that it keeps: which of them torch takes is open.
    """
    if sampling.top_k:
        likeliest = logits_BV.topk(min(sampling.top_k, logits_BV.shape[-1]), -1)
    if sampling.top_k and deterministic:
        logits_BV = logits_BV.masked_fill(logits_BV < likeliest.values[:, -1:], -torch.inf)
    elif sampling.top_k:
        excluded_BV = torch.full_like(logits_BV, -torch.inf)
        logits_BV = excluded_BV.scatter(-1, likeliest.indices, likeliest.values)
    if sampling.temperature > 0:
        return dispatch.sample(
            logits_BV, seed_B, 0, temperature=sampling.temperature, top_p=sampling.top_p,
            memory_BV=memory_BV, mu=sampling.mu, min_prob=sampling.min_prob,
        )  # fmt: skip
    token_B = logits_BV.argmax(-1)
    if deterministic:  # a log-softmax is cut by where a row begins
        logp_B = dispatch.draw(logits_BV, seed_B, torch.zeros_like(seed_B), top_k=1).policy_logp_B
        return Sample(token_B, logp_B, logp_B)
    logp_B = logits_BV.float().log_softmax(-1).gather(-1, token_B[:, None])[:, 0]
    return Sample(token_B, logp_B, logp_B)
