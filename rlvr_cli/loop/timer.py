"""The seconds that the stages of a step take."""

import time
from collections.abc import Callable
from typing import Any


class Clock:
    """Calls stages and keeps the seconds of each, without those of a stage called within it."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Begins a step, of which no stage was called yet."""
        self.seconds: dict[str, float] = {}

    def __call__(self, name: str, stage: Callable, *arguments: Any, **options: Any) -> Any:
        start, before = time.perf_counter(), sum(self.seconds.values())
        made = stage(*arguments, **options)
        within = sum(self.seconds.values()) - before
        self.seconds[name] = time.perf_counter() - start - within
        return made
