"""One run of `rlvr train` that is killed, ended, stopped and continued at random moments.

A `Scenario` is what is run. `Disturbed` runs it to its end in as many attempts as that takes, and
raises `Broken` where an attempt does not end as it should, or leaves a process or a file.
"""

import contextlib
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

import machines
import processes
import torch

from rlvr_cli.cli import app
from rlvr_cli.errors import INTERRUPTED
from rlvr_cli.loop.launching import LOGS
from rlvr_cli.storage.shards import MANIFEST

COMMAND = "from rlvr_cli.cli.app import main; main()"
SIGNALS = (*[signal.SIGKILL] * 3, signal.SIGTERM, signal.SIGUSR1, signal.SIGSTOP)
PHASES = {
    "rollouts": "rollout",
    "scores": "score",
    "logprobs": "logprob",
    "advantages": "advantage",
    "update": "update",
    "memory": "memory",
}
LEFT_OVER = re.compile(r"_?(tmp-|lock|partial|spool|plan|lease|pruned)")
ENDS_S = 60  # what a run may take to end after a signal, on a busy machine
MACHINES_END_S = 120  # where one of two machines has to find out that the other is gone
GPU_MIB = 64  # by which the memory in use differs from one reading to the next


class Broken(Exception):
    """What a run did that it must not do."""


@dataclass(frozen=True)
class Scenario:
    """Words of `rlvr train`; `forks` says that attempts are forks, with all imports done.

    With `machines` it runs on two of them, tests/machines.py, with a process on each. `task` is the
    source of its prompts.
    """

    words: tuple[str, ...]
    task: str = "task:expression"
    forks: bool = True
    same_bytes: bool = True
    follows: bool = False  # whether it starts processes that sample and score
    machines: bool = False

    @property
    def processes(self) -> int:
        if self.machines:
            return 2
        return int(self.words[self.words.index("--nproc") + 1]) if "--nproc" in self.words else 1


@dataclass(frozen=True)
class Timing:
    """Seconds of an undisturbed run: until its first stage writes, and from there."""

    begins: float
    works: float


