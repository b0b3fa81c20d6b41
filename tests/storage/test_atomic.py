"""Files that are complete or absent."""

import threading
import time

import pytest

from rlvr_cli.storage import atomic


def test_a_file_that_is_removed_while_it_is_looked_for_is_none(tmp_path):
    """Another process completes a directory meanwhile: neither an error nor half a file."""
    path, stop = tmp_path / "listing", threading.Event()

    def come_and_go():
        while not stop.is_set():
            path.write_bytes(b"all of it")
            path.rename(tmp_path / "other")

    other = threading.Thread(target=come_and_go)
    other.start()
    found, reads, deadline = set(), 0, time.monotonic() + 120
    try:
        while reads < 2_000 or (not {None, b"all of it"} <= found and time.monotonic() < deadline):
            found.add(atomic.read_if_there(path))
            reads += 1
    finally:
        stop.set()
        other.join()
    assert {None, b"all of it"} <= found <= {None, b"", b"all of it"}


def test_of_the_folders_that_are_made_the_new_and_empty_ones_go_after_an_error(tmp_path):
    (tmp_path / "there").mkdir()
    for path in ("there", "new/inner", "there/new", "filled/new"):
        with pytest.raises(ValueError), atomic.made_folder(tmp_path / path):
            (tmp_path / "filled" / "file").touch() if path == "filled/new" else None
            raise ValueError
    assert {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*")} == {
        "there", "filled", "filled/file",
    }  # fmt: skip
    with atomic.made_folder(tmp_path / "made"):
        pass
    assert (tmp_path / "made").is_dir()
