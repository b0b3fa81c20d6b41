"""Writes that a full disk refuses: what is said, what is left, and the room that is asked for."""

import contextlib
import errno
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile

import pytest
import torch
from safetensors.torch import save_file

from rlvr_cli.errors import Advice, UserError
from rlvr_cli.models import tensor_files
from rlvr_cli.storage import atomic, disk


@contextlib.contextmanager
def files_of_at_most(size):
    """A limit on the size of files, which stands for a disk that is full."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def raised(act, *given):
    with pytest.raises(Exception) as caught:
        act(*given)
    return caught.value


def full_database(path):
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("pragma max_page_count=2")
        database.execute("create table t (value blob)")
        for _ in range(9):
            database.execute("insert into t values (zeroblob(4000))")


def test_a_line_is_added_whole_or_not_at_all(tmp_path):
    atomic.append(tmp_path / "log", b"one\n")
    with files_of_at_most(6), pytest.raises(UserError, match="log`: File too large"):
        atomic.append(tmp_path / "log", b"two and more\n")
    assert (tmp_path / "log").read_bytes() == b"one\n"
    atomic.append(tmp_path / "log", b"two\n")
    assert (tmp_path / "log").read_bytes() == b"one\ntwo\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_a_device_that_is_full_is_named(tmp_path):
    (tmp_path / "log").symlink_to("/dev/full")
    with pytest.raises(UserError, match="log`: No space left on device") as caught:
        atomic.append(tmp_path / "log", b"line\n")
    assert "run the same command again" in caught.value.hint


def test_files_that_several_threads_write_are_all_removed(tmp_path):
    tensors = {f"t{n}": torch.zeros(1 << 16) for n in range(4)}
    with (
        files_of_at_most(1 << 17),
        pytest.raises(UserError, match="made`: File too large"),
        atomic.write_folder(tmp_path / "made") as folder,
        tensor_files.saving() as save,
    ):
        for name, tensor in tensors.items():
            save({name: tensor}, folder / f"{name}.safetensors")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_interrupted_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt), atomic.write_folder(tmp_path / "made") as folder:
        (folder / "file").write_bytes(b"half")
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())


def test_libraries_that_tell_of_a_full_disk_in_their_own_way_are_understood(tmp_path):
    with files_of_at_most(1 << 10):
        of_rust = raised(save_file, {"t": torch.zeros(1 << 12)}, tmp_path / "t.safetensors")
    assert disk.cause_of(of_rust).errno == errno.EFBIG and not isinstance(of_rust, OSError)
    of_sqlite = raised(full_database, tmp_path / "t.sqlite")
    assert isinstance(of_sqlite, sqlite3.Error)
    assert disk.cause_of(of_sqlite).errno == errno.ENOSPC
    assert "df -h" in disk.explain(of_sqlite).hint


def test_an_error_that_came_of_a_full_disk_is_told_as_that(tmp_path):
    def convert():
        try:
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT), str(tmp_path / "cache" / "file"))
        except OSError as error:
            raise RuntimeError("the data set could not be built") from error

    told = disk.explain(raised(convert))
    assert f"cannot write `{tmp_path}/cache/file`: Disk quota exceeded" in str(told)
    assert "quota" in told.hint and told.exit_code == 1


@pytest.mark.parametrize("number", sorted(errno.errorcode))
def test_no_hint_names_an_option_that_some_commands_lack(tmp_path, number):
    assert "--" not in disk.write_error(tmp_path, OSError(number, os.strerror(number))).hint


@pytest.mark.parametrize(
    "error",
    [ValueError("no"), FileNotFoundError(2, "no", "x"), UserError("No space left on device")],
)
def test_other_errors_are_none_of_the_disk(error):
    assert disk.explain(error) is None
    disk.refuse(error)


def test_where_no_folder_takes_temporary_files_a_flag_helps(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(tmp_path / "none")])
    told = disk.explain(raised(tempfile.mkdtemp))
    assert "temporary files" in str(told) and "export TMPDIR=" in told.hint


def test_what_has_no_room_is_refused_with_what_is_lacking(tmp_path, monkeypatch):
    free = disk.free(tmp_path / "not" / "there" / "yet")
    assert free and abs(free - disk.free(tmp_path)) < 10**9
    disk.require(tmp_path, 1, "a byte")
    with pytest.raises(UserError, match=r"a model takes 1e\+09 GB, and .* are free in") as caught:
        disk.require(tmp_path / "made", 10**18, "a model")
    assert "choose another place with --out" in caught.value.hint
    disk.require(tmp_path / "made", 10**18, "a model", spare=10**18)
    flag = caught.value.hint.split("`")[1].removeprefix("export ")
    monkeypatch.setenv(*flag.split("="))
    with pytest.warns(Advice, match="a model takes"):
        disk.require(tmp_path / "made", 10**18, "a model")


def test_what_is_piped_in_and_has_no_room_is_one_line(tmp_path):
    """A limit on the size of files stands for a folder for temporary files that is full."""
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))"
    code = f"{limited}; from rlvr_cli.cli.app import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", code, "eval-passk", "-"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        input=b"x" * 5000,
        capture_output=True,
    )
    lines = ran.stderr.decode().splitlines()
    assert ran.returncode == 1 and len(lines) == 2, ran.stderr
    assert "error: what is piped in cannot be kept for the while: File too large" in lines[0]
    assert not list(tmp_path.iterdir())


def test_a_cache_of_digests_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    from rlvr_cli.models import file_digests

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    large = tmp_path / "large"
    with open(large, "wb") as file:
        file.truncate(file_digests.REMEMBERED)
    os.utime(large, (0, 0))
    monkeypatch.setattr(file_digests, "_SETTLED", -(10**12))
    with files_of_at_most(8):
        (digest,) = file_digests.sha256_of([large])
    assert len(digest) == 64
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert file_digests.sha256_of([large]) == [digest]
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
