"""A sandbox that runs: its server is started once and runs one program after the other."""

import base64
import contextlib
import functools
import json
import marshal
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rlvr_cli.verification.sandbox import guard, messages, namespaces, server
from rlvr_cli.verification.sandbox.packages import Packages

# What runs inside, each after the modules that it imports.
_MODULES = (
    "seccomp", "namespaces", "messages", "child", "records", "shared", "values", "mirrors",
    "objects", "streams", "loops", "reports", "words", "comparing", "environment", "counting",
    "program_side", "tests_side", "scope", "assertions", "pytest_shim", "patches", "suites",
    "guard", "calls", "scripts", "runner", "server",
)  # fmt: skip
_SYSTEM = ("/usr", "/lib", "/lib64", "/bin")
_TMP_BYTES = 16 << 20
_REPORT_BYTES = 1 << 16
_START_S = 60.0  # until a server is ready, on a busy machine
_END_S = 10.0  # until all of a program's processes are dead
# Sets of text have the same order in each program, so that a verdict can be had again.
_ENVIRONMENT = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
_PYTHON = ("-s", "-P", "-S", "-B")  # no folder but the standard library's
_BOOT = """
import base64, json, marshal, os, sys, types
setup = json.loads(sys.stdin.buffer.read())
for name in ("rlvr_cli", "rlvr_cli.verification.sandbox"):
    sys.modules[name] = types.ModuleType(name)
for name, code in setup.pop("inside"):
    module = types.ModuleType("rlvr_cli.verification.sandbox." + name)
    sys.modules[module.__name__] = module
    setattr(sys.modules["rlvr_cli.verification.sandbox"], name, module)
    exec(marshal.loads(base64.b64decode(code)), module.__dict__)
module.main(setup)
"""


class Sandbox:
    """A server in a sandbox of a kind, with the packages that programs may import.

    It starts with the first program, and again with the next one after it has died.
    """

    def __init__(self, kind: str, packages: Packages) -> None:
        self._kind, self._packages = kind, packages
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._is_clearing = False  # whether the server has yet to say that a program is gone

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, job: dict[str, Any], tests: dict[str, Any], seconds: float) -> dict[str, Any]:
        """What came of a program within so many seconds, on a clock on the wall."""
        if self._is_clearing:
            self._ended()
        if self._control and self._has_died():
            self.close()
        if self._control is None and (fault := self._start()):
            self.close()
            return {"status": "error", "reason": fault}
        try:
            return self._ask(job, tests, seconds)
        except BaseException:  # what is under way belongs to nobody any more
            self.close()
            raise

    def _ask(self, job: dict[str, Any], tests: dict[str, Any], seconds: float) -> dict[str, Any]:
        assert self._control
        with contextlib.ExitStack() as stack:
            folder = "/tmp"
            if self._kind == "none":
                folder = tempfile.mkdtemp(prefix="rlvr-")
                stack.callback(_remove, folder)
            report, sink = os.pipe()
            stack.callback(os.close, report)
            job = {**job, "folder": folder}
            limits = {key: value for key, value in job.items() if key != "program"}
            descriptors = [_file(job), _file({**tests, "job": limits}), sink]
            try:
                socket.send_fds(self._control, [server.RUN], descriptors)
            except OSError:
                self.close()
                return {"status": "error", "reason": "the sandbox died before the program began"}
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)
            self._is_clearing = True
            data = _read(report, seconds)
            if data is None:
                with contextlib.suppress(OSError):
                    self._control.send(server.KILL)
            result = None if data is None else _result(data)
            if result and self._kind != "none":  # what is left of the program goes meanwhile
                return result
            code = self._ended()
        return {"status": "timeout"} if data is None else result or _death(code)

    def _start(self) -> str | None:
        """Starts the server; why that fails."""
        self._control, theirs = socket.socketpair()
        self._control.settimeout(_START_S)
        own = [*_SYSTEM, os.path.realpath(sys.base_prefix)]
        folders = list(dict.fromkeys([*own, *self._packages.folders]))
        setup = {
            "kind": self._kind,
            "folders": folders,
            "tmp_bytes": _TMP_BYTES,
            "control": theirs.fileno(),
            "paths": self._packages.paths,
            "tops": self._packages.tops,
            "modules": self._packages.modules,
            "inside": _inside(),
        }
        with theirs:
            self._process = subprocess.Popen(
                [*_command(self._kind, folders), *_PYTHON, "-c", _BOOT],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env=_ENVIRONMENT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError), self._process.stdin as stdin:
            stdin.write(json.dumps(setup).encode())
        with contextlib.suppress(OSError):
            if answer := self._control.recv(4096):
                fault: str | None = json.loads(answer)["fault"]
                self._control.settimeout(_END_S)
                return fault
        return f"the sandbox does not start: exit code {self._process.poll()}"

    def _has_died(self) -> bool:
        """Whether the server has closed its end of the socket, on which it says nothing now."""
        assert self._control
        return bool(select.select([self._control], [], [], 0)[0])

    def _ended(self) -> int | None:
        """The exit code of the process that ran the tests; None if the server died."""
        assert self._control
        self._is_clearing = False
        with contextlib.suppress(OSError):
            if len(answer := self._control.recv(server.ENDED.size)) == server.ENDED.size:
                code: int = server.ENDED.unpack(answer)[0]
                return code
        self.close()
        return None

    def close(self) -> None:
        """Ends the server and all that it started."""
        self._is_clearing = False
        if self._control:
            self._control.close()
            self._control = None
        if self._process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=1.0 if self._kind == "none" else 0.0)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


