"""Files that are complete or absent."""

import threading

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
    try:
        found = {atomic.read_if_there(path) for _ in range(2_000)}
    finally:
        stop.set()
        other.join()
    assert found <= {None, b"", b"all of it"} and None in found
