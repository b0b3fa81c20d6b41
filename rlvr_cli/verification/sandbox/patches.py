"""What tests change of the standard library, changed where the program is as well.

It runs inside the sandbox and imports only the standard library.
"""

import os
import sys
import types
from typing import Any

from rlvr_cli.verification.sandbox import objects, pytest_shim
from rlvr_cli.verification.sandbox.tests_side import TestsSide
from rlvr_cli.verification.sandbox.words import Words

_HERE = {  # what a program has from the tests' process anyway
    ("builtins", "input"), ("sys", "stdin"), ("sys", "stdout"), ("sys", "stderr"), ("sys", "argv"),
}  # fmt: skip


def share_patches(side: TestsSide, modules: set[str]) -> None:
    """Has `unittest.mock.patch`, `monkeypatch` and `random.seed` reach the program."""
    if "unittest" in modules:
        from unittest import mock

        _share_mock(side, mock._patch)
    pytest_shim.LISTENERS.append(lambda *what: _send_patch(side, *what))
    if "random" in modules:
        import random

        seed = random.seed

        def seed_both(*arguments: Any, **named: Any) -> None:
            seed(*arguments, **named)
            side.ask("standard", "random", "seed", arguments, tuple(named.items()))

        random.seed = seed_both


def share_environment(side: TestsSide, words: Words) -> None:
    """Has `sys.argv` and `os.environ` reach the program as tests leave them.

    Also sends its warnings and log records to the tests, where they expect any.
    """
    if words.sets_environment:
        sent = [list(sys.argv), dict(os.environ)]

        def send() -> None:
            now = [list(sys.argv), dict(os.environ)]
            if now != sent:
                sent[:] = now
                side.ask("environment", *now)

        side.before_asking.append(send)
    if words.expects_reports:

        def begin() -> None:
            side.before_asking.remove(begin)
            side.ask("report")

        side.before_asking.append(begin)


def _share_mock(side: TestsSide, patch: Any) -> None:
    enter, leave = patch.__enter__, patch.__exit__

    def entering(self: Any) -> Any:
        entered = enter(self)
        _send_patch(side, self.target, self.attribute)
        return entered

    def leaving(self: Any, *error: Any) -> Any:
        owner, name = self.target, self.attribute
        result = leave(self, *error)
        _send_patch(side, owner, name, True)
        return result

    patch.__enter__, patch.__exit__ = entering, leaving


def _send_patch(side: TestsSide, owner: Any, name: str, is_first: bool = False) -> None:
    """Gives a name in the program's process its new value, or its first one again."""
    if _is_shared(owner, name) and is_first:
        side.ask("unpatch", owner.__name__, name)
    elif _is_shared(owner, name):
        side.ask("patch", owner.__name__, name, getattr(owner, name))


def _is_shared(owner: Any, name: str) -> bool:
    if not isinstance(owner, types.ModuleType) or (owner.__name__, name) in _HERE:
        return False
    return objects.is_public(owner.__name__) and sys.modules.get(owner.__name__) is owner
