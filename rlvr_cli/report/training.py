"""What a run of train logged, as curves over its steps."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlvr_cli.report.sources import RunLog
from rlvr_cli.storage import metrics_log, run_folders
from rlvr_cli.storage.shards import Shards

# Title, key in the glossary, and the names in metrics.jsonl or in a step's summary.
PANELS = (
    ("Held-out Pass@k", "pass", ("pass@",)),
    ("Held-out UCC@k", "ucc", ("ucc@",)),
    ("Training reward", "reward", ("reward",)),
    ("Groups that carry signal", "signal", ("informative",)),
    ("Entropy in training", "train_entropy", ("entropy",)),
    ("Held-out divergence from the start", "kl_start", ("kl",)),
    ("Divergence of one step", "kl_step", ("kl",)),
    ("Gradient norm", "grad_norm", ("grad_norm",)),
    ("Clipped tokens", "clip", ("clip_fraction",)),
    ("Clamped tokens", "clamp", ("clamp_count",)),
    ("Completion length in training", "length", ("length",)),
    ("Truncated in training", "truncated", ("truncated",)),
)
# Of runs on several sources: title, key in the glossary, the record's key, and the figure.
BY_SOURCE = (
    ("Training reward by source", "reward", "sources", "reward"),
    ("Correct in training by source", "correct", "sources", "correct"),
    ("Length in training by source", "length", "sources", "length"),
    ("Held-out Pass@1 by source", "pass", "eval_sources", "pass@1"),
)
HELD_OUT = ("pass", "ucc", "kl_start")
SHARES = ("pass", "correct", "signal", "clip", "truncated")


@dataclass(frozen=True)
class Curve:
    """A quantity by step; low and high are its 95% interval, None at steps that have none."""

    name: str
    step: list[int]
    value: list[float]
    low: list[float | None] | None = None
    high: list[float | None] | None = None


def curves(run: RunLog, key: str, names: tuple[str, ...]) -> list[Curve]:
    """The curves of one panel; none where the run did not log the quantity."""
    if key in HELD_OUT:
        evaluated = [r for r in run.records if "eval" in r]
        logged = [
            name
            for name in (evaluated[0]["eval"] if evaluated else ())
            if any(name == n or (n.endswith("@") and name.startswith(n)) for n in names)
        ]
        return [c for name in logged if (c := _held_out(evaluated, name))]
    records = _with_lengths(run) if key in ("length", "truncated") else run.records
    points = [
        (r["step"], r[name])
        for name in names
        for r in records
        if isinstance(r.get(name), int | float) and np.isfinite(r[name])
    ]
    if key == "clamp" and not any(value for _, value in points):
        return []
    return [Curve(names[0], [s for s, _ in points], [v for _, v in points])] if points else []


def _held_out(evaluated: list[dict[str, Any]], name: str) -> Curve | None:
    cells = [(r["step"], r["eval"].get(name) or [None]) for r in evaluated]
    return _curve(name, [(step, cell) for step, cell in cells if cell[0] is not None])


def _curve(name: str, known: list[tuple[int, list[Any]]]) -> Curve | None:
    """The curve of means and intervals; only of means if none of them has an interval."""
    if not known:
        return None
    step, mean = [s for s, _ in known], [c[0] for _, c in known]
    if all(c[1] is None for _, c in known):
        return Curve(name, step, mean)
    return Curve(name, step, mean, [c[1] for _, c in known], [c[2] for _, c in known])


def curves_by_source(run: RunLog, key: str, figure: str) -> list[Curve]:
    """One curve a source; none where the run has one source, or an earlier version logged it."""
    logged = [r for r in run.records if isinstance(r.get(key), dict)]
    curves = []
    for source in sorted({source for record in logged for source in record[key]}):
        cells = [(r["step"], r[key].get(source, {}).get(figure)) for r in logged]
        known = [
            (s, c if isinstance(c, list) else [c, None, None]) for s, c in cells if c is not None
        ]
        curve = _curve(source, [(step, cell) for step, cell in known if cell[0] is not None])
        curves += [curve] if curve else []
    return curves


def _with_lengths(run: RunLog) -> list[dict[str, Any]]:
    """Mean length and share truncated of each step, from the summaries of its rollouts."""
    return [
        {"step": step, **metrics_log.of_completions(Shards.open(here / "rollouts").summary)}
        for step, here in run_folders.complete(run.path, "steps", "rollouts").items()
    ]


@dataclass(frozen=True)
class Signal:
    """Shares of each step's groups whose completions are all right, of both kinds, all wrong."""

    step: list[int]
    right: list[float]
    mixed: list[float]
    wrong: list[float]


def signal(run: RunLog) -> Signal | None:
    """Read from the scores of every step; groups without a verdict count in none of the shares."""
    steps: list[int] = []
    shares: list[list[float]] = []
    for step, here in run_folders.complete(run.path, "steps", "scores").items():
        seen: dict[str, set[bool]] = {}
        scores = Shards.open(here / "scores")
        for index in range(len(scores)):
            table = scores.part(index, ["prompt_id", "correct"])
            for prompt_id, correct in zip(*(c.to_pylist() for c in table.columns), strict=True):
                if correct is not None:
                    seen.setdefault(prompt_id, set()).add(correct)
        kinds = Counter("mixed" if len(s) > 1 else str(s.pop()) for s in seen.values())
        if seen:
            steps.append(step)
            shares.append([kinds[kind] / len(seen) for kind in ("True", "mixed", "False")])
    if not steps:
        return None
    right, mixed, wrong = (list(column) for column in zip(*shares, strict=True))
    return Signal(steps, right, mixed, wrong)


def seconds(run: RunLog) -> list[tuple[str, float, float]]:
    """Each stage, its seconds in all the steps whose times are known, and its share of them."""
    total: Counter[str] = Counter()
    for record in run.records:
        total.update(record.get("seconds") or {})
    all_stages = sum(total.values())
    return [(name, value, value / all_stages) for name, value in total.most_common() if all_stages]
