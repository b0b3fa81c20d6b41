"""Every objective on the built-in task with the same budget, five seeds each.

    python -P benchmarks/head_to_head.py --out runs/head-to-head > docs/head-to-head.md

Same policy, prompts, number of steps, samples, optimizer and learning rate for all; held-out
figures after the last step. A run that is there already is not repeated, so the command can be
stopped and typed again. Intervals are 95% t-intervals over seeds; differences are paired by seed.
`--record docs/head-to-head.jsonl` keeps every run's figures, a line each: `rlvr lab claims` reads
them. `--dlc` compares GRPO, IAC and DLC instead, for docs/dlc.md.
"""

import argparse
import contextlib
import io
import json
import math
import platform
import shutil
import statistics
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path

OBJECTIVES = (
    "grpo", "dr-grpo", "dapo", "gspo", "gspo:clip_low=0.2,clip_high=0.2", "gmpo", "gpg", "cispo",
    "rloo", "reinforce-pp", "nsr", "psr", "w-reinforce", "apo", "apmpo",
    "quatro:delta=0.1", "quatro:delta=0.01", "quatro:delta=0.001",
    "grpo+negative-only", "grpo+iac", "dapo+iac", "grpo+kl:beta=0.01",
)  # fmt: skip
ABLATIONS = (
    "apo:k=4", "apo:beta=0", "apo:lam=1", "apmpo:gamma=0.4", "grpo+iac:alpha=0.5",
)  # fmt: skip
MANY = ("grpo", "quatro:delta=0.1")  # these sample so often that Pass@k has large k
SAMPLES = 256
ENDS = ("first", "second")  # at the start and at the end
STRESSED = ("quatro:delta=0.1", "gspo:clip_low=0.2,clip_high=0.2", "grpo")
STRESS = {
    "learning rate x 3": ("--learning-rate", "6e-4"),
    "learning rate x 10": ("--learning-rate", "2e-3"),
    "5 epochs": ("--epochs", "5"),
}
DLC = {
    "a small random memory model": (
        ("--memory-learning-rate", "1e-3"),
        ("grpo", "grpo+iac", "grpo+dlc", "grpo+iac+dlc"),
    ),
    "a memory model that starts as the policy": (
        ("--memory-model", "builtin", "--memory-learning-rate", "2e-4"),
        ("grpo+dlc", "grpo+iac+dlc"),
    ),
}
SHOWN = {"pass@1": 100, "pass@16": 100, "ucc@16": 1, "entropy": 1, "kl": 1}
T_95 = {
    2: 12.70620, 3: 4.30265, 4: 3.18245, 5: 2.77645, 6: 2.57058, 7: 2.44691, 8: 2.36462,
    9: 2.30600, 10: 2.26216,
}  # fmt: skip


def run(job: tuple[str, tuple[str, ...], int, int, Path]) -> dict:
    """Start and end of one run's held-out metrics: each [mean, low, high] over prompts."""
    from rlvr_cli.cli import app

    spec, words, seed, steps, out = job
    path = out / f"{_name(spec, words)}-seed{seed}"
    kept = out / f"{path.name}.json"
    if not kept.exists():
        said = io.StringIO()
        words = (*words, "--steps", str(steps), "--eval-every", str(steps), "--keep", "1")
        words = ("train", "--algo", spec, "--seed", str(seed), *words, "--out", str(path), "--json")
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()) as err:
            code = app.run(list(words))
        if code:
            raise RuntimeError(f"rlvr {' '.join(words)}: exit code {code}\n{err.getvalue()}")
        kept.write_text(said.getvalue())
        if not job[1] and spec in MANY:
            many(path, seed, steps)
        shutil.rmtree(path)
    return json.loads(kept.read_text())["metrics"]


def many(path: Path, seed: int, steps: int) -> None:
    """Pass@k of SAMPLES completions of each held-out prompt, at the start and at the end."""
    from rlvr_cli.cli import app

    result = {}
    for when, model in {"first": "builtin", "second": path / f"steps/{steps:06d}/update"}.items():
        said = io.StringIO()
        for words in (
            ["rollout", path / "prompts/heldout", "--model", model, "-n", SAMPLES, "--seed", seed,
             "--max-new-tokens", 16, "--out", path / when / "rollouts"],
            ["score", path / when / "rollouts", "--out", path / when / "scores"],
            ["eval-passk", path / when / "scores", "--json"],
        ):  # fmt: skip
            said = io.StringIO()
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()) as err:
                if app.run([str(word) for word in words]):
                    raise RuntimeError(f"{words}\n{err.getvalue()}")
        result[when] = json.loads(said.getvalue())["metrics"]
    path.with_name(f"{path.name}.many").write_text(json.dumps(result))


