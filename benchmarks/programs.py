"""How many programs a second run: MBPP's own solutions, each against its tests.

    python -P benchmarks/programs.py MBPP.jsonl.gz [--before CHECKOUT] [--rounds 3] [--kind unshare]

MBPP has a problem a line with `code`, `test_list` and `test_setup_code`. Each round starts the
verifier's processes anew and runs all programs with none remembered; starting the processes, a
second on either side, is not in the figures. With `--before`, a checkout of an earlier version does
the same in turn. The best round of each counts.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rlvr_cli.interop import readers
from rlvr_cli.verification.sandbox import launch

RUN = """
import collections, json, sys, time
from rlvr_cli.protocols import Limits
from rlvr_cli.verification.workers.pool import Pool, Task
rows, kind, workers = json.load(open(sys.argv[1])), sys.argv[2], int(sys.argv[3])
tasks = [Task("code:timeout_s=10", code, tests, {}, Limits(60.0, 2 << 30)) for code, tests in rows]
with Pool(workers, environment={"RLVR_SANDBOX": kind}) as pool:
    list(pool.run([tasks[0]] * 2 * workers))
    start = time.perf_counter()
    verdicts = dict(pool.run(tasks))
    seconds = time.perf_counter() - start
statuses = collections.Counter(v.status if v.status != "ok" else str(v.correct)
                               for v in verdicts.values())
print(json.dumps([seconds, statuses]))
"""


def tests_of(row: dict[str, object]) -> str:
    setup, tests = row["test_setup_code"], row["test_list"]
    assert isinstance(tests, list)
    return json.dumps([*([setup] if setup else []), *tests])


def timed(checkout: Path, rows: Path, kind: str, workers: int) -> tuple[float, dict[str, int]]:
    words = [sys.executable, "-P", "-c", RUN, str(rows), kind, str(workers)]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    ran = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    seconds, statuses = json.loads(ran.stdout)
    return seconds, statuses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("mbpp", type=Path)
    parser.add_argument("--before", type=Path, help="a checkout of an earlier version")
    parser.add_argument("--programs", type=int, default=0, help="only so many")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--kind", choices=launch.KINDS, default=launch.choose())
    given = parser.parse_args()
    rows = [[row["code"], tests_of(row)] for row in readers.read(given.mbpp)]
    rows = rows[: given.programs or None]
    ways = {"before": given.before} if given.before else {}
    ways["now"] = Path(__file__).resolve().parents[1]
    best: dict[str, tuple[float, dict[str, int]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.json"
        path.write_text(json.dumps(rows))
        for number in range(given.rounds):
            for name, checkout in ways.items():
                result = timed(checkout, path, given.kind, given.workers)
                best[name] = min(best.get(name, result), result, key=lambda r: r[0])
                print(f"round {number + 1}, {name}: {result[0]:.2f} s", file=sys.stderr)
    print(f"{len(rows)} programs, {given.workers} workers, {given.kind}, best of {given.rounds}")
    for name, (seconds, statuses) in best.items():
        counts = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))
        print(f"{name:8}{seconds:8.2f} s{len(rows) / seconds:9.1f} a second   {counts}")
    if given.before:
        print(f"{best['before'][0] / best['now'][0]:.1f} times as many")


if __name__ == "__main__":
    main()
