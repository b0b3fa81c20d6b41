"""Processes that make one directory together: other mounts, other clocks, and kills."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.storage import test_shards as shards

pytestmark = pytest.mark.slow
MAKER = """
import itertools, os, sys, time
from pathlib import Path
from rlvr_cli.storage import leases
from rlvr_cli.storage.plan import Plan
from rlvr_cli.storage.share import Share
from rlvr_cli.storage.writer import write_shards
from tests.storage.test_shards import rows

folder, parts, share, offset, machine, patience, go_on = sys.argv[1:]
leases.BEAT_S, leases.PATIENCE_S = 0.1, float(patience)
if machine:
    leases._machine = lambda: machine
real = time.monotonic
time.monotonic = lambda: real() + float(offset)

made_here = []
def make(index):
    time.sleep(0.02)
    made_here.append(index)
    while go_on and len(made_here) > 6 and not os.path.exists(go_on):
        time.sleep(0.01)
    return rows(index)

made = write_shards(
    Path(folder), Plan("scores", "score", {"verifier": "expression"}, {}, int(parts)), make,
    share=Share.parse(share), summarise=lambda s: {"rows": s.rows},
    on_part=lambda index, state: print(index, state, flush=True),
)
sys.exit(0 if made is not None else 9)
"""
PARTS = 24
ROOT = Path(__file__).parents[2]


def maker(
    folder: Path,
    share: str = "0/1",
    *,
    offset: float = 0,
    machine: str = "",
    before=(),
    patience: float = 300,
    go_on: Path | str = "",
) -> subprocess.Popen:
    """A process that makes the directory, or helps to; ends with 9 if parts are left to others.

    It takes the parts of a process that shows no sign of life for so many seconds of `patience`,
    which one on a busy machine may do for a while. It makes six parts before there is `go_on`.
    """
    words = [folder, PARTS, share, offset, machine, patience, go_on]
    return subprocess.Popen(
        [*before, sys.executable, "-c", MAKER, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
    )


def written(process: subprocess.Popen, *codes: int) -> set[int]:
    """The parts that a process says it has written, after it ended well."""
    out, err = process.communicate(timeout=300)
    assert process.returncode in (codes or (0,)), err
    return {int(line.split()[0]) for line in out.splitlines() if line.endswith("written")}


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("alone") / "a"
    assert written(maker(folder)) == set(range(PARTS))
    return shards.content(folder)


def test_processes_that_see_the_folder_under_other_paths_share_its_parts(tmp_path, alone):
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    both = [maker(tmp_path / "a"), maker(tmp_path / "link")]
    one, other = (written(process) for process in both)
    assert one | other == set(range(PARTS)) and not one & other
    assert shards.content(tmp_path / "a") == alone


def test_processes_that_see_the_folder_through_two_mounts_share_its_parts(tmp_path, alone):
    (tmp_path / "disk" / "a").mkdir(parents=True)
    (tmp_path / "seen").mkdir()
    bound = f"mount --bind {tmp_path}/disk {tmp_path}/seen && "
    inside = ["unshare", "--mount", "sh", "-c"]
    tried = subprocess.run([*inside, bound + "true"], capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"no mount namespace here: {tried.stderr.strip()}")
    through = [*inside, bound + 'exec "$@"', "sh"]
    both = [
        maker(tmp_path / "disk" / "a", machine="one"),
        maker(tmp_path / "seen" / "a", machine="other", before=through),
    ]
    one, other = (written(process) for process in both)
    assert one | other == set(range(PARTS)) and not one & other
    assert shards.content(tmp_path / "disk" / "a") == alone


def test_clocks_that_differ_take_nothing_from_a_process_that_lives(tmp_path, alone):
    both = [
        maker(tmp_path / "a", offset=offset, machine=machine)
        for offset, machine in ((-3600, "one"), (86400, "other"))
    ]
    one, other = (written(process) for process in both)
    assert one | other == set(range(PARTS)) and not one & other
    assert shards.content(tmp_path / "a") == alone


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_task_that_stops_on_another_host_does_not_hold_the_directory_back(tmp_path, alone, how):
    go_on = tmp_path / "go on"  # once it has stopped: else it might be through before it is
    first = maker(tmp_path / "a", "0/2", machine="one", go_on=go_on)
    assert first.stdout is not None and first.stdout.readline()
    first.send_signal(how)
    go_on.touch()
    made = written(maker(tmp_path / "a", "1/2", machine="other", patience=1))
    assert set(range(1, PARTS, 2)) <= made
    assert shards.content(tmp_path / "a") == alone
    first.send_signal(signal.SIGCONT)
    first.communicate(timeout=300)
    assert first.returncode == (-how if how == signal.SIGKILL else 0)
    assert shards.content(tmp_path / "a") == alone  # also after it came back


def test_kills_of_several_processes_at_once_leave_equal_bytes(tmp_path, alone):
    chance = random.Random(5)
    for trial in range(2):
        folder = tmp_path / str(trial)
        for _ in range(2):
            running = [maker(folder, share) for share in ("0/1", "0/2", "1/2")]
            time.sleep(chance.uniform(0.5, 1.2))
            for process in running:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                process.communicate()
        written(maker(folder))
        assert shards.content(folder) == alone
        shutil.rmtree(folder)


def test_many_tasks_of_an_array_make_each_part_once(tmp_path, alone):
    tasks = [maker(tmp_path / "a", f"{index}/3") for index in range(3)]
    made = [written(task, 0, 9) for task in tasks]
    assert sum(map(len, made)) == PARTS and set().union(*made) == set(range(PARTS))
    assert shards.content(tmp_path / "a") == alone
