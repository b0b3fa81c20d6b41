"""Figures of records: of one run, of several seeds, and of differences.

Shapes: P prompts, K values of k.
"""

import statistics

import numpy as np

from lm import plan
from rlvr_cli.evaluation.metrics import contrast, intervals, passk

KS = (1, 8, 64, 256)
Runs = dict[str, dict[int, dict]]  # by objective and seed


def counted(record: dict) -> tuple[np.ndarray, np.ndarray]:
    """Of each prompt, its completions and how many of them are right, [P] each."""
    correct_P = np.array(record["final"]["correct"])
    return np.full(len(correct_P), record["final"]["samples"]), correct_P


def of_prompts(record: dict, name: str) -> np.ndarray:
    """A held-out metric of each prompt, [P]."""
    if name.startswith("pass@"):
        table_PK = passk.pass_at_k_table(*counted(record), [int(name.removeprefix("pass@"))])
        return np.asarray(table_PK)[:, 0]
    return np.array(record["final"][name])


def value(record: dict, name: str) -> float:
    """A figure of a run at its end."""
    if name in ("entropy", "kl"):
        return plan.last(record, name)
    if name == "length":
        return float(record["final"]["length"])
    if name == "tokens":
        return sum(n or 0 for n in record["curve"]["tokens"]) / 1e6
    if name == "seconds":
        return sum(record["phases"].values())
    return float(of_prompts(record, name).mean())


def names_of(record: dict) -> list[str]:
    """The figures of the table; k at most as many as there are samples."""
    samples = record["final"]["samples"]
    ucc = next(name for name in record["final"] if name.startswith("ucc@"))
    passes = [f"pass@{k}" for k in KS if k <= samples]
    return [*passes, ucc, "entropy", "kl", "length", "tokens", "seconds"]


def scale(name: str) -> int:
    return 100 if name.startswith("pass@") else 1


def chosen(done: dict[plan.Cell, dict], rates: dict[str, float]) -> Runs:
    """The final runs of each objective at its rate."""
    found: Runs = {}
    for cell, record in done.items():
        if cell.split == "test" and rates.get(cell.spec) == cell.rate:
            found.setdefault(cell.spec, {})[cell.seed] = record
    listed = [spec for tier in plan.TIERS for spec in tier]
    return {
        s: found[s] for s in sorted(found, key=lambda s: (s not in listed, _place(listed, s), s))
    }


def _place(listed: list[str], spec: str) -> int:
    return listed.index(spec) if spec in listed else 0


def chance_of_none(values: list[float]) -> float | None:
    """Student's two-sided p-value of a mean of 0; None where there is no spread to compare with."""
    from scipy.special import stdtr

    if len(values) < 2 or not (spread := statistics.stdev(values)):
        return None
    t = abs(statistics.mean(values)) / (spread / len(values) ** 0.5)
    return float(2 * stdtr(len(values) - 1, -t))


def paired(runs: Runs, spec: str, other: str) -> list[tuple[dict, dict]]:
    seeds = [seed for seed in runs.get(spec, {}) if seed in runs.get(other, {})]
    return [(runs[spec][seed], runs[other][seed]) for seed in sorted(seeds)]


def over_prompts(pairs: list[tuple[dict, dict]], name: str) -> tuple[float, float, float | None]:
    """The interval of the mean difference over prompts of these runs, and the chance of none."""
    one_P, other_P = (
        np.mean([of_prompts(pair[side], name) for pair in pairs], axis=0)[:, None]
        for side in (0, 1)
    )
    made = intervals.of_differences([name], one_P, other_P)
    chance = float(made.chance_M[0])
    return float(made.low_M[0]), float(made.high_M[0]), None if np.isnan(chance) else chance


def curve(by_seed: dict[int, dict], largest: int) -> np.ndarray:
    """Mean Pass@k for k = 1 to `largest`, over prompts and seeds, [K]."""
    per_seed = [
        contrast.curve(*counted(record), largest).mean(axis=0) for record in by_seed.values()
    ]
    return np.asarray(np.mean(per_seed, axis=0))
