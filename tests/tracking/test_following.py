"""Lines of metrics.jsonl as a run writes, tears and repairs them."""

import json
import os

import pytest

from rlvr_cli.errors import DataError
from rlvr_cli.storage import atomic, locks
from rlvr_cli.tracking import following
from rlvr_cli.tracking.following import Metrics


def lines(*steps):
    return "".join(json.dumps({"step": step, "reward": step / 10}) + "\n" for step in steps)


def steps(metrics):
    return [record["step"] for record in metrics.fresh()]


@pytest.fixture
def file(tmp_path):
    return tmp_path / "metrics.jsonl"


def append(file, text):
    with open(file, "a") as opened:
        opened.write(text)


def test_each_line_is_read_once_it_is_complete(file, tmp_path):
    metrics = Metrics(tmp_path)
    assert steps(metrics) == []
    append(file, lines(0) + '{"step": 1, "rew')
    assert steps(metrics) == [0]
    assert steps(metrics) == []
    append(file, 'ard": 0.1}\n' + lines(2))
    assert steps(metrics) == [1, 2]


def test_a_file_that_a_resumed_run_repaired_is_read_from_its_start(file, tmp_path):
    metrics = Metrics(tmp_path)
    append(file, lines(0, 1, 2) + '{"step": 3, "re')
    assert steps(metrics) == [0, 1, 2]
    atomic.write_atomic(file, lines(0, 1).encode())  # as repair_metrics does
    append(file, lines(2, 3))
    assert steps(metrics) == [0, 1, 2, 3]


def test_a_file_that_was_replaced_by_one_as_long_is_read_again(file, tmp_path):
    metrics = Metrics(tmp_path)
    append(file, lines(0, 1))
    assert steps(metrics) == [0, 1]
    for _ in range(3):
        atomic.write_atomic(file, lines(0, 2).encode())
    assert steps(metrics) == [0, 2]


@pytest.mark.parametrize("line", ["not JSON", '{"reward": 1}', "[]", '{"step": null}'])
def test_a_complete_line_that_is_no_record_is_refused_by_its_number(file, tmp_path, line):
    append(file, f"{lines(0)}{line}\n")
    with pytest.raises(DataError, match="line 2 of"):
        steps(Metrics(tmp_path))


def test_what_the_run_wrote_last_is_read_before_it_counts_as_over(file, tmp_path):
    (tmp_path / "config.toml").write_text("[train]\nsteps = 9\n")
    append(file, lines(0))

    def is_over():
        append(file, lines(1))
        return True

    assert [record["step"] for record in following.follow(tmp_path, is_over)] == [0, 1]


def test_a_run_runs_while_a_process_holds_its_lock(tmp_path):
    assert not following.is_running(tmp_path)
    with locks.locked(tmp_path / "_lock"):
        assert following.is_running(tmp_path)
    (tmp_path / "_lock").touch()  # as a killed run leaves it
    assert not following.is_running(tmp_path)


def test_asking_whether_a_run_runs_refuses_no_run_that_starts_then(tmp_path):
    import threading

    lock, done = tmp_path / "_lock", threading.Event()
    lock.touch()

    def ask():
        while not done.is_set():
            following.is_running(tmp_path)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        for _ in range(300):
            with locks.locked(lock):
                pass
            os.close(os.open(lock, os.O_CREAT))
    finally:
        done.set()
        asking.join()
