"""A stage up to where it would write: what it refuses is refused, and nothing is made."""

from collections.abc import Callable
from contextvars import ContextVar

_REHEARSES: ContextVar[bool] = ContextVar("rehearses", default=False)


class _Done(BaseException):
    """The stage would write now; no handler of errors may take it for one."""


def rehearse(stage: Callable[[], object]) -> None:
    """Calls a stage and ends it where `end` is called."""
    token = _REHEARSES.set(True)
    try:
        stage()
    except _Done:
        pass
    finally:
        _REHEARSES.reset(token)


def end() -> None:
    """Ends a rehearsal; does nothing in earnest."""
    if _REHEARSES.get():
        raise _Done
