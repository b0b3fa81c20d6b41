"""A Slurm cluster of two nodes on this machine, for the job files of examples/slurm.

    with slurm.Cluster(folder) as cluster:
        cluster.run("sbatch", "train.sbatch")

It needs Debian's packages slurm-wlm and munge, and root. Nothing of the machine is changed: keys,
sockets, logs and state are in the folder.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol")
CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SchedulerParameters=sched_interval=1,bf_interval=1
JobRequeue=1
KillWait=15
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdSpoolDir={folder}/spool-%n
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdLogFile={folder}/slurmd-%n.log
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=8
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=8
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def why_absent() -> str | None:
    """Why no cluster can be started here; None if one can."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"no {missing[0]}: `apt-get install slurm-wlm munge`"
    return None if os.geteuid() == 0 else "slurmd needs root"


class Cluster:
    """Nodes n1 and n2 of eight CPUs each, as Slurm counts them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._daemons: list[subprocess.Popen[bytes]] = []
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}

    def __enter__(self) -> "Cluster":
        try:
            self._begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _begin(self) -> None:
        (self.folder / "state").mkdir(parents=True)
        with contextlib.ExitStack() as stack:
            free = [stack.enter_context(socket.create_server(("", 0))) for _ in range(3)]
            ports = [taken.getsockname()[1] for taken in free]
        values = {"folder": self.folder, "ports": ports, "host": socket.gethostname()}
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(**values))
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        names = ("pid", "log", "seed")
        files = [f"--{name}-file={self.folder}/munge.{name}" for name in names]
        self._start("munged", "--foreground", "--force", f"--key-file={key}",
                    f"--socket={self.folder}/munge.socket", *files)  # fmt: skip
        self._until(lambda: (self.folder / "munge.socket").exists())
        self._start("slurmctld", "-D")
        hosts = self.folder / "hosts"
        hosts.write_text(f"{Path('/etc/hosts').read_text()}\n127.0.0.1 n1\n127.0.0.1 n2\n")
        for node in ("n1", "n2"):
            (self.folder / f"spool-{node}").mkdir()
            # Its jobs find the nodes by name, as on a real cluster.
            script = 'mount --bind "$0" /etc/hosts && exec slurmd -D -N "$1"'
            self._start("unshare", "--mount", "sh", "-c", script, str(hosts), node)
        self._until(lambda: self.run("sinfo", "-h", "-o%t", check=False).split() == ["idle"])

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(subprocess.SubprocessError):
            self.run("scancel", "--full", "-u", "root", "--signal=KILL", check=False)
        for daemon in reversed(self._daemons):
            daemon.terminate()
            daemon.wait()

    def _start(self, *words: str) -> None:
        with open(self.folder / f"daemon-{len(self._daemons)}", "wb") as log:
            self._daemons.append(
                subprocess.Popen(words, stdout=log, stderr=log, env=self.environment)
            )

    def _until(self, condition) -> None:
        deadline = time.monotonic() + 120
        while not condition():
            assert time.monotonic() < deadline, f"no cluster: see the logs in {self.folder}"
            time.sleep(0.1)

    def run(self, *words: str, check: bool = True, **more: str) -> str:
        """What a command of Slurm prints."""
        done = subprocess.run(
            words, env={**self.environment, **more}, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout

    def submit(self, *words: str, **more: str) -> int:
        """The number of a job."""
        return int(self.run("sbatch", "--parsable", *words, **more))

    def state(self, job: int) -> str:
        return self.run("squeue", "-h", "-t", "all", "-o%T", "-j", str(job)).strip()

    def wait(self, job: int, seconds: float) -> str:
        """How a job ended: COMPLETED, FAILED and so on."""
        deadline = time.monotonic() + seconds
        while True:
            states = set(self.state(job).split())
            if states <= {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL"}:
                return " ".join(sorted(states))
            assert time.monotonic() < deadline, f"job {job} is {states} after {seconds} s"
            time.sleep(0.2)
