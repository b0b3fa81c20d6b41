"""What gpu_step.py and gpu_step_trl.py say of a step: seconds, watts, memory and MFU, by phase.

Model FLOPs are those of training, once each whatever is computed again, and none of sampling: 6 of
each weight of the layers' matrix products for a token of prompt or completion, 6 of each weight of
the head for a token of a completion, and 6 x layers x heads x head size x length^2 of a row for its
causal attention. A weight that is frozen below adapters takes 4, the adapters' own take 6. MFU is
their share of what the card computes in the same seconds at its dense bfloat16 rate.
"""

import atexit
import contextlib
import functools
import itertools
import os
import pty
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

DATASHEET = 989e12  # FLOP/s of an H100 or H200 in bfloat16, dense
MEASURED = 790e12  # of large bfloat16 products on an H200
APART = ("start", "checkpoint")  # phases that are no part of the step's seconds
Manager = Callable[[], contextlib.AbstractContextManager[Any]]


def training_flops(
    config: dict[str, Any], rows: Iterable[tuple[int, int]], lora_rank: int = 0
) -> float:
    """Of rows given by the tokens of their prompt and completion; `config` is a Llama or Qwen2."""
    hidden, layers, inner = (
        config[name] for name in ("hidden_size", "num_hidden_layers", "intermediate_size")
    )
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    size = config.get("head_dim") or hidden // heads
    queries, keys = heads * size, kv_heads * size
    maps = [(hidden, queries), *[(hidden, keys)] * 2, (queries, hidden), *[(hidden, inner)] * 3]
    base = 4 if lora_rank else 6
    layer = sum(base * a * b + 6 * lora_rank * (a + b) for a, b in maps)
    head = base * hidden * config["vocab_size"]
    return float(
        sum(
            layers * layer * (prompt + completion)
            + head * completion
            + 6 * layers * queries * (prompt + completion) ** 2
            for prompt, completion in rows
        )
    )


def run_within(manager: Manager, owner: Any, name: str) -> Callable[[], None]:
    """Has a function of a module, a class or an object run within a context; undone by calling."""
    inner = getattr(owner, name)

    @functools.wraps(inner)
    def wrapper(*arguments: Any, **options: Any) -> Any:
        with manager():
            return inner(*arguments, **options)

    setattr(owner, name, wrapper)
    return lambda: setattr(owner, name, inner)


class Meter:
    """Seconds of the phases of a step, each without those within it, and what the card drew.

    The card is asked five times a second, from another thread; without one there are no watts.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._phases: list[str] = []  # the last is the one that runs, within the others
        self._samples: list[tuple[str, float | None, float]] = []  # phase, watts, MiB
        self._since = 0.0
        self._smi, terminal = _nvidia_smi()
        if self._smi:
            atexit.register(self.close)
            threading.Thread(target=self._sample, args=(terminal,), daemon=True).start()

    def close(self) -> None:
        if self._smi:
            self._smi.terminate()

    def _sample(self, terminal: int) -> None:
        for line in _lines(terminal):
            *watts, mib = map(_number, line.split(","))
            with contextlib.suppress(IndexError):  # no step runs
                known = next((value for value in watts if value is not None), None)
                self._samples.append((self._phases[-1], known, mib or 0.0))

    def begin(self, rest: str) -> None:
        """Starts a step, whose seconds outside its phases are called `rest`."""
        self.seconds, self._samples = {}, []
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        _wait()
        self._since, self._phases = time.perf_counter(), [rest]

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """A phase of a step; it is not counted where no step has begun."""
        if not self._phases:
            yield
            return
        self._switch()
        self._phases.append(name)
        yield
        self._switch()
        self._phases.pop()

    def end(self) -> None:
        self._switch()
        self._phases = []

    def _switch(self) -> None:
        """Gives the phase that ran until now its seconds."""
        _wait()
        moment, name = time.perf_counter(), self._phases[-1]
        self.seconds[name] = self.seconds.get(name, 0.0) + moment - self._since
        self._since = moment

    def record(
        self, config: dict[str, Any], rows: list[tuple[int, int]], trained: int, lora_rank: int = 0
    ) -> dict[str, Any]:
        """What the step was that ended last, of rows by tokens of prompt and completion."""
        sampled = sum(completion for _, completion in rows)
        whole = sum(value for name, value in self.seconds.items() if name not in APART)
        flops = training_flops(config, rows, lora_rank)
        update = self.seconds["update"]
        mib = max((mib for *_, mib in self._samples), default=0.0)
        allocated = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0
        return {
            "seconds": {name: round(value, 3) for name, value in self.seconds.items()},
            "whole": round(whole, 3),
            "sampled": sampled,
            "trained": trained,
            "rollout_tokens_s": round(sampled / self.seconds["rollout"]),
            "update_tokens_s": round(trained / update),
            "flops": flops,
            "mfu": {
                "update": float(f"{flops / update / DATASHEET:.3g}"),
                "whole": float(f"{flops / whole / DATASHEET:.3g}"),
            },
            "watts": watts(self._samples),
            "gib": {
                "torch": round(allocated / 2**30, 1) or None,
                "card": round(mib / 1024, 1) or None,
            },
        }


def watts(samples: list[tuple[str, float | None, float]]) -> dict[str, int | None]:
    """The mean of each phase, and of the complete step but what is apart; None where unknown."""
    by_phase: dict[str, list[float]] = {}
    for name, value, _ in samples:
        if value is not None:
            by_phase.setdefault(name, []).append(value)
    counted = [values for name, values in by_phase.items() if name not in APART]
    of_step = list(itertools.chain(*counted))
    means = {name: round(sum(values) / len(values)) for name, values in by_phase.items()}
    return {**means, "whole": round(sum(of_step) / len(of_step)) if of_step else None}


def _number(text: str) -> float | None:
    """What nvidia-smi says, or None for its [N/A]."""
    try:
        return float(text)
    except ValueError:
        return None


def _nvidia_smi() -> tuple[subprocess.Popen[bytes] | None, int]:
    """It says watts of the moment, watts of the last second and MiB in use, five times a second.

    It writes to a terminal, as a pipe may get its lines late; None where there is no nvidia-smi.
    """
    card = os.environ.get("CUDA_VISIBLE_DEVICES", "").partition(",")[0] or "0"
    fields = "power.draw.instant,power.draw,memory.used"
    command = ["nvidia-smi", "-i", card, f"--query-gpu={fields}", "-lms", "200"]
    try:
        ours, its = pty.openpty()
        with open(its, "wb") as terminal:
            return subprocess.Popen(
                [*command, "--format=csv,noheader,nounits"],
                stdin=subprocess.DEVNULL, stdout=terminal, stderr=subprocess.DEVNULL,
            ), ours  # fmt: skip
    except OSError:
        return None, -1


def _lines(terminal: int) -> Iterator[str]:
    with open(terminal, errors="replace") as file, contextlib.suppress(OSError):  # it has ended
        yield from file


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
