"""Five seeds of the built-in run for each algorithm, as a Markdown table.

    python benchmarks/builtin.py --algo quatro --algo grpo --out runs/builtin

Held-out figures before and after with 95% intervals over prompts, and the wall time of
`rlvr train` as a whole process. Runs that are there already are not made again.
"""

import argparse
import json
import platform
import shutil
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

RLVR = Path(sys.executable).parent / "rlvr"
SHOWN = ("pass@1", "pass@16", "ucc@16", "entropy", "kl")


def run(algo: str, seed: int, out: Path) -> dict:
    """The summary of one run, with its wall time in seconds."""
    path = out / f"{algo}-seed{seed}"
    kept = path / "summary.json"
    if not kept.exists():
        shutil.rmtree(path, ignore_errors=True)
        start = time.monotonic()
        arguments = ["train", "--algo", algo, "--seed", str(seed), "--out", str(path), "--json"]
        done = subprocess.run([RLVR, *arguments], stdout=subprocess.PIPE, check=True)
        summary = json.loads(done.stdout) | {"seconds": time.monotonic() - start}
        kept.write_text(json.dumps(summary))
    return json.loads(kept.read_text())


def cell(metric: str, values: dict) -> str:
    share = metric.startswith("pass@")
    scale, form = (100, "{:.1f}") if share else (1, "{:.2f}")
    before, after = (form.format(scale * values[k][0]) for k in ("first", "second"))
    change = ["-" if v is None else form.format(scale * v) for v in values["difference"]]
    return f"{before} to {after} ({change[0]} [{change[1]}, {change[2]}])"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--algo", action="append", required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("runs/builtin"))
    given = parser.parse_args()
    libraries = ", ".join(f"{name} {version(name)}" for name in ("rlvr", "torch", "transformers"))
    print(f"{platform.machine()}, Python {platform.python_version()}, {libraries}\n")
    print(f"| run | seconds | {' | '.join(SHOWN)} |")
    print(f"|---|---|{'---|' * len(SHOWN)}")
    for algo in given.algo:
        for seed in range(given.seeds):
            made = run(algo, seed, given.out)
            cells = [cell(metric, made["metrics"][metric]) for metric in SHOWN]
            print(
                f"| {algo}, seed {seed} | {made['seconds']:.0f} | {' | '.join(cells)} |", flush=True
            )


if __name__ == "__main__":
    main()
