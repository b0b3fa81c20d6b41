"""What it costs to learn from completions of earlier policies, with and without correction.

    python -P benchmarks/staleness.py --seeds 5 --steps 60 --out /tmp/staleness

Runs of the built-in policy on the built-in task, each in one process, which samples every step so
many updates before it trains on it. A run that is cut off resumes. The figures are the held-out
Pass@1 at the end and the mean reward of the last ten steps: the mean over seeds, with its standard
error.
"""

import argparse
import contextlib
import io
import json
from pathlib import Path

import numpy as np

from rlvr_cli.cli import app

AHEAD = (0, 1, 2, 4)


def train(out: Path, ahead: int, correction: str, seed: int, given: argparse.Namespace) -> None:
    words = ["--ahead", str(ahead), "--stale-correction", correction, "--seed", str(seed)]
    words += ["--steps", str(given.steps), "--eval-every", str(given.steps), "--save-every", "1000"]
    words += ["--learning-rate", given.learning_rate, "--algo", given.algo]
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        code = app.run(["train", *words, *given.words, "--out", str(out)])
    assert code == 0, said.getvalue()[-2000:]


def figures(run: Path) -> tuple[float, float]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    reward = np.mean([line["reward"] for line in lines[-10:]])
    return lines[-1]["eval"]["pass@1"][0], float(reward)


def spread(values: list[float]) -> str:
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return f"{np.mean(values):.3f} ± {error:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = parser.add_argument
    add("--seeds", type=int, default=5)
    add("--steps", type=int, default=60)
    add("--algo", default="grpo")
    add("--learning-rate", default="2e-4")
    add("--corrections", nargs="+", default=["is-correction", "none"])
    add("--out", type=Path, default=Path("staleness"))
    add("words", nargs="*", help="of `rlvr train`")
    given = parser.parse_args()
    first = given.corrections[0]
    kinds = [(a, c) for a in AHEAD for c in given.corrections if a or c == first]
    found: dict[tuple[int, str], list[tuple[float, float]]] = {kind: [] for kind in kinds}
    for seed in range(given.seeds):
        for ahead, correction in kinds:
            out = given.out / f"{ahead}-{correction}-{seed}"
            train(out, ahead, correction, seed, given)
            found[ahead, correction].append(figures(out))
            print(
                f"seed {seed}, ahead {ahead}, {correction}: {found[ahead, correction][-1]}",
                flush=True,
            )
    print(f"\n{given.algo}, {given.seeds} seeds, {given.steps} steps\n")
    print("| updates behind | correction | held-out Pass@1 | reward |")
    print("|---|---|---|---|")
    for (ahead, correction), values in found.items():
        passed, reward = zip(*values, strict=True)
        name = correction if ahead else "-"
        print(f"| {ahead} | {name} | {spread(passed)} | {spread(reward)} |")


if __name__ == "__main__":
    main()
