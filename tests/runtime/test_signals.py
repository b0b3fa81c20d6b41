"""Every signal that ends a command ends it alike: in time, with code 75, and how to go on."""

import os
import pty
import signal
import subprocess
import sys
import time

import pytest

from rlvr_cli.runtime import signals

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

COMMAND = "from rlvr_cli.cli.app import main; main()"
# A command that is deep in something else than Python, or in code that drops an interrupt.
LISTENING = """
import ctypes, os, sys, time
from rlvr_cli.cli import app
from rlvr_cli.runtime import signals
signals.GRACE_S = 0.3
class Source:
    def isatty(self):
        return False
    def read(self):
        os.write(1, b"reading")
        {what}
sys.stdin = Source()
sys.argv = ["rlvr", "check"]
app.main()
"""
STUCK = {
    "a lock that no signal breaks": """
        mutex = ctypes.create_string_buffer(256)
        ctypes.CDLL(None).pthread_mutex_lock(mutex)
        ctypes.CDLL(None).pthread_mutex_lock(mutex)""",
    "an interrupt that is dropped": """
        while True:
            try:
                time.sleep(600)
            except BaseException:
                pass""",
    "an interrupt that becomes an error": """
        try:
            time.sleep(600)
        except BaseException:
            raise RuntimeError("cancelled")""",
    "an interrupt that becomes an exit": """
        try:
            time.sleep(600)
        except BaseException:
            raise SystemExit(3)""",
}


@pytest.fixture
def start(family):
    """Starts a program that waits for its stdin; returns once each signal would interrupt it."""

    def start(code, *words, **options):
        process = family.start(
            [sys.executable, "-P", "-c", code, *words],
            **({"stdin": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | options),
        )
        deadline = time.monotonic() + 120
        while not _catches(process.pid, signals.STOPPING[-1]):  # the last that it comes to
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.02)
        return process

    return start


def _catches(pid, number):
    with open(f"/proc/{pid}/status") as file:
        caught = next(line.split()[1] for line in file if line.startswith("SigCgt:"))
    return bool(int(caught, 16) >> number - 1 & 1)


@pytest.mark.parametrize("number", signals.STOPPING, ids=lambda n: n.name)
def test_a_signal_ends_a_command_with_75_and_how_to_go_on(start, number):
    process = start(COMMAND, "check")
    process.send_signal(number)
    assert process.wait(120) == 75
    by = "" if number == signal.SIGINT else f" by {number.name}"
    assert process.stderr.read() == (
        f"error: interrupted{by}; finished parts are kept\nhint: resume with `rlvr check`\n"
    )


def test_what_nohup_has_a_command_ignore_stays_ignored(start):
    def ignore():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    process = start(COMMAND, "check", preexec_fn=ignore)
    process.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 75
    assert "interrupted by SIGTERM" in process.stderr.read()


@pytest.mark.parametrize("what", STUCK)
def test_a_command_ends_in_time_whatever_it_is_in(start, what):
    process = start(LISTENING.format(what=STUCK[what]), stdout=subprocess.PIPE)
    assert process.stdout.read(7) == "reading"
    process.send_signal(signal.SIGUSR1)
    assert process.wait(120) == 75
    said = process.stderr.read()
    assert "error: interrupted by SIGUSR1; finished parts are kept" in said
    assert "hint: resume with `rlvr check`" in said and "defect" not in said


def test_a_command_whose_terminal_is_closed_ends_alike(start):
    ours, theirs = pty.openpty()
    process = start(COMMAND, "check", stdout=theirs, stderr=theirs)
    os.close(theirs)
    os.close(ours)
    process.send_signal(signal.SIGHUP)
    assert process.wait(120) == 75


def test_a_signal_to_a_fork_of_a_command_is_none_to_the_command(start):
    what = """
        child = os.fork()
        if not child:
            time.sleep(600)
        time.sleep(0.2)
        os.kill(child, 15)
        os.waitpid(child, 0)
        time.sleep(1.0)
        return "" """
    process = start(LISTENING.format(what=what))
    assert process.wait(120) == 2
    assert "stdin holds 0 lines" in process.stderr.read()


# One that has ended, or is about to begin, where the signal comes.
OUTSIDE = """
import atexit, logging, os, signal, sys
from rlvr_cli.cli import app
from rlvr_cli.runtime import distributed
def ask(*_):
    os.kill(os.getpid(), signal.SIGTERM)
{where}
sys.argv = ["rlvr", "--version"]
app.main()
"""


@pytest.mark.parametrize(
    ("where", "code"),
    [
        ("distributed.current = lambda: ask() or distributed.World()", 75),
        ("end = sys.exit; app.sys.exit = lambda code: (ask(), end(code))", 0),
        ("run = app.run; app.run = lambda words: (run(words), atexit.register(ask))[0]", 0),
    ],
    ids=["before", "after", "at the exit"],
)
def test_a_signal_outside_of_a_command_is_no_traceback(where, code):
    words = [sys.executable, "-P", "-c", OUTSIDE.format(where=where)]
    ran = subprocess.run(words, capture_output=True, text=True)
    assert ran.returncode == code and "Traceback" not in ran.stderr, ran.stderr
    assert ("interrupted by SIGTERM" in ran.stderr) == (code == 75)
