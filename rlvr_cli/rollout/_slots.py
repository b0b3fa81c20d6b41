"""Rows that are decoded together, each at its own place; a row that ends makes room for the next.

Shapes: B rows, V vocabulary, T tokens of the longest completion, E ends of a completion.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rlvr_cli.kernels import dispatch
from rlvr_cli.kernels.reference import Sample, seeds_at
from rlvr_cli.protocols import Completion, Request, SamplingParams
from rlvr_cli.rollout._decoder import Decoder, attending

_BURST = 8  # steps on a GPU between two looks at which rows have ended


@dataclass(frozen=True)
class Job:
    """A completion to make, and the most tokens that it may have."""

    index: int
    request: Request
    limit: int


class Slots:
    """The state of `rows` completions on the device, and the step that gives each a token.

    On a GPU the step is captured once as a CUDA graph and replayed. A row that has ended, or has
    had nothing to do yet, goes through the step as well; it reads nothing of its cache. A
    memory model behind the policy takes the same step, on a GPU beside it within one graph.
    """

    def __init__(
        self,
        decoders: Sequence[Decoder],
        rows: int,
        sampling: SamplingParams,
        ends: Sequence[int],
        width: int,
    ) -> None:
        self._decoders, self._sampling, self._width = decoders, sampling, width
        self._policy, self._memory = decoders[0], decoders[1] if len(decoders) > 1 else None
        self.steps = 0
        device = self._policy.device
        self._side = torch.cuda.Stream() if self._memory and device.type == "cuda" else None

        def zeros(*shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        self._token_B, self._position_B, self._count_B = zeros(rows), zeros(rows), zeros(rows)
        self._limit_B, self._seed_B = zeros(rows), zeros(rows)
        self._done_B = torch.ones(rows, dtype=torch.bool, device=device)
        self._ends_E = torch.tensor(list(ends), device=device)
        self._tokens_BT = zeros(rows, width + 1)  # the last column is that of ended rows
        self._logps_2BT = zeros(2, rows, width + 1, dtype=torch.float32)
        self._jobs: dict[int, Job] = {}
        self.rows = rows
        self._graph = self._capture() if device.type == "cuda" else None

    @property
    def free(self) -> list[int]:
        return [row for row in range(self.rows) if row not in self._jobs]

    @property
    def busy(self) -> bool:
        return bool(self._jobs)

    def admit(self, jobs: Sequence[Job]) -> None:
        """Gives free rows something to do. All but a prompt's last token go into the cache now."""
        rows = self.free[: len(jobs)]
        self._jobs |= dict(zip(rows, jobs, strict=True))
        prompts = [list(map(int, job.request.prompt_token_ids)) for job in jobs]
        with attending(*self._decoders):
            for decoder in self._decoders:
                decoder.prefill([prompt[:-1] for prompt in prompts], rows)
        row_R = torch.tensor(rows, device=self._done_B.device)
        for state_B, values in (
            (self._token_B, [prompt[-1] for prompt in prompts]),
            (self._position_B, [len(prompt) - 1 for prompt in prompts]),
            (self._limit_B, [job.limit for job in jobs]),
            (self._seed_B, [job.request.seed for job in jobs]),
            (self._count_B, [0] * len(jobs)),
            (self._done_B, [False] * len(jobs)),
        ):
            state_B[row_R] = torch.tensor(values, dtype=state_B.dtype, device=state_B.device)

    def run(self) -> None:
        """Gives every row that has not ended its next tokens; on a GPU this does not wait."""
        if self._graph:
            for _ in range(_BURST):
                self._graph.replay()
            self.steps += _BURST
        else:
            with attending(*self._decoders):
                self._step()
            self.steps += 1

    def finished(self) -> list[tuple[int, Completion]]:
        """The index and the completion of each row that has ended since the last call."""
        is_done = self._done_B.tolist()
        rows = [row for row in self._jobs if is_done[row]]
        if not rows:
            return []
        row_R = torch.tensor(rows, device=self._done_B.device)
        counts = self._count_B[row_R].tolist()
        longest = max(counts)
        tokens = self._tokens_BT[row_R, :longest].tolist()
        logps, policy_logps = self._logps_2BT[:, row_R, :longest].tolist()
        ends = set(self._ends_E.tolist())
        made = []
        for i, (row, count) in enumerate(zip(rows, counts, strict=True)):
            completion = Completion(
                tokens[i][:count],
                logps[i][:count],
                "stop" if tokens[i][count - 1] in ends else "length",
                policy_logps[i][:count] if self._memory else None,
            )
            made.append((self._jobs.pop(row).index, completion))
        return made

    @torch.no_grad()
    def _step(self) -> None:
        position_B = torch.where(self._done_B, 0, self._position_B)
        logits_BV, memory_BV = self._logits(position_B)
        seed_B = seeds_at(self._seed_B, self._count_B)
        drawn = draw(logits_BV, seed_B, self._sampling, memory_BV=memory_BV)
        column_B1 = torch.where(self._done_B, self._width, self._count_B)[:, None]
        self._tokens_BT.scatter_(1, column_B1, drawn.token_B[:, None])
        self._logps_2BT[0].scatter_(1, column_B1, drawn.logp_B[:, None])
        self._logps_2BT[1].scatter_(1, column_B1, drawn.policy_logp_B[:, None])
        live_B = ~self._done_B
        self._token_B.copy_(torch.where(live_B, drawn.token_B, self._token_B))
        self._position_B.add_(live_B)
        self._count_B.add_(live_B)
        ended_B = (drawn.token_B[:, None] == self._ends_E).any(-1)
        self._done_B.logical_or_(ended_B | (self._count_B >= self._limit_B))

    def _logits(self, position_B: Tensor) -> tuple[Tensor, Tensor | None]:
        """Those of both models; on a GPU the memory's are made on a stream of their own."""
        if self._memory is None:
            return self._policy.logits(self._token_B, position_B), None
        if self._side is None:
            logits_BV = self._policy.logits(self._token_B, position_B)
            return common(logits_BV, self._memory.logits(self._token_B, position_B))
        here = torch.cuda.current_stream()
        self._side.wait_stream(here)
        with torch.cuda.stream(self._side):
            memory_BV = self._memory.logits(self._token_B, position_B)
        logits_BV = self._policy.logits(self._token_B, position_B)
        here.wait_stream(self._side)
        return common(logits_BV, memory_BV)

    def _capture(self) -> torch.cuda.CUDAGraph:
        """The step as a graph. Every row has ended, so that the steps before change nothing."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        graph = torch.cuda.CUDAGraph()
        with attending(*self._decoders):
            with torch.cuda.stream(stream):  # compiles kernels and makes the caches
                for _ in range(2):
                    self._step()
            torch.cuda.current_stream().wait_stream(stream)
            with torch.cuda.graph(graph):
                self._step()
        return graph


def common(logits_BV: Tensor, memory_BV: Tensor) -> tuple[Tensor, Tensor]:
    """The tokens that both output heads have; those behind are padding and never sampled."""
    size = min(logits_BV.shape[-1], memory_BV.shape[-1])
    return logits_BV[:, :size], memory_BV[:, :size]


def draw(
    logits_BV: Tensor,
    seed_B: Tensor,
    sampling: SamplingParams,
    *,
    memory_BV: Tensor | None = None,
) -> Sample:
    """A token of each row, with the noise of its seed at position 0; the likeliest at temperature 0

    From the policy less `mu` times the memory where there is one. Log-probs are those of the
    distribution sampled from: after temperature, top-k and top-p; at temperature 0, of the unscaled
    policy.
    """
    if sampling.top_k:
        kept = logits_BV.topk(min(sampling.top_k, logits_BV.shape[-1]), -1)
        left_BV = torch.full_like(logits_BV, -torch.inf)
        logits_BV = left_BV.scatter(-1, kept.indices, kept.values)
    if sampling.temperature > 0:
        return dispatch.sample(
            logits_BV, seed_B, 0, temperature=sampling.temperature, top_p=sampling.top_p,
            memory_BV=memory_BV, mu=sampling.mu, min_prob=sampling.min_prob,
        )  # fmt: skip
    token_B = logits_BV.argmax(-1)
    logp_B = logits_BV.float().log_softmax(-1).gather(-1, token_B[:, None])[:, 0]
    return Sample(token_B, logp_B, logp_B)