def record(by_job: dict[tuple, dict], path: Path) -> None:
    """One line a run: spec, options, seed, and each metric's mean at the start and at the end."""
    lines = []
    for (spec, words, seed, steps, out), metrics in by_job.items():
        kept = {name: [_short(m[when][0]) for when in ENDS] for name, m in metrics.items()}
        many = out / f"{_name(spec, words)}-seed{seed}.many"
        if many.exists():
            ends = json.loads(many.read_text())
            pairs = {name: [_short(ends[w][name][0]) for w in ENDS] for name in ends["first"]}
            kept |= {f"{name} of {SAMPLES}": pair for name, pair in pairs.items()}
        row = {"spec": spec, "options": words, "seed": seed, "steps": steps, "metrics": kept}
        lines.append(json.dumps(row) + "\n")
    path.write_text("".join(lines))


def _short(value: float) -> float:
    return round(value, 7)


def _name(spec: str, words: tuple[str, ...]) -> str:
    return "".join(c if c.isalnum() else "-" for c in "_".join((spec, *words)))


def interval(values: list[float]) -> tuple[float, float]:
    """The mean over seeds and the half width of its 95% t-interval."""
    if len(values) < 2:
        return values[0], math.nan
    spread = statistics.stdev(values) / math.sqrt(len(values))
    return statistics.mean(values), T_95[len(values)] * spread


def cell(values: list[float], scale: float) -> str:
    mean, half = interval([scale * value for value in values])
    digits = 1 if scale == 100 else 2
    return f"{mean:.{digits}f}" + ("" if math.isnan(half) else f" ± {half:.{digits}f}")


def table(rows: dict[str, list[dict]], base: list[dict]) -> None:
    """One line a spec; the last columns are the difference to the base, paired by seed."""
    heads = [*SHOWN, "pass@1 less grpo's", "pass@16 less grpo's", "ucc@16 less grpo's"]
    print(f"| objective | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}")
    at_start = [[m[name]["first"][0] for m in base] for name in SHOWN]
    cells = [cell(v, s) for v, s in zip(at_start, SHOWN.values(), strict=True)]
    print(f"| at the start | {' | '.join(cells)} | | | |")
    for spec, result in rows.items():
        values = {name: [metrics[name]["second"][0] for metrics in result] for name in SHOWN}
        cells = [cell(values[name], scale) for name, scale in SHOWN.items()]
        for name in ("pass@1", "pass@16", "ucc@16"):
            pairs = zip(values[name], base, strict=True)
            cells.append(cell([a - b[name]["second"][0] for a, b in pairs], SHOWN[name]))
        print(f"| `{spec}` | {' | '.join(cells)} |")
    print()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/head-to-head"))
    parser.add_argument("--record", type=Path, help="a JSONL file to keep every run's figures in")
    parser.add_argument("--dlc", action="store_true", help="GRPO, IAC and DLC alone")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    settings = {"same settings": ((), OBJECTIVES)}
    settings |= {name: (words, STRESSED) for name, words in STRESS.items()}
    settings["ablations"] = ((), ("grpo", "apo", "apmpo", "grpo+iac", *ABLATIONS))
    settings = DLC if given.dlc else settings
    jobs = [
        (spec, words, seed, given.steps, given.out)
        for words, specs in settings.values()
        for seed in range(given.seeds)
        for spec in specs
    ]
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
        runs = list(pool.map(run, dict.fromkeys(jobs)))
    by_job = dict(zip(dict.fromkeys(jobs), runs, strict=True))
    if given.record:
        record(by_job, given.record)
    result = iter([by_job[job] for job in jobs])
    libraries = ", ".join(f"{name} {version(name)}" for name in ("rlvr", "torch", "transformers"))
    print(f"{platform.machine()}, Python {platform.python_version()}, {libraries}; "
          f"{given.steps} steps, {given.seeds} seeds\n")  # fmt: skip
    base: list[dict] = []
    for name, (_, specs) in settings.items():
        rows: dict[str, list[dict]] = {spec: [] for spec in specs}
        for _ in range(given.seeds):
            for spec in specs:
                rows[spec].append(next(result))
        print(f"### {name[0].upper()}{name[1:]}\n")
        base = rows.get("grpo", base)
        table(rows, base)


if __name__ == "__main__":
    main()
