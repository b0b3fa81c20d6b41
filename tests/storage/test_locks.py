"""Locks: who holds one is said, and a killed holder blocks nobody, on this machine or another."""

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent import futures

import pytest

from rlvr_cli.errors import Advice, UserError
from rlvr_cli.storage import locks

HOLD = """
import sys, time
from pathlib import Path
from rlvr_cli.storage import locks
with locks.locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def held(tmp_path):
    """A lock that another process holds; the lock and that process."""
    words = [sys.executable, "-P", "-c", HOLD, str(tmp_path / "_lock")]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield tmp_path / "_lock", process
    process.kill()
    process.communicate()


def elsewhere(path, pid=4711):
    """As a process of another machine leaves or holds it, whose lock this one does not see."""
    holder = {"host": "node-17", "pid": pid, "since": "2026-01-02 03:04:05 UTC"}
    path.write_text(json.dumps(holder))


def test_a_refusal_says_who_holds_the_lock_and_how_to_stop_it(held):
    path, process = held
    with pytest.raises(UserError) as refused, locks.locked(path):
        pass
    assert f"another process is writing `{path.parent}`: pid {process.pid}, since " in str(
        refused.value
    )
    command = re.search("`(kill .*)`", refused.value.hint)[1]
    subprocess.run(["sh", "-c", command], check=True)
    assert process.wait(120) == -signal.SIGTERM
    with locks.locked(path):
        assert locks.holder(path).pid == os.getpid()
    assert not path.exists()


def test_the_lock_of_a_killed_process_is_free_at_once_and_still_names_it(held):
    path, process = held
    process.kill()
    process.wait()
    assert locks.holder(path).pid == process.pid
    with locks.locked(path, across_machines=True):
        assert locks.holder(path).pid == os.getpid()


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"pid": 1, "more": 2}'])
def test_a_lock_that_names_nobody_is_refused_all_the_same(held, text):
    path, _ = held
    path.write_text(text)
    with pytest.raises(UserError, match="another process is writing"), locks.locked(path):
        pass


def test_what_a_process_of_another_machine_touches_is_refused_by_its_name(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "SILENT_S", 20.0)
    path, done = tmp_path / "_lock", threading.Event()
    elsewhere(path)

    def touch():
        while not done.wait(0.05):
            os.utime(path)

    toucher = threading.Thread(target=touch)
    toucher.start()
    try:
        with (
            pytest.warns(Advice, match="pid 4711 on `node-17`"),
            pytest.raises(UserError) as refused,
            locks.locked(path, across_machines=True),
        ):
            pass
    finally:
        done.set()
        toucher.join()
    assert "pid 4711 on `node-17`, since 2026-01-02 03:04:05 UTC" in str(refused.value)
    assert "`ssh node-17 kill 4711`" in refused.value.hint


def test_what_no_other_machine_touches_any_more_is_taken_over(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "SILENT_S", 0.3)
    path = tmp_path / "_lock"
    elsewhere(path)
    with pytest.warns(Advice, match="node-17"), locks.locked(path, across_machines=True):
        assert locks.holder(path).pid == os.getpid()


def test_who_only_asks_whether_it_is_locked_refuses_nobody_however_long_that_takes(tmp_path):
    path = tmp_path / "_lock"

    def lock():
        with locks.locked(path):
            return locks.is_locked(path)

    with open(path, "w") as asked:
        fcntl.flock(asked, fcntl.LOCK_SH)  # as `is_locked` does, in a process that stands still
        with futures.ThreadPoolExecutor() as pool:
            waiting = pool.submit(lock)
            with pytest.raises(futures.TimeoutError):
                waiting.result(5 * locks._GLANCE_S)
            fcntl.flock(asked, fcntl.LOCK_UN)
            assert waiting.result(120)


def test_a_lock_across_machines_is_touched_while_it_is_held(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "BEAT_S", 0.02)
    path, seen = tmp_path / "_lock", set()
    with locks.locked(path, across_machines=True):
        deadline = time.monotonic() + 120
        while len(seen) < 3 and time.monotonic() < deadline:
            seen.add(path.stat().st_mtime_ns)
            time.sleep(0.01)
    assert len(seen) >= 3
