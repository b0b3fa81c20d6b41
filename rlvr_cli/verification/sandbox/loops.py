"""An event loop of asyncio without sockets, as the filter of system calls refuses them.

It runs inside the sandbox and imports only the standard library; asyncio not before it is needed,
as its work after each fork takes long.
"""

import functools
import time
from typing import Any

_LOOK_S = 0.001  # between two looks at what threads have done


class _Nothing:
    """A selector that only waits."""

    def select(self, timeout: float | None = None) -> list[Any]:
        import threading

        if timeout is None or threading.active_count() > 1:
            timeout = _LOOK_S if timeout is None else min(timeout, _LOOK_S)
        time.sleep(max(timeout, 0.0))
        return []


@functools.cache
def _policy() -> Any:
    import asyncio

    class Loop(asyncio.base_events.BaseEventLoop):
        def __init__(self) -> None:
            super().__init__()
            self._selector = _Nothing()

        def _process_events(self, events: list[Any]) -> None:
            pass

        def _write_to_self(self) -> None:
            pass

    class Policy(asyncio.DefaultEventLoopPolicy):
        _loop_factory = Loop

    return Policy()


def install() -> None:
    """Has `asyncio.run` and its like use this loop."""
    import asyncio

    asyncio.set_event_loop_policy(_policy())
