"""Rollouts with transformers' own generate: the CPU default.

On a GPU the key-value cache is static, so that transformers compiles a decoding step and replays it
as one CUDA graph. Shapes are rounded up there, since each new shape is compiled again.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from rlvr_cli.models import lm_head, policy as policies, stops
from rlvr_cli.models.policy import Loaded
from rlvr_cli.protocols import Completion, Request, SamplingParams
from rlvr_cli.runtime import later
from rlvr_cli.runtime.later import torch

if TYPE_CHECKING:
    import transformers
    from torch import Tensor

    from rlvr_cli.engines.rollout import _probe
    from rlvr_cli.kernels import dispatch, reference
    from rlvr_cli.models import images, logprobs
else:
    _probe = later.Later("rlvr_cli.engines.rollout._probe")
    transformers = later.Later("transformers")
    dispatch = later.Later("rlvr_cli.kernels.dispatch")
    reference = later.Later("rlvr_cli.kernels.reference")
    images = later.Later("rlvr_cli.models.images")
    logprobs = later.Later("rlvr_cli.models.logprobs")

BATCH_SIZE = 256
_LEAST_ROWS, _PROMPT_TOKENS = 32, 64  # shapes are rounded up to these on a GPU


def build(*, batch_size: int = BATCH_SIZE) -> Callable[..., TransformersEngine]:
    """An engine that samples `batch_size` completions at a time."""
    if batch_size < 1:
        raise ValueError("batch_size must be 1 or more")
    return lambda policy, loaded=None, lora_rank=0, memory_model=None: TransformersEngine(
        loaded or policies.load(policy, frozen=True), batch_size, memory_model=memory_model
    )


class TransformersEngine:
    supports_continuous_batching = False
    needs_weight_sync = False

    def __init__(
        self, loaded: Loaded, batch_size: int = BATCH_SIZE, *, memory_model: Loaded | None = None
    ) -> None:
        self._loaded, self._memory_model = loaded, memory_model
        self._batch_size = batch_size

    def generate(
        self, requests: list[Request], sampling: SamplingParams
    ) -> Iterator[tuple[int, Completion]]:
        if requests:
            self._check(requests)
        for start in range(0, len(requests), self._batch_size):
            batch = requests[start : start + self._batch_size]
            yield from enumerate(self._batch(batch, sampling), start)

    @later.no_grad
    def _check(self, requests: list[Request]) -> None:
        """Whether padded prompts and a cache give what a forward pass gives."""
        model, texts = self._loaded.model, _probe.texts(self._loaded, requests)
        if self._batch_size == 1:  # then no prompt is padded
            texts = texts[-1:]
            hint = "sample with --engine vllm, or with another model"
        else:
            hint = "sample with --engine transformers:batch_size=1, which pads no prompt"
        decode = functools.partial(self._decoded, texts)
        _probe.check(model, texts, decode, "transformers", hint)

    def _decoded(self, texts: list[list[int]]) -> Tensor:
        """The logits [B, T, V] before each of the last tokens of texts, by `generate`."""
        model, steps = self._loaded.model, _probe.STEPS
        requests = [Request(text[:-steps], 0) for text in texts]
        device = next(model.parameters()).device
        input_BS, attention_BS = _padded(requests, self._loaded.pad_id, 1, device)
        following = _Following(torch.tensor([text[-steps:] for text in texts], device=device))
        model.generate(
            input_BS,
            attention_mask=attention_BS.long(),
            generation_config=transformers.GenerationConfig(
                do_sample=False,
                max_new_tokens=steps,
                eos_token_id=[-1],  # none: a prompt may hold those that end a completion
                pad_token_id=self._loaded.pad_id,
            ),
            logits_processor=transformers.LogitsProcessorList([following]),
        )
        return torch.stack(following.logits, 1)

    @later.no_grad
    def _batch(self, requests: list[Request], sampling: SamplingParams) -> list[Completion]:
        loaded = self._loaded
        logprobs.fit_threads(loaded.model)
        device = next(loaded.model.parameters()).device
        wanted, static = len(requests), device.type == "cuda"
        multiple = _PROMPT_TOKENS if static else 1
        if static:
            rows = max(_LEAST_ROWS, 1 << (wanted - 1).bit_length())
            requests = requests + requests[-1:] * (rows - wanted)
        input_BS, attention_BS = _padded(requests, loaded.pad_id, multiple, device)
        seed_B = torch.tensor([request.seed for request in requests], device=device)
        memory_logits = None
        if sampling.mu:
            assert self._memory_model, "the stage gives one"
            memory_logits = MemoryLogits(self._memory_model.model, attention_BS)
        sampler = GumbelSampler(seed_B, sampling, memory_logits)
        stop = stops.StopStrings(loaded.tokenizer, sampling.stop)
        shown = [request.images for request in requests]
        pixels = images.inputs(loaded.model, input_BS, shown)
        with images.seen_once(loaded.model, shown):
            loaded.model.generate(
                input_BS,
                attention_mask=attention_BS.long(),
                generation_config=transformers.GenerationConfig(
                    do_sample=False,
                    max_new_tokens=sampling.max_new_tokens,
                    eos_token_id=list(loaded.eos_ids),
                    pad_token_id=loaded.pad_id,
                    cache_implementation="static" if static else None,
                ),
                logits_processor=transformers.LogitsProcessorList([sampler]),
                stopping_criteria=transformers.StoppingCriteriaList(
                    [StopCriterion(stop)] if stop else []
                ),
                **pixels,
            )
        token_BT = torch.stack(sampler.token, 1)[:wanted]
        logp_BT = torch.stack(sampler.logp, 1)[:wanted]
        policy: list[Any] = [None] * wanted
        if memory_logits:
            policy = torch.stack(sampler.policy_logp, 1)[:wanted].tolist()
        return [
            stop.cut(_cut(*row, loaded.eos_ids))
            for row in zip(token_BT.tolist(), logp_BT.tolist(), policy, strict=True)
        ]


def _padded(
    requests: list[Request], pad_id: int, multiple: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """The prompts [B, S], padded on the left to a multiple of so many tokens, and their mask."""
    longest = max(len(request.prompt_token_ids) for request in requests)
    longest = -(-longest // multiple) * multiple
    padding = [longest - len(request.prompt_token_ids) for request in requests]
    input_BS = torch.tensor(
        [
            [pad_id] * left + request.prompt_token_ids
            for left, request in zip(padding, requests, strict=True)
        ],
        device=device,
    )
    padding_B = torch.tensor(padding, device=device)
    return input_BS, torch.arange(longest, device=device) >= padding_B.unsqueeze(1)


def _cut(
    tokens: list[int], logps: list[float], policy: list[float] | None, eos_ids: tuple[int, ...]
) -> Completion:
    ends = [index for index, token in enumerate(tokens) if token in eos_ids]
    size = ends[0] + 1 if ends else len(tokens)
    reason: Literal["stop", "length"] = "stop" if ends else "length"
    return Completion(tokens[:size], logps[:size], reason, policy[:size] if policy else None)


class StopCriterion:
    """Ends the rows whose last token completes a stop string, as transformers' criteria do."""

    def __init__(self, stop: stops.StopStrings) -> None:
        self._stop, self._prompt_tokens = stop, 0

    def __call__(self, input_ids: Tensor, scores: Any, **kwargs: Any) -> Tensor:
        self._prompt_tokens = self._prompt_tokens or input_ids.shape[1] - 1
        start = max(self._prompt_tokens, input_ids.shape[1] - self._stop.window)
        ended = [self._stop.ends(row) for row in input_ids[:, start:].tolist()]
        return torch.tensor(ended, device=input_ids.device)


