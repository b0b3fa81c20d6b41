"""Trains for many steps and says what grows: memory, descriptors, threads, seconds, bytes, files.

    python tests/soak.py --steps 2000

The first quarter of the steps is compared with the last. What must stay as it is and does not is
named, and the exit code is 1: memory, descriptors, threads and processes of the run and of all that
it starts, files of a step, bytes of a line of metrics.jsonl; from 200 steps on also the seconds of
a step, and of resuming beside those of a run of ten steps. A run keeps the shards of each step, so
its folder grows with the steps, as metrics.jsonl does, by a line each.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import processes

COMMAND = "from rlvr_cli.cli.app import main; main()"
WORDS = (
    *("--algo", "grpo", "--engine", "transformers", "--prompts-per-step", "2", "-n", "2"),
    *("--max-new-tokens", "4", "--eval-every", "20", "--eval-num-generations", "1"),
    *("--save-every", "20"),
)
TIMED = 200  # steps from which on seconds are compared
GROWTH = {"MiB": 1.05, "seconds a step": 1.25, "bytes a line": 1.1, "seconds to resume": 1.25}


@dataclass(frozen=True)
class Sample:
    """What a run and all that it started take, after so many steps."""

    steps: int
    at: float
    mib: float
    descriptors: int
    threads: int
    processes: int


def _of(pid: int) -> tuple[int, int, int]:
    """Resident bytes, descriptors and threads of a process; nothing of one that has ended."""
    try:
        resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf(
            "SC_PAGE_SIZE"
        )
        return resident, len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return 0, 0, 0


def train(run: Path, prompts: Path, steps: int, every: int = 0) -> tuple[float, list[Sample]]:
    """Runs or resumes; its seconds, and a sample each so many steps."""
    family, samples, start = processes.Family(), [], time.monotonic()
    words = [*WORDS, "--prompts", prompts / "train", "--heldout", prompts / "heldout"]
    words += ["--steps", steps, "--out", run]
    with family, open(run.with_suffix(".log"), "a") as log:
        command = [sys.executable, "-P", "-c", COMMAND, "train", *words]
        process = family.start(command, stdout=log, stderr=log)
        read, lines = 0, 0
        while process.poll() is None:
            time.sleep(0.05)
            if not every or not (run / "metrics.jsonl").exists():
                continue
            with open(run / "metrics.jsonl", "rb") as file:
                file.seek(read)
                new = file.read()
            read, lines = read + len(new), lines + new.count(b"\n")
            if lines - 1 >= (samples[-1].steps + every if samples else every):
                taken = [_of(member.pid) for member in family.members()]
                if not taken:
                    continue
                resident, *others = map(sum, zip(*taken, strict=True))
                at = time.monotonic() - start
                samples.append(Sample(lines - 1, at, resident / 2**20, *others, len(taken)))
                print(samples[-1], file=sys.stderr, flush=True)
        if process.returncode:
            sys.exit(f"`{run}` ended with {process.returncode}: see {run.with_suffix('.log')}")
    return time.monotonic() - start, samples


def quarters(values: list) -> tuple[list, list]:
    size = max(1, len(values) // 4)
    return values[:size], values[-size:]


def files_by_step(run: Path, steps: int) -> list[int]:
    """How many files a step has, but for a checkpoint, of which the newest and best stay."""
    return [
        sum(
            path.is_file() and "_checkpoint" not in path.parts
            for path in (run / "steps" / f"{step:06d}").rglob("*")
        )
        for step in range(1, steps + 1)
    ]


def measure(root: Path, steps: int) -> dict[str, tuple[float, float]]:
    """Each figure in the first quarter and in the last; of resuming, after ten steps and all."""
    for split, limit in (("train", "24"), ("heldout", "2")):
        made = ["prompts", "task:expression", "--split", split, "--limit", limit]
        words = [sys.executable, "-P", "-c", COMMAND, *made, "--out", str(root / split)]
        subprocess.run(words, check=True, capture_output=True)
    run, short = root / "run", root / "short"
    _, samples = train(run, root, steps, every=max(1, steps // 200))
    lines = (run / "metrics.jsonl").read_text().splitlines()[1:]
    plain = [len(line) for line in lines if '"eval"' not in line]
    figures: dict[str, tuple[float, float]] = {}

    def note(name: str, parts: tuple[list, list], middle=statistics.median) -> None:
        figures[name] = (middle(parts[0]), middle(parts[1]))

    for name in ("mib", "descriptors", "threads", "processes"):
        values = [getattr(sample, name) for sample in samples]
        note("MiB" if name == "mib" else name, quarters(values))
    first, last = quarters(samples)
    paces = [(q[-1].at - q[0].at) / max(1, q[-1].steps - q[0].steps) for q in (first, last)]
    figures["seconds a step"] = (paces[0], paces[1])
    stages = [sum(json.loads(line)["seconds"].values()) for line in lines]
    note("seconds of its stages", quarters(stages))
    note("bytes a line", quarters(plain))
    note("files a step", quarters(files_by_step(run, steps)))
    train(short, root, 10)
    resumed = [
        min(train(path, root, done + more)[0] for more in (1, 2, 3))
        for path, done in ((short, 10), (run, steps))
    ]
    figures["seconds to resume"] = (resumed[0], resumed[1])
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=2000)
    steps = parser.parse_args().steps
    with tempfile.TemporaryDirectory(prefix="soak-") as scratch:
        os.environ["XDG_CACHE_HOME"] = str(Path(scratch) / "cache")
        os.environ["OMP_NUM_THREADS"] = "1"
        figures = measure(Path(scratch), steps)
    grown = []
    print(f"{'':22} first quarter  last quarter   of {steps} steps")
    for name, (first, last) in figures.items():
        print(f"{name:22} {first:13.4g} {last:13.4g}")
        is_timed = name.startswith("seconds")
        if last > first * GROWTH.get(name, 1.25 if is_timed else 1) and (
            not is_timed or steps >= TIMED
        ):
            grown.append(name)
    sys.exit(f"grows: {', '.join(grown)}" if grown else 0)


if __name__ == "__main__":
    main()
