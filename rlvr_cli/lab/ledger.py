"""The ledger of claims: what a paper claims, a test of it fixed beforehand, and the result.

A claim holds if the interval of every one of its checks is within bounds that are in the
code, in part if some do, and does not hold if none does and at least one is outside. Where no
interval decides, or the runs that it needs are missing, it cannot be tested here.
"""

import importlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from rlvr_cli import registry
from rlvr_cli.errors import DataError
from rlvr_cli.lab import check
from rlvr_cli.lab.bandit import Trajectories, at_rates
from rlvr_cli.lab.check import Check
from rlvr_cli.lab.settings import Settings
from rlvr_cli.lab.systems import Floats, System, bandit, classes

VERDICTS = ("holds", "holds in part", "does not hold", "cannot be tested here")
LANGUAGE_LEVEL = 0.95
STEPS = 500
# From policies that have hardly sharpened by then to ones that the first steps decide.
RATES = (0.01, 0.1, 0.3, 1.0, 3.0, 10.0)


BUILT_IN = ""
Figures = dict[str, list[dict[str, Any]]]


class Lab:
    """The data that claims are tested with: runs of small systems, figures of language models."""

    def __init__(self, seeds: int, language: Iterable[dict[str, Any]] = ()) -> None:
        self.seeds = seeds
        self._runs: dict[tuple[str, Settings], Trajectories] = {}
        self._language: dict[tuple[str, tuple[str, ...]], list[dict[str, Any]]] = {}
        for row in language:
            key = row["spec"], tuple(row["options"])
            self._language.setdefault(key, []).append(row)
        metrics = (name for rows in self._language.values() for name in rows[0]["metrics"])
        self.ucc = next((name for name in metrics if name.startswith("ucc@")), "ucc@16")

    def run(self, system: System, settings: Settings) -> Trajectories:
        """A run of all seeds, simulated once, together with those at the other of `RATES`."""
        key = system.name, settings
        if key not in self._runs:
            rate = settings.learning_rate
            rates = RATES if rate in RATES and settings.steps <= STEPS else (rate,)
            for at, run in zip(
                rates, at_rates(system, settings, rates, range(self.seeds)), strict=True
            ):
                self._runs[system.name, replace(settings, learning_rate=at)] = run
        return self._runs[key]

    def classes(
        self, algo: str, group_size: int = 8, learning_rate: float = 1.0,
        optimizer: str = "sgd", memory: float = 0.0, steps: int = STEPS,
    ) -> tuple[System, Trajectories]:  # fmt: skip
        """The Cat and Persian system after training by an objective."""
        settings = Settings(
            algo, group_size, learning_rate, steps, optimizer, memory=memory,  # type: ignore[arg-type]
        )  # fmt: skip
        return classes(), self.run(classes(), settings)

    def actions(
        self, algo: str, rewards: Floats, initial: Floats, group_size: int = 2,
        temperature: float = 1.0, optimizer: str = "sgd", rate: float = 0.1, steps: int = 1500,
    ) -> tuple[System, Trajectories]:  # fmt: skip
        """A few actions after training by an objective; the rate is Algorithm 1's."""
        system = bandit(rewards, initial)
        settings = Settings(
            algo, group_size, rate * temperature, steps, optimizer, temperature,  # type: ignore[arg-type]
        )  # fmt: skip
        return system, self.run(system, settings)

    def language(
        self, spec: str, metric: str, *options: str, at_start: bool = False
    ) -> dict[int, float]:
        """A held-out metric of each seed's run of a language model; pass rates in points."""
        scale = 100 if metric.startswith("pass@") else 1
        return {
            row["seed"]: scale * row["metrics"][metric][0 if at_start else 1]
            for row in self._language.get((spec, options), [])
            if metric in row["metrics"]
        }

    def better(
        self, statement: str, spec: str, other: str, metric: str, *options: str,
        above: float = 0.0, below: float = np.inf,
    ) -> list[Check]:  # fmt: skip
        """The difference of two objectives' language models in a metric, paired by seed."""
        first = self.language(spec, metric, *options)
        second = self.language(other, metric, *options)
        return paired(statement, [first, second], [1, -1], above=above, below=below)


