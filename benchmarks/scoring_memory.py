r"""How the memory of `rlvr score` grows with rows that are all distinct.

    python -P benchmarks/scoring_memory.py GENERATIONS.jsonl --out DIR [--rows 200000]

GENERATIONS as for scoring.py; each text is repeated with another answer boxed at its end, a number
in nine of ten prompts and `\frac{n}{7} + x` in the tenth, so that each question is asked. Imported
and scored by the commands, with an empty cache. Once a second the resident memory of each process
is read; printed are the largest of each tenth of the time, and the rows in finished parts then.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

from rlvr_cli.interop import readers

RLVR = [sys.executable, "-P", "-c", "from rlvr_cli.cli.app import main; main()"]
GROUP = 8
KINDS = ("rlvr", "forks workers", "worker")


def write(source: Path, target: Path, count: int) -> None:
    """Prompts of eight completions, of which the first is right."""
    texts = [text for row in readers.read(source) for text in row["completions"]]
    with open(target, "w") as file:
        for prompt in range(count // GROUP):
            numbers = range(prompt * GROUP, prompt * GROUP + GROUP)
            form = r"\frac{%d}{7} + x" if prompt % 10 == 0 else "%d"
            results = [rf"{texts[n % len(texts)]} \boxed{{{form % n}}}" for n in numbers]
            row = {"id": prompt, "prompt": f"What is {prompt}?", "answer": form % numbers[0]}
            file.write(json.dumps({**row, "completions": results}) + "\n")


def processes(pid: int) -> Iterator[tuple[int, int]]:
    """A process and all below it: how deep, and MiB of resident memory."""
    waiting = [(0, pid)]
    while waiting:
        depth, one = waiting.pop()
        try:
            status = Path(f"/proc/{one}/status").read_text()
            below = Path(f"/proc/{one}/task/{one}/children").read_text()
        except OSError:  # it ended
            continue
        if "VmRSS:" in status:
            yield depth, int(status.split("VmRSS:")[1].split()[0]) // 1024
        waiting += [(depth + 1, int(child)) for child in below.split()]


def largest(out: Path) -> Iterator[tuple[int, dict[str, int]]]:
    """Scores what `out` holds; each second the rows that are done, and MiB by kind of process."""
    words = ["score", f"{out}/rollouts", "--verifier", "math", "--cache", f"{out}/verdicts.sqlite"]
    rows: dict[Path, int] = {}
    with subprocess.Popen([*RLVR, *words, "--out", f"{out}/scores"]) as running:
        while running.poll() is None:
            time.sleep(1)
            for part in set((out / "scores").glob("part-*.parquet")) - rows.keys():
                rows[part] = pq.read_metadata(part).num_rows
            actual: dict[str, int] = {}
            for depth, mebibytes in processes(running.pid):
                actual[KINDS[depth]] = max(actual.get(KINDS[depth], 0), mebibytes)
            yield sum(rows.values()), actual
    assert running.returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("generations", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=200_000)
    given = parser.parse_args()
    given.out.mkdir(parents=True)
    write(given.generations, given.out / "rows.jsonl", given.rows)
    words = ["import", str(given.out / "rows.jsonl"), "--out", str(given.out)]
    subprocess.run([*RLVR, *words], check=True)
    start = time.perf_counter()
    samples = list(largest(given.out))
    seconds = time.perf_counter() - start
    print(f"{given.rows} distinct rows in {seconds:.0f} s; largest resident memory in MiB")
    print(f"{'rows':>10}" + "".join(f"{kind:>16}" for kind in KINDS))
    for tenth in range(10):
        some = samples[tenth * len(samples) // 10 : (tenth + 1) * len(samples) // 10]
        sizes = [max((actual.get(kind, 0) for _, actual in some), default=0) for kind in KINDS]
        print(f"{some[-1][0]:10}" + "".join(f"{size:16}" for size in sizes))
    cache = (given.out / "verdicts.sqlite").stat().st_size
    print(f"verdicts on disk: {cache >> 20} MiB, {cache / given.rows:.0f} bytes a row")


if __name__ == "__main__":
    main()