class _Following:
    """A logits processor: the next tokens are given ones [B, T], and it keeps the logits."""

    def __init__(self, token_BT: Tensor) -> None:
        self._token_BT = token_BT
        self.logits: list[Tensor] = []

    def __call__(self, input_ids: Any, scores: Tensor) -> Tensor:
        token_B1 = self._token_BT[:, len(self.logits), None]
        self.logits.append(scores)
        return torch.full_like(scores, -torch.inf).scatter(-1, token_B1, 0.0)


class MemoryLogits:
    """The memory model's logits along a batch, whose prompts are padded at the left."""

    def __init__(self, model: Any, attention_BS: Tensor) -> None:
        self._model, self._attention_BS = model, attention_BS.long()
        self._cache = transformers.DynamicCache(config=model.config)
        # what releases of transformers call the cache; `past_key_values` is the older name
        names = inspect.signature(model.forward).parameters
        self._given = {"cache" if "cache" in names else "past_key_values": self._cache}

    def logits(self, input_BS: Tensor) -> Tensor:
        """The logits of the next token [B, V], given all tokens so far."""
        seen = self._cache.get_seq_length()
        one_B1 = self._attention_BS.new_ones(len(input_BS), 1)
        if seen:
            self._attention_BS = torch.cat([self._attention_BS, one_B1], 1)
        position_BS = (self._attention_BS.cumsum(-1) - 1).clamp(min=0)
        logits_BSV: Tensor = self._model(
            input_BS[:, seen:],
            attention_mask=self._attention_BS,
            position_ids=position_BS[:, seen:],
            logits_to_keep=1,
            **self._given,
        ).logits
        return logits_BSV[:, -1]


