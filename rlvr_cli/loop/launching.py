"""A trainer with its samplers and a scorer, started together on one machine.

They are the processes that `rlvr rollout --follow` and `rlvr score --follow` are, and others may
join them. One that a signal ends is started again; one that fails ends the run. All die with the
trainer, which is this process.
"""

import contextlib
import functools
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from rlvr_cli.errors import FAILED, UsageError, UserError
from rlvr_cli.loop.following import Others
from rlvr_cli.runtime import cores, distributed
from rlvr_cli.terminal import console

LOGS = "_logs"
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_BEFORE = "RLVR_VISIBLE_DEVICES"  # what that was before the trainer kept to its own
_RANKS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
_START = "from rlvr_cli.cli.app import main; main({})"
_STOPPED_S = 3.0  # from asking a process to end until it is killed
_MOST_TIMES = 20  # that one process is started


@dataclass(frozen=True)
class Places:
    """The GPUs of each sampler, and of the trainer; by default all that there are."""

    samplers: tuple[str | None, ...] = (None,)
    trainer: tuple[str, ...] = ()

    @staticmethod
    def parse(samplers: str | None, trainer: str | None, *, asynchronous: bool) -> "Places | None":
        """Those of `--sampler-gpus 0,1 --trainer-gpus 2,3`; each sampler has one."""
        if not asynchronous and (given := "sampler" if samplers else trainer and "trainer"):
            raise UsageError(
                f"--{given}-gpus was given, and one process samples and trains", "add --async"
            )
        if not asynchronous:
            return None
        named = [_gpus(*each) for each in (("sampler", samplers), ("trainer", trainer))]
        return Places(named[0] or (None,), named[1])

    def take(self, nproc: int) -> int:
        """Keeps this process to the trainer's GPUs, and says how many processes train."""
        if not self.trainer:
            return nproc
        if nproc not in (1, len(self.trainer)):
            raise UsageError(
                f"--nproc is {nproc}, and --trainer-gpus names {len(self.trainer)}",
                "leave --nproc out",
            )
        os.environ.setdefault(_BEFORE, os.environ.get(_VISIBLE, ""))
        os.environ[_VISIBLE] = ",".join(self.trainer)
        return len(self.trainer)


def _gpus(side: str, text: str | None) -> tuple[str, ...]:
    gpus = tuple((text or "").split(",")) if text is not None else ()
    if not all(gpu.isdecimal() for gpu in gpus) or len(set(gpus)) < len(gpus):
        raise UsageError(
            f"--{side}-gpus is `{text}`", f"write their numbers, as in --{side}-gpus 0,1"
        )
    visible = os.environ.get(_BEFORE, os.environ.get(_VISIBLE, ""))
    names = visible.split(",") if visible else []  # of those that a scheduler gave to this job
    if names and gpus and max(map(int, gpus)) >= len(names):
        raise UsageError(
            f"--{side}-gpus is `{text}`, and {_VISIBLE} names {len(names)}",
            f"use numbers below {len(names)}",
        )
    return tuple(names[int(gpu)] for gpu in gpus) if names else gpus


@dataclass
class Child:
    """One process that follows the run, with its output in a log."""

    name: str
    words: list[str]
    gpu: str | None
    log: Path
    threads: int
    process: subprocess.Popen[bytes] | None = None
    times: int = field(default=0, init=False)

    def start(self) -> None:
        self.times += 1
        gpus = {} if self.gpu is None else {_VISIBLE: self.gpu}
        variables = {name: value for name, value in os.environ.items() if name not in _RANKS}
        launched = {"TORCHELASTIC_RUN_ID": uuid.uuid4().hex}  # it ends with this process
        variables.setdefault("OMP_NUM_THREADS", str(self.threads))
        with _opened(self.log) as log:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", _START.format(os.getpid()), *self.words],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                env={**variables, **gpus, **launched}, start_new_session=True,
            )  # fmt: skip

    def look(self) -> None:
        """Starts it again if a signal ended it; an error, with its exit code, if it failed."""
        assert self.process
        code = self.process.poll()
        if code is None or code == 0:
            return
        if code < 0 and self.times < _MOST_TIMES:
            console.say(f"{self.name} was ended by {signal.Signals(-code).name}: started again")
            self.start()
            return
        said = [line for line in self.log.read_text(errors="replace").splitlines() if line]
        error = UserError(
            f"{self.name} ended with {code}: {' / '.join(said[-2:])[:300]}", f"see `{self.log}`"
        )
        error.exit_code = max(code, FAILED)
        raise error

    def end(self, number: int) -> None:
        if self.process and self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(number)


def _opened(log: Path) -> IO[bytes]:
    """A log file; the null device where it cannot be written, as a run needs no log."""
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        return open(log, "ab")
    except OSError:
        return open(os.devnull, "ab")


@contextlib.contextmanager
def started(run: Path, places: Places) -> Iterator[Others]:
    """Starts the processes that sample and score for the trainer, from the main process.

    They end with the context.
    """
    if not distributed.current().is_main_process:
        yield Others(run)
        return
    threads = max(1, cores.available() // (len(places.samplers) + 1))
    logs, follow = run / LOGS, ["--follow", str(run)]
    children = [
        Child(f"sampler {i}", ["rollout", *follow], gpu, logs / f"sampler-{i}.log", threads)
        for i, gpu in enumerate(places.samplers)
    ]
    children.append(Child("the scorer", ["score", *follow], "", logs / "scorer.log", threads))
    try:
        yield Others(run, functools.partial(_begin, children), functools.partial(_look, children))
    finally:
        _end(children)


def _begin(children: list[Child]) -> None:
    for child in children:
        child.start()


def _look(children: list[Child]) -> None:
    for child in children:
        child.look()


def _end(children: list[Child]) -> None:
    for child in children:
        child.end(signal.SIGTERM)
    deadline = time.monotonic() + _STOPPED_S
    while any(child.process and child.process.poll() is None for child in children):
        if time.monotonic() > deadline:
            for child in children:
                child.end(signal.SIGKILL)
        time.sleep(0.02)
