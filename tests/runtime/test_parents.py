"""Nothing outlives the process that started it, however that ends."""

import os
import signal
import subprocess
import sys
import time

import pytest

from rlvr_cli.runtime import parents

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

CHILD = """
import os, signal, sys, threading, time
from rlvr_cli.runtime import parents
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
parent = int(os.environ["PARENT"])
{begin}
print("ready", flush=True)
time.sleep(600)
"""
BEGIN = {
    "the kernel": "parents.die_with_parent(parent)",
    "the kernel, unnamed": "parents.die_with_parent()",
    "a thread": "threading.Thread(target=parents._look, args=(parent, signal.SIGKILL)).start()",
}
PARENT = """
import os, subprocess, sys, time
os.environ["PARENT"] = str(os.getpid())
subprocess.Popen([sys.executable, "-P", *sys.argv[1:]], start_new_session=True)
time.sleep(600)
"""
COMMAND = "from rlvr_cli.cli.app import main; main()"


@pytest.mark.parametrize("begin", BEGIN)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGUSR1], ids=lambda n: n.name)
def test_a_process_dies_with_its_parent(family, begin, number):
    words = [sys.executable, "-P", "-c", PARENT, "-c", CHILD.format(begin=BEGIN[begin])]
    process = family.start(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    assert len(family.members()) == 2
    process.send_signal(number)
    assert process.wait() == -number
    assert family.left() == []


def test_a_process_whose_parent_is_dead_already_dies_at_once():
    gone = subprocess.Popen(["true"])
    gone.wait()
    ran = subprocess.run(
        [sys.executable, "-P", "-c", CHILD.format(begin=BEGIN["the kernel"])],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PARENT": str(gone.pid)},
    )
    assert (ran.returncode, ran.stdout) == (-signal.SIGKILL, "")


def test_the_children_of_a_process_are_known():
    process = subprocess.Popen(["sleep", "600"])
    try:
        assert process.pid in parents.children()
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("variable", ["TORCHELASTIC_RUN_ID", "CROSS_RANK"])
def test_a_process_that_torchrun_or_deepspeed_started_dies_with_it(family, variable):
    """A command that waits for a path on its stdin, which nobody closes."""
    read, write = os.pipe()
    with open(read, "rb") as stdin, open(write, "wb"):
        process = family.start(
            [sys.executable, "-P", "-c", PARENT, "-c", COMMAND, "check"],
            env={**os.environ, variable: "1"},
            stdin=stdin,
        )
        deadline = time.monotonic() + 120
        while not any(map(_reads_stdin, family.members())):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.kill()
        process.wait()
        assert family.left() == []


def _reads_stdin(process):
    try:
        with open(f"/proc/{process.pid}/syscall") as file:
            return file.read().split()[:2] == ["0", "0x0"]
    except OSError:
        return False
