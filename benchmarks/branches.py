"""Six objectives by two verifiers: as branches of one stored step, and as runs of their own.

    python -P benchmarks/branches.py --out runs/branches --write docs/branches.md

Trains the built-in policy for 10 steps, branches there into 12 runs of 16 steps, and trains 12 runs
of 16 steps from the start, each with a seed of its own; all in one process, one after another. Then
each run is compared with the first of its kind on the held-out prompts. The second verifier adds a
little for short completions; both call the same completions correct, so Pass@1 means the same under
both. What is there already is kept, with its seconds in results.jsonl.
"""

import argparse
import contextlib
import itertools
import json
import os
import sys
import time
from pathlib import Path

import numpy as np

from rlvr_cli.cli import app
from rlvr_cli.evaluation import pass_at_k
from rlvr_cli.evaluation.metrics import intervals

ALGOS = ("grpo", "dapo", "dr-grpo", "rloo", "gspo", "cispo")
VERIFIERS = ("expression", "expression+0.2*{short}:short")
SHORT = "def short(completion, answer):\n    return float(len(completion) <= 6)\n"
SHARED, STEPS = 10, 16
ARGUMENTS = ("--eval-every", str(STEPS), "--keep", "1", "--save-every", str(STEPS))
BEGIN, END = "<!-- begin: benchmarks/branches.py -->\n", "<!-- end -->\n"


def rlvr(out: Path, name: str, *words: str) -> None:
    """Runs a command once; notes its seconds by the clock, and those on the cores."""
    log = out / "results.jsonl"
    lines = map(json.loads, log.read_text().splitlines() if log.exists() else ())
    if any(line["name"] == name for line in lines):
        return
    start, before = time.monotonic(), time.process_time()
    with contextlib.redirect_stdout(sys.stderr):
        if code := app.run(list(words)):
            sys.exit(code)
    record = {"name": name, "wall_s": time.monotonic() - start}
    record["cpu_s"] = time.process_time() - before
    with log.open("a") as file:
        file.write(json.dumps(record) + "\n")
    print(json.dumps(record), flush=True)


def runs(out: Path, verifiers: tuple[str, ...], seed: int) -> tuple[dict, dict]:
    """The branches and the runs of their own, by objective and verifier, once they exist."""
    parent, folder = f"parent-{seed}", f"branches-{seed}"
    start = ("train", *ARGUMENTS, "--seed", str(seed), "--steps", str(SHARED), "--algo", "grpo")
    rlvr(out, parent, *start, "--verifier", verifiers[0], "--out", parent)
    given = [w for algo in ALGOS for w in ("--algo", algo)]
    given += [w for verifier in verifiers for w in ("--verifier", verifier)]
    steps = ("--at", str(SHARED), "--steps", str(STEPS))
    rlvr(out, folder, "branch", parent, *steps, *given, "--out", folder)
    branches, own = {}, {}
    for number, (algo, verifier) in enumerate(itertools.product(ALGOS, verifiers)):
        config = [f'algo = "{algo}"', f'verifier = "{verifier}"']
        path = next(
            p
            for p in (out / folder).iterdir()
            if all(c in (p / "config.toml").read_text() for c in config)
        )
        branches[algo, verifier] = path
        rlvr(out, f"{folder}/{path.name}", "train", "--out", str(path), "--verifier", verifier)
        name = f"own-{seed}-{number}"
        words = ("--algo", algo, "--verifier", verifier, "--steps", str(STEPS), "--out", name)
        other = str(100 * (seed + 1) + number)
        rlvr(out, name, "train", *ARGUMENTS, "--seed", other, *words)
        own[algo, verifier] = out / name
    return branches, own


def pass_at_1(run: Path) -> np.ndarray:
    """Pass@1 of each held-out prompt after the last step."""
    measures = pass_at_k.run_measures(run / "eval" / f"{STEPS:06d}")
    return measures.value_PM[:, measures.names.index("pass@1")]


def differences(kind: dict) -> list[tuple[float, float, float]]:
    """Of each run and the first: the difference, the width of its interval, its standard error."""
    first, *others = [pass_at_1(run)[:, None] for run in kind.values()]
    found = []
    for other in others:
        made = intervals.of_differences(["pass@1"], other, first)
        width = float(made.high_M[0] - made.low_M[0])
        found.append((float(made.mean_M[0]), width, float(made.error_M[0])))
    return found


def table(out: Path, all_runs: dict[int, tuple[dict, dict]]) -> str:
    records = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    count = len(all_runs)

    def seconds(*starts: str) -> str:
        chosen = [r for r in records if r["name"].startswith(starts)]
        wall, cpu = (sum(r[n] for r in chosen) / count for n in ("wall_s", "cpu_s"))
        return f"{wall:,.0f} | {cpu:,.0f}"

    laid = [r for r in records if r["name"].startswith("branches-") and "/" not in r["name"]]
    lines = [
        f"| 12 runs of {STEPS} steps | seconds | CPU seconds |",
        "|---|---|---|",
        f"| the {SHARED} steps that are shared | {seconds('parent-')} |",
        f"| `rlvr branch` | {np.mean([r['wall_s'] for r in laid]):.1f} | "
        f"{np.mean([r['cpu_s'] for r in laid]):.1f} |",
        f"| all of it, as branches | {seconds('parent-', 'branches-')} |",
        f"| 12 runs of their own | {seconds('own-')} |",
        "",
        "| held-out Pass@1, each run and the first, 43 prompts | branches | runs of their own |",
        "|---|---|---|",
    ]
    kinds = [
        np.array([d for made in all_runs.values() for d in differences(made[kind])])
        for kind in (0, 1)
    ]
    for column, name in ((1, "width of the paired 95% interval"), (2, "standard error")):
        cells = [f"{100 * np.median(each[:, column]):.1f}" for each in kinds]
        ranges = [f"{100 * each[:, column].min():.1f} to {100 * each[:, column].max():.1f}"
                  for each in kinds]  # fmt: skip
        row = [f"{c} ({r})" for c, r in zip(cells, ranges, strict=True)]
        lines.append(f"| {name}, points: median (range) | {row[0]} | {row[1]} |")
    spread = [f"{100 * np.abs(each[:, 0]).mean():.1f}" for each in kinds]
    lines.append(f"| mean size of the difference, points | {spread[0]} | {spread[1]} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/branches"))
    parser.add_argument("--seeds", type=int, default=1, help="how often all of it is done")
    parser.add_argument("--write", type=Path, help="the page whose table is replaced")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    page = options.write and options.write.resolve()
    os.chdir(options.out)
    out = Path()
    Path("short.py").write_text(SHORT)
    verifiers = tuple(verifier.format(short="short.py") for verifier in VERIFIERS)
    made = {seed: runs(out, verifiers, seed) for seed in range(options.seeds)}
    text = table(out, made)
    print(text)
    if page:
        before, _, rest = page.read_text().partition(BEGIN)
        page.write_text(f"{before}{BEGIN}{text}{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
