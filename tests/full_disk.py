"""Runs a command on a disk that is full, gives it a little more room, runs it again, and so on.

    python tests/full_disk.py [--step 4096] [--most 200] [--inodes] [-- rlvr's arguments]

Each attempt must end in one line that says what could not be written, with a hint, and leave no
half-written file; at the end every file must be equal to that of an undisturbed run. The disk is a
tmpfs in a mount namespace of its own, so that this needs Linux and user namespaces. `{out}` stands
for a folder on it in the arguments. With `--inodes` it is the number of files that grows;
`--checked` first does the same by steps of 1 MB, with the room for checkpoints asked for.

Each attempt is a fork of this process, which has imported what the command imports.
"""

import argparse
import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import crash
import disturbed
import torch

from rlvr_cli.cli import app

torch.set_num_threads(1)
TRAIN = (
    *("train", "--algo=grpo", "--prompts-per-step=2", "-n2", "--max-new-tokens=4", "--steps=2"),
    *("--eval-every=2", "--eval-num-generations=1", "--keep=1", "--keep-weights=1"),
    *("--save-every=1", "--out={out}"),
)
_INSIDE = "RLVR_FULL_DISK"
_LEFT = ("_tmp-*", "_pruned*", "*.tmp", "tmp*")


def attempt(words: list[str], modules: Path | None = None) -> tuple[int, str]:
    """Runs a command in a fork; its exit code, and what it wrote to stderr."""
    with tempfile.TemporaryFile() as said:
        child = os.fork()
        if child == 0:
            os.dup2(said.fileno(), 2)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            sys.stderr = io.TextIOWrapper(open(2, "wb", 0), write_through=True)  # noqa: SIM115
            torch.set_num_threads(1)
            code = app.run(words)
            if modules:
                modules.write_text(json.dumps([*sys.modules]))
            os._exit(code)
        status = os.waitpid(child, 0)[1]
        said.seek(0)
        return os.waitstatus_to_exitcode(status), said.read().decode()


def resize(disk: Path, limits: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{limits}", str(disk)], check=True)


@contextlib.contextmanager
def mounted(disk: Path, limits: str) -> Iterator[None]:
    disk.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", limits, "tmpfs", str(disk)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def used(disk: Path, inodes: bool) -> int:
    state = os.statvfs(disk)
    if inodes:
        return state.f_files - state.f_ffree
    return (state.f_blocks - state.f_bfree) * state.f_frsize


def check(code: int, said: str, out: Path) -> None:
    """An attempt on a full disk ended in one line and left nothing half-written."""
    lines = said.splitlines()
    errors = [line for line in lines if line.startswith("error:")]
    assert code == 1, (code, said)
    assert len(errors) == 1 and lines[-1].startswith("hint:"), said
    assert "cannot write" in errors[0] or "are free in" in errors[0], said
    assert "defect" not in said and "Traceback" not in said, said
    left = [path for pattern in _LEFT for path in out.rglob(pattern)]
    assert not left, (left, said)


def undisturbed(words: list[str], scratch: Path) -> dict[str, str]:
    """What the command leaves where there is room; imports what it imported."""
    modules = scratch / "modules.json"
    whole = scratch / "whole"
    code, said = attempt([word.format(out=whole) for word in words], modules)
    assert code == 0, said
    crash.load(json.loads(modules.read_text()))
    return disturbed.content(whole)


def sweep(
    words: list[str], expected: dict[str, str], disk: Path, step: int, most: int, *, inodes: bool
) -> None:
    key, start, begun = "nr_inodes" if inodes else "size", step, time.monotonic()
    other = "size=1g" if inodes else "nr_inodes=0"
    seen: dict[str, int] = {}
    with mounted(disk, f"{key}={start},{other}"):
        out, limit, attempts = disk / "out", start, 0
        own = [word.format(out=out) for word in words]
        more, before = step, ""
        while True:
            attempts += 1
            code, said = attempt(own)
            if code == 0:
                break
            check(code, said, out)
            line = next(line for line in said.splitlines() if line.startswith("error:"))
            line = re.sub(r"\d[\d.]* (?=GB|MB)", "N ", line)
            seen[line] = seen.get(line, 0) + 1
            assert attempts < most, f"{attempts} attempts, the disk has {limit}: {said}"
            more, before = (4 * more if line == before else step), line
            limit = max(limit, used(disk, inodes)) + more
            resize(disk, f"{key}={limit},{other}")
        actual = disturbed.content(out)
    other_files = {n for n in expected | actual if expected.get(n) != actual.get(n)}
    assert not other_files, f"{len(other_files)} files differ, as {sorted(other_files)[:5]}"
    for line, count in seen.items():
        print(f"{count:4} times {line}".replace(str(disk), "DISK"))
    print(
        f"{attempts} attempts on a full disk, {time.monotonic() - begun:.0f} s: "
        f"{len(expected)} files equal"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--step", type=int, default=4096)
    parser.add_argument("--most", type=int, default=2000)
    parser.add_argument("--inodes", action="store_true")
    parser.add_argument("--checked", action="store_true")
    parser.add_argument("words", nargs="*")
    given = parser.parse_args()
    if not os.environ.get(_INSIDE):
        os.environ[_INSIDE] = "1"
        os.execvp("unshare", ["unshare", "-rm", sys.executable, *sys.argv])
    scratch = Path(tempfile.mkdtemp())
    try:
        os.environ["XDG_CACHE_HOME"] = str(scratch / "cache")
        words, disk = given.words or list(TRAIN), scratch / "disk"
        expected = undisturbed(words, scratch)
        if given.checked:
            sweep(words, expected, disk, 10**6, given.most, inodes=False)
        os.environ["RLVR_ANY_SPACE"] = "1"
        sweep(words, expected, disk, given.step, given.most, inodes=given.inodes)
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
