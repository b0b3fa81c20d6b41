"""Folders that are brought to disk while their writer works on."""

import errno
import os
import threading

import pytest

from rlvr_cli.errors import UserError
from rlvr_cli.storage import atomic


@pytest.fixture
def slow_disk(monkeypatch):
    """A disk that takes files once the event is set."""
    ready, sync = threading.Event(), os.fsync

    def wait(descriptor):
        ready.wait(120)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", wait)
    yield ready
    ready.set()


def write(path, syncing, content=b"weights"):
    with atomic.write_folder(path, replace=True, sync=False) as folder:
        (folder / "optimizer").mkdir()
        (folder / "optimizer" / "file").write_bytes(content)
    syncing.begin(path)


def test_a_folder_is_there_before_it_is_on_disk(tmp_path, slow_disk):
    syncing = atomic.Syncing()
    write(tmp_path / "a", syncing)
    assert (tmp_path / "a" / "optimizer" / "file").read_bytes() == b"weights"
    assert syncing.is_pending
    slow_disk.set()
    syncing.wait()
    assert not syncing.is_pending


def test_a_disk_that_fails_is_an_error_at_the_wait(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "fsync", full)
    syncing = atomic.Syncing()
    write(tmp_path / "a", syncing)
    with pytest.raises(UserError, match="No space left on device") as caught:
        syncing.wait()
    assert "free some space" in str(caught.value.hint)
    assert str(tmp_path / "a") in str(caught.value)
    syncing.wait()  # it is said once


def fail(descriptor):
    raise OSError(errno.EIO, "lost")


def test_what_the_disk_did_not_take_is_pending_until_it_is_said_and_then_gone(
    tmp_path, monkeypatch
):
    syncing = atomic.Syncing()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        write(tmp_path / "a", syncing)
        syncing._pool.shutdown()
        assert syncing.is_pending
        with pytest.raises(UserError, match="Input/output error"):
            syncing.wait()
    assert not (tmp_path / "a").exists() and not syncing.is_pending


def test_what_lay_there_before_stays_if_the_disk_fails(tmp_path, monkeypatch):
    write(tmp_path / "a", before := atomic.Syncing())
    before.wait()
    monkeypatch.setattr(os, "fsync", fail)
    syncing = atomic.Syncing()
    syncing.begin(tmp_path / "a", is_new=False)
    with pytest.raises(UserError, match="Input/output error"):
        syncing.wait()
    assert (tmp_path / "a" / "optimizer" / "file").read_bytes() == b"weights"
