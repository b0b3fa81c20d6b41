"""How often the 95% intervals hold the true mean, and how wide they are, by simulation.

    python -P benchmarks/interval_coverage.py --write docs/evaluation.md

Models are drawn whose pass rates q of the prompts are known: constant, from Beta(p, 1 - p), 0 or 1,
or 1/2 and 1. Each of P prompts gets n completions, and what `rlvr eval-passk` (one model) and
`rlvr compare` (two, paired) say of them is held against the truth. A cell is the worst of the
populations, and the mean width over them. Ten minutes of one core; without --write it prints.

Shapes: P prompts, D draws of all prompts, as D metrics.
"""

import argparse
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
from scipy import stats
from scipy.special import betaln

from rlvr_cli.evaluation.metrics import bootstrap, intervals

MEANS = (0.5, 0.9, 0.98, 0.995)
PROMPTS = (10, 43, 100, 500)
Rates = tuple[np.ndarray, np.ndarray]
Ends = tuple[np.ndarray, np.ndarray]


def beta(p: float, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.beta(p, 1 - p, size=shape)


def constant(p: float, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return np.full(shape, p)


def all_or_none(p: float, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return (rng.random(shape) < p).astype(float)


def half_or_all(p: float, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return np.where(rng.random(shape) < 2 * (1 - p), 0.5, 1.0)


def fail(population: Callable[..., np.ndarray], p: float, n: int) -> float:
    """The chance that all n completions of a prompt are wrong."""
    return {
        beta: float(np.exp(betaln(p, 1 - p + n) - betaln(p, 1 - p))),
        constant: (1 - p) ** n,
        all_or_none: 1 - p,
        half_or_all: 2 * (1 - p) * 0.5**n,
    }[population]


# Pairs of models: the pass rates of both, and the second's chance of failing as a multiple of the
# first's, which is the same for every n.
def retrained(p: float, rng: np.random.Generator, shape: tuple[int, int]) -> Rates:
    rate = beta(p, rng, shape)
    return rate, rate


def unrelated(p: float, rng: np.random.Generator, shape: tuple[int, int]) -> Rates:
    return beta(p, rng, shape), beta(p, rng, shape)


def same_chance(p: float, rng: np.random.Generator, shape: tuple[int, int]) -> Rates:
    return constant(p, rng, shape), constant(p, rng, shape)


def traded(p: float, rng: np.random.Generator, shape: tuple[int, int]) -> Rates:
    """Half of the prompts that one fails the other solves, and the reverse; all or none."""
    at, share = rng.random(shape), (1 - p) / 2
    return (at > 2 * share) * 1.0, ((at < share) | (at > 3 * share)) * 1.0


def improved(p: float, rng: np.random.Generator, shape: tuple[int, int]) -> Rates:
    rate = beta(p, rng, shape)
    return rate, np.where(rng.random(shape) < 0.5, 1.0, rate)


def half_solved(p: float, rng: np.random.Generator, shape: tuple[int, int]) -> Rates:
    rate = all_or_none(p, rng, shape)
    return rate, np.where(rng.random(shape) < 0.5, 1.0, rate)


ALONE = (beta, constant, all_or_none, half_or_all)
PAIRED = {
    retrained: (beta, 1.0), unrelated: (beta, 1.0), same_chance: (constant, 1.0),
    traded: (all_or_none, 1.0), improved: (beta, 0.5), half_solved: (all_or_none, 0.5),
}  # fmt: skip


def outcomes(rate_PD: np.ndarray, n: int, k: int, rng: np.random.Generator) -> np.ndarray:
    """Each prompt's Pass@1 (k = 1) or Pass@n (k = n)."""
    right_PD = rng.binomial(n, rate_PD)
    return right_PD / n if k == 1 else (right_PD > 0).astype(float)


def alone(
    p: float, prompts: int, n: int, k: int, draws: int, rng: np.random.Generator
) -> Iterator[tuple[np.ndarray, float]]:
    """Values of each prompt [P, D] and their true mean, for each population."""
    for population in ALONE if n > 1 else ALONE[:1]:
        rate_PD = population(p, rng, (prompts, draws))
        yield outcomes(rate_PD, n, k, rng), 1 - fail(population, p, k)


def paired(
    p: float, prompts: int, n: int, k: int, draws: int, rng: np.random.Generator
) -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
    """Values [P, D] of the first and of the second, and the true second - first."""
    for population, (base, share) in PAIRED.items():
        rates = population(p, rng, (prompts, draws))
        first_PD, second_PD = (outcomes(rate_PD, n, k, rng) for rate_PD in rates)
        yield first_PD, second_PD, (1 - share) * fail(base, p, k)


def ours_alone(value_PD: np.ndarray) -> Ends:
    """What eval-passk says of each draw: Clopper-Pearson or Gaffke."""
    made = intervals.of_means(["pass@"] * value_PD.shape[1], value_PD)
    return made.low_M, made.high_M


def ours_paired(first_PD: np.ndarray, second_PD: np.ndarray) -> Ends:
    made = intervals.of_differences(["pass@"] * first_PD.shape[1], second_PD, first_PD)
    return made.low_M, made.high_M


def held(ends: Ends, truth: float) -> float:
    low, high = ends
    return float(np.mean((low <= truth + 1e-12) & (truth <= high + 1e-12)))


def wilson(value_PD: np.ndarray) -> Ends:
    """Wilson's for P prompts, of which n_eff = p(1 - p) / variance of the mean count."""
    prompts, mean = len(value_PD), value_PD.mean(axis=0)
    spread = mean * (1 - mean)
    with np.errstate(invalid="ignore"):
        share = np.where(spread > 0, value_PD.var(axis=0) / spread, 1.0)
    n, z = prompts / np.clip(share, 1e-6, 1.0), 1.96
    middle = (mean + z * z / 2 / n) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(spread / n + z * z / 4 / n / n)
    return middle - half, middle + half


def student(value_PD: np.ndarray) -> Ends:
    prompts, mean = len(value_PD), value_PD.mean(axis=0)
    half = stats.t.ppf(0.975, prompts - 1) * value_PD.std(axis=0, ddof=1) / np.sqrt(prompts)
    return mean - half, mean + half


def resampled(value_PD: np.ndarray) -> Ends:
    made = bootstrap.mean_interval(value_PD, resamples=500)
    return made.low_M, made.high_M


def newcombe(first_PD: np.ndarray, second_PD: np.ndarray) -> Ends:
    """Newcombe's score interval for paired proportions (his method 10), of binary outcomes."""
    prompts = len(first_PD)
    (low_2, high_2), (low_1, high_1) = wilson(second_PD), wilson(first_PD)
    share_2, share_1 = second_PD.mean(axis=0), first_PD.mean(axis=0)
    both = (first_PD * second_PD).sum(axis=0)
    gain = (second_PD * (1 - first_PD)).sum(axis=0)
    loss = (first_PD * (1 - second_PD)).sum(axis=0)
    neither = prompts - both - gain - loss
    product = both * neither - gain * loss
    product = np.where(product > 0, np.maximum(product - prompts / 2, 0), product)
    size = (both + gain) * (loss + neither) * (both + loss) * (gain + neither)
    phi = np.where(size > 0, product / np.sqrt(np.maximum(size, 1)), 0)
    down_2, up_2, down_1, up_1 = (
        share_2 - low_2,
        high_2 - share_2,
        share_1 - low_1,
        high_1 - share_1,
    )
    below = np.sqrt(down_2**2 - 2 * phi * down_2 * up_1 + up_1**2)
    above = np.sqrt(up_2**2 - 2 * phi * up_2 * down_1 + down_1**2)
    return share_2 - share_1 - below, share_2 - share_1 + above


def conditional(first_PD: np.ndarray, second_PD: np.ndarray) -> Ends:
    """McNemar's, given the number of prompts that differ: their share times Clopper-Pearson's."""
    gain = (second_PD > first_PD).sum(axis=0)
    unlike = (second_PD != first_PD).sum(axis=0)
    with np.errstate(invalid="ignore"):
        low = np.where(gain > 0, stats.beta.ppf(0.025, np.maximum(gain, 1), unlike - gain + 1), 0)
        high = np.where(
            gain < unlike, stats.beta.ppf(0.975, gain + 1, np.maximum(unlike - gain, 1)), 1
        )
    return (2 * low - 1) * unlike / len(first_PD), (2 * high - 1) * unlike / len(first_PD)


def columns() -> list[tuple[str, int, int]]:
    """A heading, n and k of each column."""
    more = [(f"n = {n}, Pass@{k}", n, k) for n in (4, 16) for k in (1, n)]
    return [("n = 1, Pass@1", 1, 1), *more]


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [list(head), *map(list, rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)


def cells(title: str, measure: Callable[..., tuple[float, float]]) -> str:
    """Worst coverage and mean width, in percent, of every p, P and column."""
    heads = ["p", "P", *(name for name, *_ in columns())]
    rows = []
    for p in MEANS:
        for prompts in PROMPTS:
            made = [measure(p, prompts, n, k) for _, n, k in columns()]
            rows.append(
                [f"{p:g}", f"{prompts}", *(f"{100 * c:.1f} ({100 * w:.1f})" for c, w in made)]
            )
    return f"{title}\n\n{table(heads, rows)}"


def of_alone(draws: int, rng: np.random.Generator) -> str:
    def measure(p: float, prompts: int, n: int, k: int) -> tuple[float, float]:
        made = [(ours_alone(v), truth) for v, truth in alone(p, prompts, n, k, draws, rng)]
        width = np.mean([high - low for (low, high), _ in made])
        return min(held(ends, truth) for ends, truth in made), float(width)

    return cells(
        "One run: coverage in percent, and in brackets the mean width in points. n = 1 and Pass@n "
        "by Clopper-Pearson, Pass@1 of more by Gaffke.",
        measure,
    )


def of_paired(draws: int, rng: np.random.Generator) -> str:
    def measure(p: float, prompts: int, n: int, k: int) -> tuple[float, float]:
        made = [(ours_paired(a, b), truth) for a, b, truth in paired(p, prompts, n, k, draws, rng)]
        width = np.mean([high - low for (low, high), _ in made])
        return min(held(ends, truth) for ends, truth in made), float(width)

    return cells("Two runs over the same prompts, paired, all by Gaffke:", measure)


def of_candidates(draws: int, rng: np.random.Generator) -> str:
    """The least coverage of each method in all cells, how many cells are below 93, and a width."""
    singly = {"Clopper-Pearson and Gaffke": ours_alone, "Wilson, effective P": wilson,
              "Student's t": student, "expanded percentile bootstrap": resampled}  # fmt: skip
    pairs = {"Gaffke (McNemar's exact at 0)": ours_paired, "Newcombe": newcombe,
             "McNemar, given the discordant": conditional,
             "Student's t": lambda a, b: student(b - a)}  # fmt: skip
    seen: dict[str, list[tuple[float, float, float]]] = {}
    for p in MEANS:
        for prompts in PROMPTS:
            for _, n, k in columns():
                for value, truth in alone(p, prompts, n, k, draws, rng):
                    for name, method in singly.items():
                        seen.setdefault(f"one run, {name}", []).append(_seen(method(value), truth))
                for first, second, truth in paired(p, prompts, n, k, draws, rng):
                    for name, method in pairs.items():
                        if k == n or method not in (newcombe, conditional):
                            key = f"paired, {name}" + (
                                ", binary only" if method in (newcombe, conditional) else ""
                            )
                            seen.setdefault(key, []).append(_seen(method(first, second), truth))
    rows = [
        [name, f"{100 * min(c for c, *_ in made):.1f}",
         f"{sum(c < 0.93 for c, *_ in made)} of {len(made)}",
         f"{100 * np.mean([w for _, w, _ in made]):.1f}", f"{100 * max(z for *_, z in made):.0f}"]
        for name, made in seen.items()
    ]  # fmt: skip
    heads = ["method", "least coverage", "cells below 93", "mean width", "most without a width, %"]
    return f"What was tried, over all populations and cells:\n\n{table(heads, rows)}"


def _seen(ends: Ends, truth: float) -> tuple[float, float, float]:
    width = ends[1] - ends[0]
    return held(ends, truth), float(width.mean()), float(np.mean(width <= 1e-12))


def solutions(share: float, rng: np.random.Generator, rate: np.ndarray) -> np.ndarray:
    """Different right solutions among 16 completions; only a share of prompts has several."""
    right = rng.binomial(16, rate)
    new = np.where(rng.random(rate.shape) < share, rng.beta(1, 3, size=rate.shape), 0.0)
    return np.where(right > 0, 1.0 + rng.binomial(np.maximum(right - 1, 0), new), 0.0)


def of_unbounded(draws: int, rng: np.random.Generator) -> str:
    """UCC@16 and log-normal lengths: the bootstrap alone, Student's t paired."""
    rows = []
    for prompts in (10, 20, *PROMPTS[1:]):
        row = [f"{prompts}"]
        for p, share in ((0.5, 0.3), (0.5, 1.0), (0.9, 0.3), (0.9, 1.0)):
            many = solutions(share, rng, rng.beta(p, 1 - p, size=(1_000_000, 1)))
            rate = rng.beta(p, 1 - p, size=(prompts, draws))
            first, second = (solutions(share, rng, rate) for _ in range(2))
            row += _unbounded(first, second, float(many.mean()), 0.0)
        for sigma in (0.3, 1.0):
            first = np.exp(sigma * rng.normal(size=(prompts, draws)))
            second = first * np.exp(0.3 * rng.normal(size=first.shape))
            mean = float(np.exp(sigma**2 / 2))
            row += _unbounded(first, second, mean, mean * (np.exp(0.045) - 1))
        rows.append(row)
    names = [f"UCC, p = {p:g}, {s:.0%}" for p in (0.5, 0.9) for s in (0.3, 1.0)]
    heads = ["P", *names, *(f"length, sigma {s:g}" for s in (0.3, 1.0))]
    return (
        "Metrics without bounds: one run (bootstrap) / paired (Student's t), in percent of the "
        "draws that have an interval; - where fewer than 1% have:\n\n" + table(heads, rows)
    )


def _unbounded(first: np.ndarray, second: np.ndarray, mean: float, difference: float) -> list[str]:
    names = ["ucc@16"] * first.shape[1]
    made = intervals.of_means(names, first), intervals.of_differences(names, second, first)
    parts = []
    for one, truth in zip(made, (mean, difference), strict=True):
        known = np.isfinite(one.low_M)
        inside = (one.low_M <= truth) & (truth <= one.high_M)
        parts.append(f"{100 * inside[known].mean():.1f}" if known.mean() > 0.01 else "-")
    return [" / ".join(parts)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--write", type=Path, help="a page with <!-- coverage --> in it")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    parts = [
        of_alone(options.draws, rng), of_paired(options.draws, rng),
        of_candidates(options.draws // 4, rng), of_unbounded(options.draws, rng),
    ]  # fmt: skip
    text = "\n\n".join(parts)
    if options.write is None:
        print(text)
        return
    page = options.write.read_text()
    start, end = "<!-- coverage -->", "<!-- end of coverage -->"
    before, _, rest = page.partition(start)
    options.write.write_text(f"{before}{start}\n\n{text}\n\n{end}{rest.partition(end)[2]}")


if __name__ == "__main__":
    main()