def _result(data: bytes) -> dict[str, Any] | None:
    """What the process of the tests reported; None where it ended before it had."""
    try:
        result = json.loads(data[messages.LENGTH.size :])
    except ValueError:
        return None
    is_report = isinstance(result, dict) and ("passed" in result or "status" in result)
    return result if is_report else None


def _death(code: int | None) -> dict[str, Any]:
    """How the process of the tests ended."""
    if code is None:
        return {"status": "error", "reason": "the sandbox died with the program"}
    if code == -signal.SIGKILL:
        return {"status": "oom", "reason": "killed by the kernel, which is short of memory"}
    return {"status": "error", "reason": f"the process of the tests ended with exit code {code}"}


def _read(descriptor: int, seconds: float) -> bytes | None:
    """All that comes until the other end closes; None if that takes longer."""
    deadline, data = time.monotonic() + seconds, b""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    while len(data) < _REPORT_BYTES:
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            return None
        piece = os.read(descriptor, _REPORT_BYTES)
        if not piece:
            break
        data += piece
    return data


def _file(message: Any) -> int:
    """The descriptor of a file without a name that holds a message, to be read from its start."""
    descriptor = os.memfd_create("rlvr")
    messages.send(descriptor, message)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _remove(folder: str) -> None:
    """Removes a folder of any depth and whatever rights."""
    try:
        os.rmdir(folder)
    except OSError:
        for words in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
            subprocess.run([*words, folder], stderr=subprocess.DEVNULL, check=False)


def _command(kind: str, folders: list[str]) -> list[str]:
    python = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    if kind != "bubblewrap":
        return [python]
    words = ["--unshare-user", "--uid", "0", "--gid", "0", "--unshare-ipc", "--unshare-pid"]
    words += ["--unshare-net", "--unshare-uts", "--unshare-cgroup-try", "--die-with-parent"]
    words += ["--new-session", "--clearenv", "--hostname", "sandbox"]
    # The server mounts each program's /tmp; no program has the capability.
    words += ["--cap-drop", "ALL", "--cap-add", "CAP_SYS_ADMIN"]
    for name, value in _ENVIRONMENT.items():
        words += ["--setenv", name, value]
    for folder in folders:
        if os.path.islink(folder):
            words += ["--symlink", os.readlink(folder), folder]
        elif os.path.exists(folder):
            words += ["--ro-bind", folder, folder]
    words += ["--tmpfs", "/dev"]
    for name in namespaces.DEVICES:
        words += ["--dev-bind", f"/dev/{name}", f"/dev/{name}"]
    return [shutil.which("bwrap") or "bwrap", *words, "--tmpfs", "/tmp", python]


@functools.cache
def _inside() -> list[tuple[str, str]]:
    """What runs inside, compiled: the interpreter is the same."""
    here = Path(__file__).parent
    codes = [
        (name, compile((here / f"{name}.py").read_text(), f"{guard.HARNESS}{name}>", "exec"))
        for name in _MODULES
    ]
    return [(name, base64.b64encode(marshal.dumps(code)).decode()) for name, code in codes]
