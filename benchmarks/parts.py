"""What it costs to make, to resume and to complete a directory of many small parts.

    python -P benchmarks/parts.py --parts 1000,5000,20000 [--processes 2]

CPU seconds are those of this process, or of all, and of the kernel for them; --out is where to
write, as the time that a disk takes is its own.
"""

import argparse
import contextlib
import multiprocessing
import os
import tempfile
import time
from pathlib import Path

import pyarrow as pa

from rlvr_cli.storage import schema
from rlvr_cli.storage.plan import Plan
from rlvr_cli.storage.writer import write_shards


def rows(index: int) -> pa.Table:
    return pa.table(
        {
            "prompt_id": [f"p{index}"] * 4,
            "sample_index": list(range(4)),
            "reward": [1.0, 0.0, None, 0.5],
            "correct": [True, False, None, False],
            "extracted": ["3*8", None, "", "7"],
            "reason": [None, "cut", None, None],
            "status": ["ok", "ok", "timeout", "ok"],
        },
        schema.schema("scores"),
    )


class Cut(BaseException):
    """Ends the making before the last part."""


def make(folder: Path, parts: int, last: int) -> None:
    def until(index: int) -> pa.Table:
        if index == last:
            raise Cut
        return rows(index)

    with contextlib.suppress(Cut):
        write_shards(folder, Plan("scores", "score", {"verifier": "expression"}, {}, parts), until)


def together(folder: Path, parts: int, last: int, processes: int) -> None:
    if processes == 1:
        return make(folder, parts, last)
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=make, args=(folder, parts, last)) for _ in range(processes)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", default="1000,5000,20000")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    print(f"{'parts':>7} {'what':<28} {'CPU s':>8} {'wall s':>8}")
    for parts in map(int, given.parts.split(",")):
        with tempfile.TemporaryDirectory(dir=given.out) as scratch:
            folder = Path(scratch) / "a"
            for what, last in (("all but the last", parts - 1), ("the last, after a stop", parts),
                               ("nothing, it is complete", parts)):  # fmt: skip
                before, start = os.times(), time.monotonic()
                together(folder, parts, last, given.processes)
                cpu = sum(os.times()[:4]) - sum(before[:4])
                print(f"{parts:7} {what:<28} {cpu:8.2f} {time.monotonic() - start:8.2f}")


if __name__ == "__main__":
    main()
