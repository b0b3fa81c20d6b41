"""A static cache and one captured CUDA graph a token; rows are refilled as they end.

It samples from the weights that it is given, those of a trainer in the same process say, so there
is nothing to hand over. Without a GPU the same steps run one by one.
"""

from collections import deque
from collections.abc import Iterator, Sequence

from rlvr_cli import device
from rlvr_cli import policy as policies
from rlvr_cli.errors import UserError
from rlvr_cli.forward import fit_threads
from rlvr_cli.policy import Loaded
from rlvr_cli.protocols import Completion, Request, SamplingParams
from rlvr_cli.rollout._decoder import Decoder
from rlvr_cli.rollout._slots import Job, Slots

ROWS = 256
_PLACES = 64  # what the length of the cache is rounded up to
_SHARE = 0.9  # of the free memory, that may be filled
_REFILL = 8  # rows are refilled as soon as one in so many is free


def build(*, rows: int = ROWS):
    """An engine that decodes `rows` completions at a time, or as many as there is memory for."""
    if rows < 1:
        raise ValueError("rows must be 1 or more")
    return lambda policy, loaded=None, lora_rank=0: Engine(
        loaded or policies.load(policy, frozen=True), rows
    )


class Engine:
    """On a CPU a completion depends, to the bit, on the requests that are made with it at most in
    how many there are; on a GPU a row may differ in the last bits between numbers of rows."""

    own_weights = False

    def __init__(self, loaded: Loaded, rows: int = ROWS) -> None:
        self._loaded, self._most = loaded, rows
        self.streams = loaded.model.device.type == "cuda"

    def generate(
        self,
        requests: list[Request],
        sampling: SamplingParams,
        limits: Sequence[int] | None = None,
    ) -> Iterator[tuple[int, Completion]]:
        """See `RolloutEngine`; with `limits`, the most tokens of each request."""
        if not requests:
            return
        fit_threads(self._loaded.model)
        limits = limits or [sampling.max_new_tokens] * len(requests)
        waiting = deque(map(Job, range(len(requests)), requests, limits))
        slots = self._slots(requests, sampling, max(limits))
        made: list[tuple[int, Completion]] = []
        while waiting or slots.busy:
            free = len(slots.free)
            if waiting and (not slots.busy or free * _REFILL >= slots.rows):
                slots.admit([waiting.popleft() for _ in range(min(free, len(waiting)))])
            slots.run()
            yield from made  # a GPU is at work meanwhile
            made = slots.finished()
        yield from made

    def _slots(self, requests: list[Request], sampling: SamplingParams, width: int) -> Slots:
        longest = max(len(request.prompt_token_ids) for request in requests)
        length = -(-(longest + width) // _PLACES) * _PLACES
        rows = min(self._most, 1 << (len(requests) - 1).bit_length())
        rows = self._fitting(rows, length)
        decoder = Decoder(self._loaded.model, rows, length)
        return Slots(decoder, rows, sampling, self._loaded.eos_ids, width)

    def _fitting(self, rows: int, length: int) -> int:
        """As many rows as there is memory for, halved until it is enough."""
        model, place = self._loaded.model, device.here()
        if place.kind != "cuda":
            return rows
        policies.free_unused()
        free, each = _SHARE * device.here().free, row_bytes(model, length)
        while rows * each > free:
            if rows == 1:
                raise UserError(
                    f"a completion of {length} tokens needs {each >> 20} MiB, "
                    f"{int(free) >> 20} MiB of {place.name} are free",
                    "lower --max-new-tokens",
                )
            rows //= 2
        return rows


def row_bytes(model: object, length: int) -> int:
    """What a row takes of the device: keys and values, logits, and what samples from those."""
    config = model.config.get_text_config()  # type: ignore[attr-defined]
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    number = next(model.parameters()).element_size()  # type: ignore[attr-defined]
    cache = 2 * config.num_hidden_layers * heads * size * number * length
    return cache + 8 * config.vocab_size
