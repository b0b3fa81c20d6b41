"""Runs on disks that are full, too small or failing, and what they go on to once there is room."""

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rlvr_cli.cli import app

pytestmark = pytest.mark.slow

SWEEP = Path(__file__).parents[1] / "full_disk.py"
RUN = ["train", "--algo=grpo", "--prompts-per-step=2", "-n2", "--max-new-tokens=4",
       "--eval-every=0", "--steps=3", "--save-every=1", "--keep=1"]  # fmt: skip


SMALL = [*RUN, "--steps=2", "--keep-weights=1", "--out={out}"]


def content(run):
    files = (p for p in run.rglob("*") if p.is_file() and p.name not in ("metrics.jsonl", "_lock"))
    return {str(path.relative_to(run)): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    out = tmp_path_factory.mktemp("made") / "run"
    assert app.run([*RUN, "--out", str(out)]) == 0
    return content(out)


def sweep(*words):
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
        pytest.skip("no mount namespace can be made here")
    ran = subprocess.run([sys.executable, SWEEP, *words], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran.stdout


def test_a_disk_that_is_full_at_any_write_is_one_line_and_costs_nothing():
    said = sweep("--checked", "--step=8192", "--most=60", "--", *SMALL)
    assert said.count("files equal") == 2 and said.count("cannot write") > 5, said
    assert "a checkpoint takes" in said and "the checkpoint of step 2 takes" in said
    assert "update/_checkpoint`: No space left on device" in said
    assert "update/_weights`: No space left on device" in said


def test_a_run_that_is_refused_before_its_first_step_leaves_nothing(
    refused, rlvr, tmp_path, monkeypatch
):
    """Its hints say to begin with other options, which a run that was begun would refuse."""
    run, usage = tmp_path / "runs" / "run", shutil.disk_usage
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: usage(path)._replace(free=1 << 20))
        assert "a checkpoint takes 5.49 MB, and " in refused(1, *RUN, "--out", run)
    assert not run.parent.exists()
    ran = rlvr(*RUN, "--steps=1", "--learning-rate=1e-5", "--out", run)
    assert ran.code == 0, ran.err


def test_what_was_there_before_a_refused_run_stays(refused, rlvr, tmp_path, monkeypatch):
    run, usage = tmp_path / "run", shutil.disk_usage
    assert rlvr("prompts", "task:expression", "--limit=4", "--out", run / "prompts/train").code == 0
    before = content(run)
    words = ["train", "--model=builtin", "--prompts", run / "prompts/train", *RUN[1:]]
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(path)._replace(free=1 << 20))
    refused(1, *words, "--out", run)
    assert content(run) == before


def test_files_that_may_not_grow_are_one_line_and_leave_no_half_checkpoint(
    refused, tmp_path, undisturbed
):
    run, limits = tmp_path / "run", resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:
        err = refused(1, *RUN, "--out", run)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert f"cannot write `{run}/steps/000001/update/_checkpoint`: File too large" in err
    assert "ulimit -f unlimited" in err
    assert not list(run.rglob("_tmp-*")) and not list(run.rglob("*.safetensors"))
    assert app.run([*RUN, "--out", str(run)]) == 0
    assert content(run) == undisturbed


def test_a_checkpoint_that_the_disk_does_not_take_never_costs_the_one_before(
    refused, tmp_path, monkeypatch, undisturbed
):
    """The error of a disk that takes what is written, and loses it on the way."""
    run, sync = tmp_path / "run", os.fsync

    def lose(descriptor):
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if path.endswith("000002/update/_checkpoint/model.safetensors"):
            raise OSError(5, "lost")
        sync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lose)
        err = refused(1, *RUN, "--out", run)
    assert f"cannot write `{run}/steps/000002/update/_checkpoint`: Input/output error" in err
    assert "its disk or the connection to it fails" in err
    checkpoints = sorted(str(path.relative_to(run)) for path in run.rglob("_checkpoint"))
    assert checkpoints == ["steps/000001/update/_checkpoint"]
    assert (run / "steps" / "000003" / "advantages" / "_manifest.json").exists()
    assert app.run([*RUN, "--out", str(run)]) == 0
    assert content(run) == undisturbed


def test_a_tracker_that_has_no_room_for_its_log_leaves_the_run_alone(tmp_path, undisturbed):
    pytest.importorskip("tensorboard")
    run = tmp_path / "run"
    (run / "track.log").mkdir(parents=True)  # a log that cannot be opened
    assert app.run([*RUN, "--track=tensorboard", "--out", str(run)]) == 0
    assert undisturbed.items() <= content(run).items()
