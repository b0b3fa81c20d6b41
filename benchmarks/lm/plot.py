"""The curves of the page, from the records of runs."""

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from lm import plan
from lm.figures import Runs, counted, curve

matplotlib.use("svg")
from matplotlib import pyplot


def draw(rows: list[Runs], path: Path) -> None:
    """Reward, entropy and held-out Pass@1 over steps, and Pass@k less GRPO's, of the mean run.

    Each of `rows` is a row of plots, so that the lines of one can be told apart; GRPO comes first.
    """
    titles = ("training reward", "entropy in training, nats", "held-out Pass@1",
              "held-out Pass@k less grpo's, points")  # fmt: skip
    size = (12, 2.5 * len(rows))
    figure, panels = pyplot.subplots(
        len(rows), len(titles), figsize=size, layout="constrained", squeeze=False, sharey="col"
    )
    for row, runs in zip(panels, rows, strict=True):
        for number, (label, by_seed) in enumerate(runs.items()):
            color = "black" if label == "grpo" else f"C{number - 1}"
            _draw_run(row, by_seed, runs.get("grpo"), label=label, color=color, lw=1)
        row[-1].legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, fontsize=8)
        for axes, below in zip(row, ("step", "step", "step", "k"), strict=True):
            axes.set_xlabel(below)
            axes.spines[["top", "right"]].set_visible(False)
    for axes, title in zip(panels[0], titles, strict=True):
        axes.set_title(title, fontsize=10)
    matplotlib.rcParams["svg.hashsalt"] = "rlvr"  # the same file for the same records
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def rows(default: Runs, tuned: Runs, rates: dict[str, float], rate: float) -> list[Runs]:
    """Those at the default rate by tier, then those whose own rate is another; GRPO in each."""
    planned = [spec for tier in plan.TIERS for spec in tier]
    tiers = [*plan.TIERS, tuple(spec for spec in default if spec not in planned)]
    found = [{s: default[s] for s in tier if s in default and s != "grpo"} for tier in tiers]
    found.append({f"{s} at {rates[s]:g}": tuned[s] for s in tuned if rates[s] != rate})
    first = {"grpo": default["grpo"]} if "grpo" in default else {}
    return [{**first, **runs} for runs in found if runs] or [first]


def _draw_run(
    panels: np.ndarray, by_seed: dict[int, dict], grpo: dict[int, dict] | None, **style: Any
) -> None:
    records = list(by_seed.values())
    for axes, name in zip(panels, ("reward", "entropy"), strict=False):
        steps = min(len(record["curve"][name]) for record in records)
        line = np.mean([np.array(r["curve"][name][:steps], float) for r in records], axis=0)
        axes.plot(range(1, steps + 1), line, **style)
    count = min(len(record["evals"]) for record in records)
    at = [e["step"] for e in records[0]["evals"][:count]]
    held_out = [[e["eval"]["pass@1"][0] for e in r["evals"][:count]] for r in records]
    panels[2].plot(at, np.mean(held_out, axis=0), marker="o", ms=3, **style)
    if grpo:
        largest = int(counted(records[0])[0][0])
        gap_K = curve(by_seed, largest) - curve(grpo, largest)
        panels[3].semilogx(range(1, largest + 1), 100 * gap_K, base=2, **style)