@dataclass
class Disturbed:
    scenario: Scenario
    run: Path
    chance: random.Random = field(default_factory=random.Random)
    limit: int = 0  # disturbances
    timing: Timing = Timing(0, 0)
    memory: int | None = None  # MiB of the GPU that are in use without a run
    kills: list[tuple[str, str, str]] = field(default_factory=list)  # signal, target, phase

    def complete(self) -> None:
        """Attempts until one ends by itself; at last one that nothing disturbs."""
        while self.attempt() != 0:
            pass
        logs = [self.log, *(self.run / LOGS).glob("*.log")]
        said = "".join(log.read_text(errors="replace") for log in logs)
        if found := re.search(r".*(a defect of rlvr|Traceback \(most recent).*", said):
            raise Broken(f"it said `{found[0]}`")
        if left := [str(p) for p in self.run.rglob("*") if LEFT_OVER.match(p.name)]:
            raise Broken(f"it left {left[:5]}")

    @property
    def log(self) -> Path:
        return self.run.with_name(f"{self.run.name}.log")

    def attempt(self, modules: Path | None = None) -> int:
        """Begins the run or goes on with it; the exit code."""
        family, began, before = processes.Family(), time.time_ns(), len(self.kills)
        child = self.start(family, modules)
        with family:
            code, first, is_ended = None, True, False
            while code is None and not is_ended and len(self.kills) < self.limit:
                code = self._until_moment(child, began, first=first)
                if code is None:
                    is_ended = self._disturb(family, child, began)
                first = False
            if code is None:
                ends_s = MACHINES_END_S if self.scenario.machines else ENDS_S
                code = _wait(child, ends_s if is_ended else 3600)
            if code is None:
                raise Broken(f"it runs {ends_s} s after {' '.join(self.kills[-1])}")
            is_signalled = len(self.kills) > before
            names = {f"SIG{name}" for name, _, _ in self.kills[before:]}
            if code < 0 and signal.Signals(-code).name not in names | {"SIGKILL"}:
                raise Broken(f"it died of {signal.Signals(-code).name}")
            if code != 0 and not is_signalled:
                raise Broken(f"it ended with {code}: {self.log.read_text()[-500:]}")
            if self.scenario.processes == 1 and code not in (0, INTERRUPTED) and code > 0:
                raise Broken(f"it ended with {code} after {' '.join(self.kills[-1])}")
            if left := family.left(within_s=ENDS_S):
                after = " ".join(self.kills[-1]) if is_signalled else "its end"
                raise Broken(f"{[p.command for p in left]} outlive {after}")
        self._require_memory()
        return code

    def start(self, family: processes.Family, modules: Path | None = None) -> int:
        """A fork in a session of its own, whose output goes to the log; its pid."""
        words = ["train", *self.scenario.words, "--out", str(self.run)]
        child = os.fork()
        if child:
            family.session = child
            return child
        code = 1
        try:
            os.setsid()
            os.environ[processes.MARK] = family.mark
            log = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.dup2(log, 1)
            os.dup2(log, 2)
            torch.set_num_threads(1)  # alone: a fork remakes torch's pool at its first use
            if modules:
                code = app.run(words)
                modules.write_text(json.dumps([*sys.modules]))
            elif self.scenario.forks:
                sys.argv = ["rlvr", *words]
                app.main()
            elif self.scenario.machines:
                os.execv(sys.executable, [sys.executable, machines.__file__, *words])
            else:
                os.execv(sys.executable, [sys.executable, "-P", "-c", COMMAND, *words])
        except SystemExit as ended:
            code = int(ended.code or 0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def _until_moment(self, child: int, began: int, *, first: bool) -> int | None:
        """Waits for the next disturbance: None, or the exit code of a run that was faster.

        One in six falls before the first stage writes, the others within half of the rest, so that
        most runs are disturbed more than once.
        """
        if first and self.chance.random() < 1 / 6:
            return _wait(child, self.chance.uniform(0, self.timing.begins))
        while first and not has_begun(self.run, began):
            if (code := _wait(child, 0.01)) is not None:
                return code
        return _wait(child, self.chance.uniform(0, self.timing.works / 2))

    def _disturb(self, family: processes.Family, child: int, began: int) -> bool:
        """Sends a signal, and notes it; whether it is one that ends the run."""
        number, target = self.chance.choice(SIGNALS), "parent"
        pids = [child]
        if self.scenario.machines:
            launchers = [p.pid for p in family.members() if p.parent == child]
            launchers = launchers or [child]
            child = self.chance.choice(launchers)
            # A node that ended before it met the other is waited for, as it may come again.
            pids = launchers if phase(self.run, began) == "start" else [child]
        if self.scenario.processes > 1:
            members = family.members()
            ranks = [p.pid for p in members if p.parent == child and "RANK" in p.environment]
            if ranks:
                target = self.chance.choice(["parent", "rank", "both"])
                one = self.chance.choice(ranks)
                pids = {"parent": pids, "rank": [one], "both": [child, *ranks]}[target]
        if self.scenario.follows:
            members = [p for p in family.members() if p.parent == child]
            followers = [p.pid for p in members if " --follow " in p.command]
            target = self.chance.choice(["parent", "follower", "follower", "all"])
            one = [self.chance.choice(followers)] if followers else []
            pids = {"parent": [child], "follower": one, "all": [child, *followers]}[target]
        family.members()  # whoever is known now is known when its parents are gone
        _send(pids, number)
        self.kills.append((number.name.removeprefix("SIG"), target, phase(self.run, began)))
        if number != signal.SIGSTOP:
            return target != "follower"
        time.sleep(self.chance.uniform(0.05, 0.5))
        after = self.chance.choice((signal.SIGKILL, signal.SIGCONT))
        _send(pids, after)
        return after == signal.SIGKILL and target != "follower"

    def _require_memory(self) -> None:
        """Nothing of a GPU is in use that was not before."""
        deadline = time.monotonic() + ENDS_S
        while self.memory is not None and (used := gpu_memory()) > self.memory + GPU_MIB:
            if time.monotonic() > deadline:
                raise Broken(f"{used - self.memory} MiB of the GPU stay in use: {gpu_processes()}")
            time.sleep(0.2)


def _send(pids: list[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _wait(child: int, seconds: float) -> int | None:
    """The exit code of a process that ends within so many seconds."""
    end = time.monotonic() + seconds
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= end:
            return None
        time.sleep(min(0.002, max(0.0, end - time.monotonic())))


def has_begun(run: Path, began: int) -> bool:
    """Whether a stage of a run has written anything since."""
    for path in run.glob("*/0*/*"):
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_ctime_ns > began:
                return True
    return False


def phase(run: Path, began: int) -> str:
    """What an attempt did last, judged by the newest of its files."""
    newest, last = began, Path()
    for path in [*run.rglob("*")] if run.exists() else []:
        with contextlib.suppress(FileNotFoundError):
            if (changed := path.stat().st_ctime_ns) > newest:
                newest, last = changed, path.relative_to(run)
    if last == Path():
        return "start"
    if len(last.parts) == 1:
        return "between" if last.name == "metrics.jsonl" else "load"
    if last.parts[0] == "eval":
        return "evaluation"
    if any(part.startswith(("_pruned", "_tmp-_weights", "_weights")) for part in last.parts):
        return "prune"
    if any(part.startswith("_tmp-_checkpoint") for part in last.parts):
        return "checkpoint"
    if len(last.parts) < 3:
        return "between"
    is_complete = (run.joinpath(*last.parts[:3]) / MANIFEST).exists()
    return "between" if is_complete else PHASES.get(last.parts[2], "between")


def content(run: Path) -> dict[str, str]:
    """A hash of every file of a run and the names of its folders; metrics.jsonl without seconds."""
    actual = {}
    for path in sorted(run.rglob("*")):
        name = str(path.relative_to(run))
        if name.partition("/")[0] == LOGS:
            continue
        if path.is_dir():
            actual[name] = "a folder"
            continue
        data = path.read_bytes()
        if name == "metrics.jsonl":
            lines = [json.loads(line) for line in data.decode().splitlines()]
            for line in lines:
                line.pop("seconds", None)
            data = json.dumps(lines).encode()
        actual[name] = hashlib.sha256(data).hexdigest()
    return actual


def check(run: Path, steps: int) -> None:
    """A run whose bytes are not those of another: all steps are there, and every directory whole.

    Forks a process, which may import what it likes.
    """
    lines = [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    if lines != [*range(steps + 1)]:
        raise Broken(f"metrics.jsonl has the steps {lines}")
    said = run.with_name(f"{run.name}.check")
    for manifest in sorted(run.glob(f"*/*/*/{MANIFEST}")):
        child = os.fork()
        if child == 0:
            output = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os._exit(app.run(["check", str(manifest.parent)]))
        if code := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            raise Broken(
                f"`rlvr check {manifest.parent}` is not content: it ends with {code}: "
                f"{said.read_text(errors='replace')[-2000:]}"
            )
    said.unlink(missing_ok=True)


def _smi(*words: str) -> str:
    done = subprocess.run(["nvidia-smi", *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def has_gpu() -> bool:
    return bool(shutil.which("nvidia-smi")) and os.environ.get("CUDA_VISIBLE_DEVICES", "0") != ""


def gpu_memory() -> int:
    """MiB in use on the first GPU, by whomever."""
    return int(_smi("--query-gpu=memory.used", "--format=csv,noheader,nounits").splitlines()[0])


def gpu_processes() -> str:
    return _smi("--query-compute-apps=pid,used_memory", "--format=csv,noheader")
