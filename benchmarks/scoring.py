"""How fast completions are verified, beside a plain loop over math-verify on the same texts.

    python -P benchmarks/scoring.py GENERATIONS.jsonl [--samples 16] [--rounds 3]

GENERATIONS is a file of `rlvr import`, one problem a line with `answer` and `completions`, such as
MATH problems with chains of thought. With `--samples` the completions of a problem are repeated to
so many, as more samples of a policy repeat its answers. The loop does what math-verify's README
says: parse the gold, parse the completion, verify. All run in turn, several times; the best counts.
Loading math-verify and starting processes, a second or two on either side, are not in the figures.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlvr_cli.interop import readers
from rlvr_cli.stages import score
from rlvr_cli.verification.scoring import rewards
from rlvr_cli.verification.scoring.scorer import Question, Scorer

LOOP = """
import json, logging, sys, time
from math_verify import parse, verify
logging.disable(logging.CRITICAL)
rows = json.load(open(sys.argv[1]))
verify(parse("$1$"), parse("so $\\\\frac{2}{2}$"))
start = time.perf_counter()
right = sum(verify(parse(f"${gold}$"), parse(text)) for gold, text in rows)
print(json.dumps([time.perf_counter() - start, right]))
"""


def rows_of(path: Path, samples: int) -> list[tuple[str, str]]:
    """Golds and completions, each problem's completions repeated to so many."""
    values = []
    for row in readers.read(path):
        texts = row["completions"]
        values += [
            (str(row["answer"]), texts[i % len(texts)]) for i in range(samples or len(texts))
        ]
    return values


def plain_loop(path: Path) -> tuple[float, int]:
    ran = subprocess.run(
        [sys.executable, "-P", "-c", LOOP, path], capture_output=True, text=True, check=True
    )
    seconds, right = json.loads(ran.stdout)
    return seconds, right


def ours(rows: list[tuple[str, str]], make: Callable[[], Scorer]) -> tuple[float, int]:
    """Seconds with the processes running, and the number of right answers."""
    (part,) = rewards.build("math")
    with make() as scorer:
        first = [Question(part.spec, part.verifier, "#### x", True, f"x+{i}", {}) for i in range(9)]
        scorer.verdicts(first)
        start = time.perf_counter()
        questions = [
            Question(part.spec, part.verifier, text, True, gold, {}) for gold, text in rows
        ]
        verdicts = scorer.verdicts(questions)
        seconds = time.perf_counter() - start
    return seconds, sum(bool(v.correct) for v in verdicts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("generations", type=Path)
    parser.add_argument("--samples", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    given = parser.parse_args()
    rows = rows_of(given.generations, given.samples)
    best: dict[str, tuple[float, int]] = {}
    with tempfile.TemporaryDirectory() as folder:
        texts = Path(folder) / "rows.json"
        texts.write_text(json.dumps(rows))
        known = Path(folder) / "known.sqlite"
        ways: dict[str, Callable[[], Any]] = {
            "plain loop": lambda: plain_loop(texts),
            "every completion": lambda: ours(
                rows, lambda: score.scorer(workers=given.workers, use_cache=False)
            ),
            "each distinct once": lambda: ours(
                rows,
                lambda: score.scorer(workers=given.workers, cache=Path(tempfile.mkdtemp()) / "x"),
            ),
            "known from before": lambda: ours(
                rows, lambda: score.scorer(workers=given.workers, cache=known)
            ),
        }
        ways["known from before"]()
        for _ in range(given.rounds):
            for name, way in ways.items():
                result = way()
                best[name] = min(best.get(name, result), result)
    loop = best["plain loop"][0]
    print(
        f"{len(rows)} completions, {given.workers} workers, best of {given.rounds} rounds in turn"
    )
    print(f"{'':20}{'seconds':>9}{'per second':>12}{'x loop':>8}{'right':>8}")
    for name, (seconds, right) in best.items():
        rate, ratio = len(rows) / seconds, loop / seconds
        print(f"{name:20}{seconds:9.2f}{rate:12,.0f}{ratio:8.1f}{right:8}")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"largest memory of this process: {memory:,.0f} MiB")


if __name__ == "__main__":
    main()
