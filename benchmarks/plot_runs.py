"""The curves of runs of `rlvr train`, one panel a measure, with the 95% intervals of evaluations.

python -P benchmarks/plot_runs.py runs/grpo runs/quatro --out docs/word-problems.svg
"""

import argparse
import json
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("svg")
from matplotlib import pyplot

PANELS = ("reward", "pass@1", "pass@16", "ucc@16", "entropy", "kl")


def draw(axes, name: str, label: str, records: list[dict]) -> None:
    if name == "reward":
        trained = [r for r in records if r.get("reward") is not None]
        axes.plot([r["step"] for r in trained], [r["reward"] for r in trained], lw=1, label=label)
        return
    evaluated = [r for r in records if name in r.get("eval", {})]
    steps = [r["step"] for r in evaluated]
    cells = np.array([r["eval"][name] for r in evaluated], dtype=float)  # null is NaN
    mean, low, high = cells.T
    (line,) = axes.plot(steps, mean, marker="o", ms=3, lw=1, label=label)
    axes.fill_between(steps, low, high, alpha=0.2, lw=0, color=line.get_color())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    figure, grid = pyplot.subplots(2, 3, figsize=(9, 5), layout="constrained")
    for name, axes in zip(PANELS, grid.flat, strict=True):
        for run in options.runs:
            lines = (run / "metrics.jsonl").read_text().splitlines()
            draw(axes, name, run.name, [json.loads(line) for line in lines])
        axes.set_title("training reward" if name == "reward" else f"held-out {name}", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_ylim(bottom=0)
    for axes in grid[1]:
        axes.set_xlabel("step")
    grid[0][0].legend(frameon=False)
    figure.savefig(options.out, metadata={"Date": None})


if __name__ == "__main__":
    main()
