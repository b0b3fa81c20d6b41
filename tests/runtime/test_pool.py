"""Processes that share work: their results, and how they end."""

import os
import signal
import subprocess
import sys
import time

import pytest

from rlvr_cli.errors import UserError
from rlvr_cli.runtime.pool import pool, side_by_side

pytestmark = pytest.mark.slow

WORK = """
import sys, time
from rlvr_cli.runtime.pool import side_by_side
if __name__ == "__main__":
    from rlvr_cli.cli import app
    for _ in side_by_side(time.sleep, [600.0, 600.0, 600.0], 2):
        pass
"""


def test_results_come_from_as_many_processes_as_were_asked_for():
    assert sorted(side_by_side(abs, [-2, 1, -3], 2)) == [1, 2, 3]
    assert list(side_by_side(abs, [-1], None)) == [1]


def test_a_process_that_is_killed_is_said_and_the_others_end():
    with (
        pytest.raises(UserError, match="a process that shared the work was killed"),
        pool(2) as two,
    ):
        pids = {two.submit(os.getpid).result() for _ in range(2)}
        sleeping = two.submit(time.sleep, 600)
        os.kill(pids.pop(), signal.SIGKILL)
        sleeping.result()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=lambda n: n.name)
def test_they_end_in_the_midst_of_their_work_with_the_process_that_they_work_for(
    family, tmp_path, number
):
    (tmp_path / "work.py").write_text(WORK)
    process = family.start([sys.executable, "-P", tmp_path / "work.py"], stderr=subprocess.DEVNULL)
    while sum("spawn_main" in m.command for m in family.members()) < 2:
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(number)
    process.wait(120)
    assert family.left() == []
