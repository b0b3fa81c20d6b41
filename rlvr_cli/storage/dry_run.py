"""A dry run of a stage: it makes every check, and stops before it writes anything."""

from collections.abc import Callable
from contextvars import ContextVar

_IS_DRY: ContextVar[bool] = ContextVar("is_dry", default=False)


class _Stop(BaseException):
    """The stage would write now. Handlers of `Exception` must let it pass."""


def run(stage: Callable[[], object]) -> None:
    """Calls a stage and ends it where it calls `stop`."""
    token = _IS_DRY.set(True)
    try:
        stage()
    except _Stop:
        pass
    finally:
        _IS_DRY.reset(token)


def stop() -> None:
    """Ends a dry run; does nothing otherwise."""
    if _IS_DRY.get():
        raise _Stop
