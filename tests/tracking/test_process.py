"""`train --track`: a process of its own, which ends with the run and never stops it."""

import os
import signal
import subprocess
import sys
import time

import pytest

WORDS = ["--steps=3", "--prompts-per-step=4", "-n4", "--max-new-tokens=16", "--eval-every=0"]


def start(out, spec, *words):
    code = "from rlvr_cli.cli.app import main; main()"
    command = [sys.executable, "-P", "-c", code, "train", *WORDS, "--out", str(out)]
    return subprocess.Popen(
        [*command, "--track", spec, *words], stderr=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip


def wait_until(happened, what, seconds=300):
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
def test_a_run_has_sent_all_its_steps_when_it_ends(tmp_path, own, kept):
    ran = start(tmp_path / "run", own)
    _, err = ran.communicate(timeout=300)
    assert ran.returncode == 0, err
    assert [entry["step"] for entry in kept("step")] == [1, 2, 3]  # step 0 has no figures
    assert kept("start")[0]["pid"] != ran.pid and len(kept("finish")) == 1
    assert "track: 4 steps sent, the last is step 3" in (tmp_path / "run" / "track.log").read_text()


@pytest.mark.slow
def test_a_tracker_that_fails_does_not_stop_the_run(tmp_path, own, kept, rlvr):
    (tmp_path / "down").write_text("1")
    ran = start(tmp_path / "run", own)
    _, err = ran.communicate(timeout=300)
    assert ran.returncode == 0 and "train: 3 steps" in err
    assert "the tracker failed, see" in err and f"rlvr track {tmp_path}/run --to {own}" in err
    assert "the line is down" in (tmp_path / "run" / "track.log").read_text()
    (tmp_path / "down").unlink()
    assert rlvr("track", tmp_path / "run", "--to", own).code == 0
    assert [entry["step"] for entry in kept("step")] == [1, 2, 3]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_the_tracker_of_a_run_that_is_stopped_sends_the_rest_and_ends(tmp_path, own, kept, number):
    ran = start(tmp_path / "run", own, "--steps=100000")
    wait_until(lambda: (tmp_path / "kept.jsonl").exists() and kept("step"), "nothing was sent")
    pid = kept("start")[0]["pid"]
    os.kill(ran.pid, number)
    ran.communicate(timeout=300)
    wait_until(lambda: not is_alive(pid), "the tracker outlives the run")
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert [entry["step"] for entry in kept("step")] == list(range(1, len(lines)))
    assert len(kept("finish")) == 1


@pytest.mark.slow
def test_a_run_may_be_resumed_with_another_tracker_or_none(tmp_path, own, kept, trained, rlvr, run):
    assert rlvr("train", "--out", run, "--steps", 3).code == 0
    assert rlvr("train", "--out", run, "--steps", 4, "--track", own).code == 0
    assert [entry["step"] for entry in kept("step")] == [0, 1, 2, 3, 4]
    assert "track" not in (run / "config.toml").read_text()


def test_a_tracker_that_is_unknown_is_refused_before_the_run(refused, tmp_path):
    err = refused(2, "train", "--out", tmp_path / "run", "--track", "tracko", "--dry-run")
    assert "unknown tracker `tracko`" in err and "did you mean `trackio`?" in err


def test_the_flag_that_track_replaces_names_it(refused):
    assert "did you mean `--track tensorboard`?" in refused(2, "train", "--tensorboard")
