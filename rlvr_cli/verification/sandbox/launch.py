"""Starts a program in the best sandbox that the machine offers.

bubblewrap where it is installed and works, else namespaces that rlvr makes itself; the filter of
system calls is in both. What runs inside, runner.py and what it imports of this folder, is given to
a bare interpreter as text.
"""

import base64
import contextlib
import functools
import json
import marshal
import os
import platform
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rlvr_cli.errors import UsageError
from rlvr_cli.verification.sandbox import seccomp

VARIABLE = "RLVR_SANDBOX"  # the kind that a worker process may use
KINDS = ("bubblewrap", "unshare", "none")
# What runs inside, each after the modules that it imports.
_MODULES = (
    "seccomp", "namespaces", "messages", "child", "records", "shared", "values", "mirrors",
    "objects", "streams", "loops", "words", "comparing", "environment", "counting",
    "program_side", "tests_side", "scope", "assertions", "pytest_shim", "patches", "suites",
    "calls", "scripts", "runner",
)  # fmt: skip
_SYSTEM = ("/usr", "/lib", "/lib64", "/bin")
_FILE_BYTES = 1 << 20
_ANSWER_BYTES = 1 << 16
_BOOT = """
import base64, json, marshal, os, struct, sys, types
def exactly(size):
    data = b""
    while len(data) < size:
        piece = os.read(0, size - len(data))
        if not piece: os._exit(1)
        data += piece
    return data
def get():
    return json.loads(exactly(struct.unpack("!I", exactly(4))[0]))
job = get()
for name in ("rlvr_cli", "rlvr_cli.verification.sandbox"):
    sys.modules[name] = types.ModuleType(name)
for name, code in job.pop("modules"):
    module = types.ModuleType("rlvr_cli.verification.sandbox." + name)
    sys.modules[module.__name__] = module
    setattr(sys.modules["rlvr_cli.verification.sandbox"], name, module)
    exec(marshal.loads(base64.b64decode(code)), module.__dict__)
module.main(job, get)
"""


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
    raise UsageError(
        f"nothing here can isolate what a model wrote: {missing}",
        f"{action}, or run it all the same with --unsafe-no-sandbox",
    )


def described(kind: str) -> str:
    """The kind, and whether a machine has less of it than others."""
    return kind if seccomp.is_known() else f"{kind}, and {_no_filter()}"


def _no_filter() -> str:
    return f"there is no filter of system calls for `{platform.machine()}`"


@functools.cache
def works(kind: str) -> bool:
    """Whether a program that does nothing passes in this kind of sandbox."""
    if kind == "bubblewrap" and not shutil.which("bwrap"):
        return False
    job = {"program": "def f(): return 1", "style": "tests"}
    tests = {"tests": "assert f() == 1", "prompt": "", "entry_point": "f"}
    return run(kind, job, tests, seconds=20.0, memory_bytes=1 << 30) == {"passed": True}


def run(
    kind: str, job: dict[str, Any], tests: dict[str, Any], *, seconds: float, memory_bytes: int
) -> dict[str, Any]:
    """What came of a program: `passed` with a `reason`, or a `status` of a fault."""
    if kind != KINDS[-1] and not seccomp.is_known():
        return {"status": "error", "reason": _no_filter()}
    folders = list(dict.fromkeys([*_SYSTEM, os.path.realpath(sys.base_prefix)]))
    full_job = {
        **job,
        "modules": _modules(),
        "kind": kind,
        "folders": folders,
        "seconds": seconds,
        "memory_bytes": memory_bytes,
        "file_bytes": _FILE_BYTES,
        "output_bytes": _FILE_BYTES,
    }
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="rlvr-"))
        process = subprocess.Popen(
            [*_command(kind, folders), "-I", "-S", "-B", "-c", _BOOT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env={},
            start_new_session=True,
        )
        stack.callback(_end, process)
        return _outcome(process, _pack(full_job) + _pack(tests), seconds)


def _outcome(process: subprocess.Popen[bytes], data: bytes, seconds: float) -> dict[str, Any]:
    try:
        answer, _ = process.communicate(data, timeout=seconds)
    except subprocess.TimeoutExpired:
        return {"status": "timeout"}
    try:
        result = json.loads(answer[:_ANSWER_BYTES])
    except ValueError:
        result = None
    if isinstance(result, dict):
        return result
    return {"status": "error", "reason": f"the sandbox ended with exit code {process.returncode}"}


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):
            if pipe:
                pipe.close()


def _command(kind: str, folders: list[str]) -> list[str]:
    python = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    if kind != "bubblewrap":
        return [python]
    words = ["bwrap", "--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net"]
    words += ["--unshare-uts", "--unshare-cgroup-try", "--die-with-parent", "--new-session"]
    words += ["--clearenv", "--hostname", "sandbox", "--cap-drop", "ALL"]
    for folder in folders:
        if os.path.islink(folder):
            words += ["--symlink", os.readlink(folder), folder]
        elif os.path.isdir(folder):
            words += ["--ro-bind", folder, folder]
    words += ["--dev", "/dev", "--size", str(16 * _FILE_BYTES), "--tmpfs", "/tmp"]
    return [shutil.which("bwrap") or "bwrap", *words[1:], "--chdir", "/tmp", python]


@functools.cache
def _modules() -> list[tuple[str, str]]:
    """What runs inside, compiled: the interpreter is the same."""
    here = Path(__file__).parent
    codes = ((n, compile((here / f"{n}.py").read_text(), n, "exec")) for n in _MODULES)
    return [(name, base64.b64encode(marshal.dumps(code)).decode()) for name, code in codes]


def _pack(message: Any) -> bytes:
    data = json.dumps(message).encode()
    return struct.pack("!I", len(data)) + data
