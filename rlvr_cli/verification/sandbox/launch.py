"""Runs programs in the best sandbox that the machine offers.

bubblewrap where it is installed and works, else namespaces that rlvr makes itself; the filter of
system calls is in both. A sandbox is started once and kept for the programs that follow.
"""

import atexit
import functools
import platform
import shutil
from typing import Any

from rlvr_cli.errors import UsageError
from rlvr_cli.verification.sandbox import seccomp
from rlvr_cli.verification.sandbox.packages import Packages
from rlvr_cli.verification.sandbox.process import Sandbox

VARIABLE = "RLVR_SANDBOX"  # the kind that a worker process may use
KINDS = ("bubblewrap", "unshare", "none")
_FILE_BYTES = 1 << 20
_NONE = Packages()


def choose(*, unsafe: bool = False) -> str:
    """The best kind that works here; an error if none does, unless that is allowed."""
    on_linux = platform.system() == "Linux"
    best = next((kind for kind in KINDS[:-1] if on_linux and works(kind)), None)
    if best or unsafe:
        return best or KINDS[-1]
    missing, action = "neither bubblewrap nor user namespaces", "install bubblewrap"
    if not on_linux:
        missing, action = f"that takes Linux, and this is {platform.system()}", "score on Linux"
    elif not seccomp.is_known():
        missing, action = _no_filter(), "score on x86_64 or aarch64"
    else:
        missing += f" ({fault('unshare')})"
    raise UsageError(
        f"nothing here can isolate what a model wrote: {missing}",
        f"{action}, or run it all the same with --unsafe-no-sandbox",
    )


def described(kind: str) -> str:
    """The kind, and whether a machine has less of it than others."""
    return kind if seccomp.is_known() else f"{kind}, and {_no_filter()}"


def _no_filter() -> str:
    return f"there is no filter of system calls for `{platform.machine()}`"


def works(kind: str) -> bool:
    """Whether a program that does nothing passes in this kind of sandbox."""
    return fault(kind) is None


@functools.cache
def fault(kind: str) -> str | None:
    """Why a program that does nothing does not pass in this kind of sandbox; None if it does."""
    if kind == "bubblewrap" and not shutil.which("bwrap"):
        return "bwrap is not installed"
    if kind != KINDS[-1] and not seccomp.is_known():
        return _no_filter()
    job = {"program": "def f(): return 1", "style": "tests"}
    tests = {"tests": "assert f() == 1", "prompt": "", "entry_point": "f"}
    with Sandbox(kind, _NONE) as sandbox:
        result = sandbox.run(_job(job, 20.0, 1 << 30), tests, 20.0)
    return None if result.get("passed") is True else str(result.get("reason") or result)


def run(
    kind: str,
    job: dict[str, Any],
    tests: dict[str, Any],
    *,
    seconds: float,
    memory_bytes: int,
    packages: Packages = _NONE,
) -> dict[str, Any]:
    """What came of a program: `passed` with a `reason`, or a `status` of a fault.

    `packages` are what it may import in addition to the standard library.
    """
    if kind != KINDS[-1] and not seccomp.is_known():
        return {"status": "error", "reason": _no_filter()}
    return _sandbox(kind, packages).run(_job(job, seconds, memory_bytes), tests, seconds)


@functools.cache
def _sandbox(kind: str, packages: Packages) -> Sandbox:
    """The sandbox of this process for programs that may import these packages."""
    sandbox = Sandbox(kind, packages)
    atexit.register(sandbox.close)
    return sandbox


def _job(job: dict[str, Any], seconds: float, memory_bytes: int) -> dict[str, Any]:
    limits = {"seconds": seconds, "memory_bytes": memory_bytes, "file_bytes": _FILE_BYTES}
    return {**job, **limits}
