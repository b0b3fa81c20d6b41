"""The seconds that the stages of a step take."""

import contextlib
import time
from collections.abc import Iterator


class Timer:
    """Keeps the seconds of each stage, without those of a stage within it."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def start(self) -> None:
        """Begins a step: no stage of it has run yet."""
        self.seconds = {}

    @contextlib.contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        start, before = time.perf_counter(), sum(self.seconds.values())
        yield
        within = sum(self.seconds.values()) - before
        self.seconds[name] = time.perf_counter() - start - within
