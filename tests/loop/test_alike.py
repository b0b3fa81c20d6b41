"""Processes that were started with other options, or see another directory, are refused."""

import os
import socket
import subprocess
import sys

import pytest

CODE = """
import sys
from pathlib import Path
from rlvr_cli.config import RunConfig, UpdateOptions
from rlvr_cli.errors import UserError
from rlvr_cli.loop import alike
from rlvr_cli.runtime import distributed
from rlvr_cli.storage import locks

shared, own = map(Path, sys.argv[1:])
alike._VISIBLE_S = 0.5
rank = distributed.start().rank

def tried(work):
    try:
        return str(work())
    except UserError as error:
        return f"{type(error).__name__}: {error}"

print(tried(lambda: alike.require_configuration(RunConfig())))
rate = RunConfig(train_step=UpdateOptions(learning_rate=1e-3 if rank else 1e-4))
print(tried(lambda: alike.require_configuration(rate)))
own.mkdir()
lock = (shared if rank == 0 else own) / "_lock"
with locks.locked(shared / f"_lock{rank or ''}"):
    print(tried(lambda: alike.require_directory(shared, shared / "_lock")))
    print(tried(lambda: alike.require_directory(own, lock)))
    distributed.barrier()
distributed.leave()
"""


@pytest.mark.slow
def test_another_configuration_or_directory_of_a_process_is_named_to_all(tmp_path, reserved_port):
    (tmp_path / "shared").mkdir()
    place = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(reserved_port)}
    running = [
        subprocess.Popen(
            [sys.executable, "-P", "-c", CODE, tmp_path / "shared", tmp_path / f"own{rank}"],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **place, "RANK": str(rank)},
        )
        for rank in range(2)
    ]
    said = [process.communicate(timeout=300)[0].splitlines() for process in running]
    assert [process.returncode for process in running] == [0, 0]
    here = socket.gethostname()
    for lines in said:
        same, other, shared, not_shared = lines
        assert same == shared == "None"
        assert other == (
            f"UsageError: process 1 on `{here}` has [train_step] learning_rate 0.001, and "
            "process 0 has 0.0001"
        )
        assert not_shared.startswith("DataError: `") and f"on `{here}` is not the" in not_shared