class GumbelSampler:
    """A logits processor: argmax of logits plus counter-based noise, and it keeps the log-probs.

    A row's sample depends only on its seed and its logits, not on its batch-mates. Log-probs are
    those of the distribution sampled from: after temperature, top-k and top-p; at temperature 0,
    of the unscaled policy.
    """

    def __init__(
        self, seed_B: Tensor, sampling: SamplingParams, memory: MemoryLogits | None = None
    ) -> None:
        self._seed_B = seed_B
        self._sampling = sampling
        self._memory = memory
        self.policy_logp: list[Tensor] = []
        self.token: list[Tensor] = []
        self.logp: list[Tensor] = []

    def __call__(self, input_ids: Any, scores: Tensor) -> Tensor:
        if self._memory:
            return self._minus_memory(scores, self._memory.logits(input_ids))
        logp_BV = (scores.float() / (self._sampling.temperature or 1.0)).log_softmax(-1)
        logp_BV = _restrict(logp_BV, self._sampling)
        noisy_BV = logp_BV.double()
        if self._sampling.temperature > 0:
            noisy_BV = noisy_BV + reference.gumbel(self._seed_B, len(self.token), logp_BV.shape[-1])
        token_B1 = noisy_BV.argmax(-1, keepdim=True)
        self.token.append(token_B1[:, 0])
        self.logp.append(logp_BV.gather(-1, token_B1)[:, 0])
        return torch.full_like(scores, -torch.inf).scatter(-1, token_B1, 0.0)

    def _minus_memory(self, scores: Tensor, memory_BV: Tensor) -> Tensor:
        sampling = self._sampling
        logits_BV, memory_BV = lm_head.shared_vocab_logits(scores, memory_BV)
        drawn = dispatch.sample(
            logits_BV, self._seed_B, len(self.token), memory_BV=memory_BV, mu=sampling.mu,
            min_prob=sampling.min_prob, temperature=sampling.temperature, top_p=sampling.top_p,
        )  # fmt: skip
        self.token.append(drawn.token_B)
        self.logp.append(drawn.logp_B)
        self.policy_logp.append(drawn.policy_logp_B)
        return torch.full_like(scores, -torch.inf).scatter(-1, drawn.token_B[:, None], 0.0)


def _restrict(logp_BV: Tensor, sampling: SamplingParams) -> Tensor:
    """Renormalises over the top_k likeliest tokens and the nucleus of mass top_p."""
    if sampling.top_k:
        likeliest = logp_BV.topk(min(sampling.top_k, logp_BV.shape[-1]), -1)
        logp_BV = torch.full_like(logp_BV, -torch.inf).scatter(
            -1, likeliest.indices, likeliest.values
        )
        logp_BV = logp_BV.log_softmax(-1)
    if sampling.top_p < 1:
        ordered_BV, order_BV = logp_BV.sort(-1, descending=True)
        mass_before_BV = ordered_BV.exp().cumsum(-1) - ordered_BV.exp()
        ordered_BV = ordered_BV.masked_fill(mass_before_BV >= sampling.top_p, -torch.inf)
        logp_BV = torch.empty_like(logp_BV).scatter(-1, order_BV, ordered_BV).log_softmax(-1)
    return logp_BV