def paired(
    statement: str, values: Sequence[dict[int, float]], factors: Sequence[float],
    *, above: float = -np.inf, below: float = np.inf,
) -> list[Check]:  # fmt: skip
    """The mean over seeds of a sum of figures times factors; none for fewer than two seeds."""
    seeds = sorted(set.intersection(*(set(v) for v in values)))
    if len(seeds) < 2:
        return []
    sums = [sum(f * v[s] for f, v in zip(factors, values, strict=True)) for s in seeds]
    return [check.mean(statement, sums, above=above, below=below, level=LANGUAGE_LEVEL)]


@dataclass(frozen=True)
class Claim:
    """A paper's claim and its test; without a test, `why` says what is missing.

    The source of a question that we ask of a paper, and that it does not claim, begins with `ours`.
    """

    key: str
    source: str
    statement: str
    test: str
    checks: Callable[[Lab], Sequence[Check]] | None = None
    why: str = ""

    @property
    def ours(self) -> bool:
        return self.source.startswith("ours")

    @property
    def of_language(self) -> bool:
        return "built-in task" in self.test


@dataclass(frozen=True)
class ClaimResult:
    """A claim with the checks that were computed for it, and those of `models` beside."""

    claim: Claim
    checks: tuple[Check, ...]
    models: Mapping[str, tuple[Check, ...]] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        return verdict(self.checks)

    @property
    def rates(self) -> tuple[list[float], list[float], list[float]]:
        """The learning rates that were tried, and at which of them all checks hold, and some."""
        tried = sorted({c.rate for c in self.checks if c.rate is not None})
        states = {rate: {c.state for c in self.checks if c.rate == rate} for rate in tried}
        full = [rate for rate in tried if states[rate] == {"holds"}]
        return tried, full, [r for r in tried if "holds" in states[r] and r not in full]


def verdict(checks: Sequence[Check]) -> str:
    states = [c.state for c in checks]
    if states and all(state == "holds" for state in states):
        return VERDICTS[0]
    if "holds" in states:
        return VERDICTS[1]
    return VERDICTS[2] if "fails" in states else VERDICTS[3]


def tally(findings: Sequence[ClaimResult]) -> str:
    """How many of the papers' claims have each verdict, in words."""
    counts = Counter(finding.verdict for finding in findings if not finding.claim.ours)
    many = {"holds": "hold", "holds in part": "hold in part", "does not hold": "do not hold"}
    said = [(counts[verdict], verdict) for verdict in VERDICTS]
    return ", ".join(f"{n} {one if n == 1 else many.get(one, one)}" for n, one in said)


def papers() -> dict[str, tuple[str, list[Claim]]]:
    """Every paper's name and claims, by the file that lists them."""
    by_file = {}
    for name in registry.names("lab/claims"):
        module = importlib.import_module(f"rlvr_cli.lab.claims.{name.replace('-', '_')}")
        by_file[name] = (str(module.__doc__).partition("\n")[0].rstrip("."), module.CLAIMS)
    return by_file


def tested(
    paper: str, seeds: int, figures: Figures | None = None, only: Sequence[str] = ()
) -> dict[str, dict[str, tuple[Check, ...]]]:
    """The checks of a paper's claims, or of `only` some, by the claim's key and the model."""
    figures = {BUILT_IN: []} | (figures or {})
    labs = {model: Lab(seeds, rows) for model, rows in figures.items()}
    return {
        claim.key: {
            model: tuple(claim.checks(lab)) if claim.checks else ()
            for model, lab in labs.items()
            if claim.of_language or model == BUILT_IN
        }
        for claim in papers()[paper][1]
        if not only or claim.key in only
    }


def figures_of(paths: Sequence[Path]) -> Figures:
    """The figures of language models in files that head_to_head.py or head_to_head_lm.py wrote, by
    model: `BUILT_IN` where a line names none."""
    figures: Figures = {}
    for path in paths:
        try:
            rows = [json.loads(line) for line in path.read_text().splitlines()]
        except (OSError, ValueError) as error:
            raise DataError(
                f"`{path}` does not hold the figures of language models: {error}",
                "write it with `python -P benchmarks/head_to_head.py --record FILE`",
            ) from error
        for row in rows:
            figures.setdefault(row.get("model", BUILT_IN), []).append(row)
    return figures
