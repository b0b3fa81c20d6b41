"""Warnings and log records of a program, for tests that expect them in their own process.

It runs inside the sandbox and imports only the standard library.
"""

import logging
import warnings
from collections.abc import Callable
from typing import Any


def send(report: Callable[..., None]) -> None:
    """In the program's process: reports each; the tests' own filters and levels decide."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            report("logged", record.name, record.levelno, record.getMessage())

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        if not issubclass(category, ResourceWarning):
            report("warned", message)

    warnings.simplefilter("always")
    warnings.showwarning = show
    logging.root.addHandler(Handler())
    logging.root.setLevel(1)


def warned(message: Any) -> None:
    """In the tests' process: a warning of the program."""
    if not isinstance(message, Warning):
        raise TypeError("it is no warning")
    warnings.warn(message, stacklevel=2)


def logged(name: str, level: int, message: str) -> None:
    """In the tests' process: a log record of the program."""
    logger = logging.getLogger(None if name == "root" else str(name))
    logger.log(int(level), "%s", str(message))
