"""A static cache and one captured CUDA graph per token; rows are refilled as they end.

When no request waits any more, the busy rows are compacted and fewer are decoded. It samples from
the model that it is given, such as a trainer's in the same process, so it needs no weight sync.
Without a GPU the same steps run one by one.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from rlvr_cli.errors import UserError
from rlvr_cli.models import key_heads, policy as policies, stops
from rlvr_cli.models.policy import Loaded
from rlvr_cli.protocols import Completion, Request, SamplingParams
from rlvr_cli.runtime import device, later

if TYPE_CHECKING:
    from rlvr_cli.engines.rollout import _attend, _batch, _decoder, _probe
    from rlvr_cli.models import compiled_layers, logprobs
else:
    _attend = later.Later("rlvr_cli.engines.rollout._attend")
    _batch = later.Later("rlvr_cli.engines.rollout._batch")
    _decoder = later.Later("rlvr_cli.engines.rollout._decoder")
    _probe = later.Later("rlvr_cli.engines.rollout._probe")
    compiled_layers = later.Later("rlvr_cli.models.compiled_layers")
    logprobs = later.Later("rlvr_cli.models.logprobs")

EARLIER = {"noise": 1, "merge": False, "deterministic": False, "cache": "model"}

Fuse = Literal["auto", "true", "false"]
Cache = Literal["model", "int8"]
ROWS, LEAST_ROWS = 256, 8
_LENGTH_STEP = 64  # what the length of the cache is rounded up to
_SHARE = 0.9  # of the free memory, that may be filled
_REFILL = 8  # rows are refilled as soon as one in so many is free


def build(
    *,
    rows: int = ROWS,
    least_rows: int = LEAST_ROWS,
    fuse: Fuse = "auto",
    noise: int = 2,
    merge: bool = True,
    deterministic: bool = False,
    cache: Cache = "model",
) -> Callable[..., GraphEngine]:
    """An engine that decodes `rows` completions at a time, or as many as there is memory for.

    Down to `least_rows` as they end; on a GPU also if fewer are requested. `fuse` has
    torch.compile fuse the kernels of a decoder layer, once a process; auto does so on a GPU.

    `noise` 2 draws tokens in one pass, with noise that lets the rarest token win and with top-k and
    top-p that keep equals; noise 1, which directories without either are of, draws other tokens.
    `merge` computes queries, keys and values as one product, and gate and up. `deterministic` gives
    a completion the same bits whatever is decoded with it, before and after an interruption, for a
    quarter of the speed on a GPU; on a CPU each row is computed by itself. `cache` int8 keeps keys
    and values as 8-bit integers with a scale a position and head, in place of the model's dtype;
    log-probs then differ from the trainer's.
    """
    for name, value in (("rows", rows), ("least_rows", least_rows)):
        if value < 1:
            raise ValueError(f"{name} must be 1 or more")
    if noise not in (1, 2):
        raise ValueError("noise must be 1 or 2")
    return lambda policy, loaded=None, lora_rank=0, memory_model=None: GraphEngine(
        loaded or policies.load(policy, frozen=True),
        rows,
        least_rows=least_rows,
        fuse={"auto": None, "true": True, "false": False}[fuse],
        noise=noise,
        merge=merge,
        deterministic=deterministic,
        cache=cache,
        memory_model=memory_model,
    )


class GraphEngine:
    """A completion depends on its prompt and seed, not on its row or on what the other rows have.

    Its last bits, and with them now and then a token, depend on the shapes that it is computed in:
    the prompts that are prefilled together with its own, and how many rows are decoded, which are
    fewer as others end. The same requests have the same completions on the same machine. A resumed
    run leaves out the requests that have completions already, so that new samples may differ; on
    the CPU they do not, as each part of a directory is requested by itself. With `deterministic`
    neither its bits nor its tokens depend on them.
    """

    needs_weight_sync = False

    def __init__(
        self,
        loaded: Loaded,
        rows: int = ROWS,
        *,
        least_rows: int = LEAST_ROWS,
        fuse: bool | None = False,
        noise: int = 2,
        merge: bool = True,
        deterministic: bool = False,
        cache: Cache = "model",
        memory_model: Loaded | None = None,
    ) -> None:
        self._loaded, self._most, self._least = loaded, rows, least_rows
        self._fuse, self._memory_model = fuse, memory_model
        self._noise, self._merge, self._deterministic = noise, merge, deterministic
        self.coded = cache == "int8"
        self.supports_continuous_batching = loaded.model.device.type == "cuda"

    def generate(
        self,
        requests: list[Request],
        sampling: SamplingParams,
        limits: Sequence[int] | None = None,
    ) -> Iterator[tuple[int, Completion]]:
        """See `RolloutEngine`; with `limits`, the most tokens of each request."""
        if not requests:
            return
        logprobs.fit_threads(self._loaded.model)
        limits = limits or [sampling.max_new_tokens] * len(requests)
        waiting = deque(map(_batch.GenerationJob, range(len(requests)), requests, limits))
        batch = self._batch(requests, sampling, max(limits))
        completions: list[tuple[int, Completion]] = []
        while waiting or batch.busy:
            free = len(batch.free)
            if waiting and (not batch.busy or free * _REFILL >= batch.rows):
                batch.add([waiting.popleft() for _ in range(min(free, len(waiting)))])
            if not waiting:
                batch.compact()
            batch.run()
            yield from completions  # a GPU works meanwhile
            completions = batch.finished()
        yield from completions

    def _batch(
        self, requests: list[Request], sampling: SamplingParams, width: int
    ) -> _batch.ContinuousBatch:
        longest = max(len(request.prompt_token_ids) for request in requests)
        length = -(-(longest + width) // _LENGTH_STEP) * _LENGTH_STEP
        fewest = self._least if self.supports_continuous_batching else 1
        rows = min(self._most, max(fewest, 1 << (len(requests) - 1).bit_length()))
        models = [self._loaded.model]
        if sampling.mu:
            assert self._memory_model, "the stage gives one"
            models.append(self._memory_model.model)
        rows, least = self._fitting(models, rows, length), self._least
        if self._deterministic and any(map(self._fuses, models)):  # one row is compiled by itself
            rows, least = max(2, rows), max(2, least)
        decoders = [
            _decoder.Decoder(
                model, rows, length, fuse=self._fuses(model), merge=self._merge,
                deterministic=self._deterministic, coded=self.coded,
            )
            for model in models
        ]  # fmt: skip
        self._check(models, requests)
        ends = self._loaded.eos_ids
        stop = stops.StopStrings(self._loaded.tokenizer, sampling.stop)
        return _batch.ContinuousBatch(
            decoders, rows, sampling, ends, width,
            least=least, stop=stop, noise=self._noise,
        )  # fmt: skip

    @later.no_grad
    def _check(self, models: list[Any], requests: list[Request]) -> None:
        """Whether the models decode to what their own forward passes give."""
        texts = _probe.texts(self._loaded, requests)
        for model in models:
            decode = functools.partial(_decoder.decoded, model, texts, _probe.STEPS)
            _probe.check(model, texts, decode, "graph", _attend.INSTEAD)

    def _fuses(self, model: Any) -> bool:
        """The option; if it is auto, whether the model is on a GPU and has layers to compile."""
        if self._fuse is None:
            return model.device.type == "cuda" and bool(compiled_layers.layers_of(model))
        return self._fuse

    def _fitting(self, models: list[Any], rows: int, length: int) -> int:
        """As many rows as there is memory for, halved until it is enough."""
        accelerator = device.here()
        if accelerator.kind != "cuda":
            return rows
        device.free_unused()
        free = _SHARE * device.here().free
        bytes_per_row = sum(row_bytes(model, length, coded=self.coded) for model in models)
        while rows * bytes_per_row > free:
            if rows == 1:
                raise UserError(
                    f"a completion of {length} tokens needs {bytes_per_row >> 20} MiB, "
                    f"{int(free) >> 20} MiB of {accelerator.name} are free",
                    "lower --max-new-tokens",
                )
            rows //= 2
        return rows


def row_bytes(model: Any, length: int, *, coded: bool = False) -> int:
    """The bytes of a row on the device: keys and values, logits, and what sampling needs."""
    config = model.config.get_text_config()
    number, scale = (1, 4) if coded else (next(model.parameters()).element_size(), 0)
    layers = key_heads.of(config)
    cache = 2 * length * sum(layer.heads * (layer.size * number + scale) for layer in layers)
    return int(cache + 8 * config.vocab_size)
