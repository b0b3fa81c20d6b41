"""Two machines made of this one: each has a network, a name and a list of hosts of its own.

    with machines.Two() as (a, b):
        running = subprocess.Popen([*a.prefix, "rlvr", "train"])

    python tests/machines.py train --trainer deepspeed:zero=2 --out run   # on both

The networks are joined by a cable. As on Debian, each machine's own name is a loopback address to
itself. It takes Linux, root and `ip`; why_absent() says what lacks.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path

_ENTER = 'mount --bind "$0" /etc/hosts && hostname "$1" && shift && exec "$@"'


@dataclass(frozen=True)
class Machine:
    """A machine: its network, its name and its addresses."""

    network: str
    name: str
    address: str
    address6: str
    hosts: Path

    @property
    def prefix(self) -> list[str]:
        """The words in front of a command that is to run there; the pid stays that of the first."""
        enter = ["unshare", "--uts", "--mount", "sh", "-c", _ENTER, str(self.hosts), self.name]
        return ["ip", "netns", "exec", self.network, *enter]

    def unplug(self) -> None:
        """Cuts its network off, without a word to whom it was connected."""
        _ip("-n", self.network, "link", "set", "cable", "down")


def why_absent() -> str | None:
    """Why no machines can be made here; None if they can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "network namespaces need Linux and root"
    if missing := [name for name in ("ip", "unshare") if shutil.which(name) is None]:
        return f"no {missing[0]}: `apt-get install iproute2 util-linux`"
    name = f"rlvr-{uuid.uuid4().hex[:6]}"
    tried = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if tried.returncode == 0:
        cable = ["ip", "-n", name, "link", "add", "v0", "type", "veth", "peer", "name", "v1"]
        tried = subprocess.run(cable, capture_output=True, text=True)
        _ip("netns", "del", name)
    return tried.stderr.strip() if tried.returncode else None


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Two:
    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="machines-"))
        mark = uuid.uuid4().hex[:6]
        self.machines = [
            Machine(
                f"{name}-{mark}", f"node-{name}", f"10.77.0.{n}", f"fd77::{n}", self.folder / name
            )
            for n, name in enumerate("ab", 1)
        ]

    def __enter__(self) -> list[Machine]:
        a, b = self.machines
        for own, other in ((a, b), (b, a)):
            _ip("netns", "add", own.network)
            own.hosts.write_text(
                f"127.0.0.1 localhost\n127.0.1.1 {own.name}\n{other.address} {other.name}\n"
            )
        _ip("-n", a.network, "link", "add", "cable", "type", "veth",
            "peer", "name", "cable", "netns", b.network)  # fmt: skip
        for own in (a, b):
            _ip("-n", own.network, "addr", "add", f"{own.address}/24", "dev", "cable")
            _ip("-n", own.network, "addr", "add", f"{own.address6}/64", "dev", "cable", "nodad")
            for link in ("lo", "cable"):
                _ip("-n", own.network, "link", "set", link, "up")
        return self.machines

    def __exit__(self, *_: object) -> None:
        for machine in self.machines:
            subprocess.run(["ip", "netns", "del", machine.network], capture_output=True)
        shutil.rmtree(self.folder)


def main() -> None:
    """Runs a command of rlvr on both machines; ends with the greater of the two exit codes."""
    command = [sys.executable, "-P", "-c", "from rlvr_cli.cli.app import main; main()"]
    with Two() as machines:
        words = [*sys.argv[1:], "--nnodes=2", f"--rdzv-endpoint={machines[0].name}:29500"]
        running = [subprocess.Popen([*machine.prefix, *command, *words]) for machine in machines]
        codes = [process.wait() for process in running]
    sys.exit(max(code if code >= 0 else 128 - code for code in codes))


if __name__ == "__main__":
    main()
