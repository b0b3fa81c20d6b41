"""Keeps text that a program returned from being executed where the tests are.

A gold such as `assert eval(candidate()) == 24` would let the program decide its own verdict: what
runs with the tests can report whatever it likes. So the process of the tests executes the tests,
the modules that they import, and nothing else. It runs inside the sandbox and imports only the
standard library.
"""

import collections
import dataclasses
import os
import sys
from types import FrameType
from typing import Any

HARNESS = "<rlvr "  # how the file names of what runs inside begin
REFUSED: list[str] = []  # what was refused; the tests may have caught the error
_IMPORT = ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>")
_MAKERS = (collections.__file__, dataclasses.__file__)  # they execute templates of names they check
_EVENTS = {
    "exec": "execute text or code (eval, exec)",
    "function.__new__": "make a function of code",
    "marshal.loads": "read code (marshal)",
    "pickle.find_class": "read objects that may execute code (pickle)",
}


class Refused(BaseException):
    """The tests would have executed what a program may have written."""


_TRUSTED: list[str] = []  # the folders of modules


def prepare(folders: list[str]) -> None:
    """Says which folders hold modules that tests may import."""
    _TRUSTED[:] = [os.path.realpath(folder) + os.sep for folder in folders]


def arm() -> None:
    """From now on this process executes the tests and trusted modules; there is no way back.

    An audit hook of the interpreter refuses them: it is called before each execution.
    """
    trusted = tuple(_TRUSTED)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in _EVENTS:
            return
        frame = sys._getframe(1)
        caller = frame.f_code.co_filename
        if caller.startswith(HARNESS):
            return
        if caller in _IMPORT and (event != "exec" or _is_module(arguments[0], trusted)):
            return
        if event in ("exec", "function.__new__") and caller in _MAKERS:
            return
        gold: FrameType | None = frame
        while gold and (
            gold.f_code.co_filename.startswith("<") or os.sep in gold.f_code.co_filename
        ):
            gold = gold.f_back  # what is no file has a name without either
        place = f" in line {gold.f_lineno}" if gold else ""
        REFUSED.append(
            f"the tests{place} {_EVENTS[event]}: what a program returns must not run beside them"
        )
        raise Refused(REFUSED[0])

    sys.addaudithook(hook)


def _is_module(code: Any, trusted: tuple[str, ...]) -> bool:
    name: str = code.co_filename
    return name.startswith("<frozen ") or os.path.realpath(name).startswith(trusted)
