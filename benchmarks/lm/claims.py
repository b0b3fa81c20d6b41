"""The papers' claims, judged on these runs by the checks that docs/claims.md uses."""

from math import nan

from lm.figures import Runs, value
from rlvr_cli.lab.ledger import Claim, ClaimResult, Lab, papers

OF_256 = [2**n for n in range(9)]


def rows(runs: Runs, start: dict | None) -> list[dict]:
    """The figures of runs as `rlvr lab claims` reads them: of each metric, at the start and
    end; nan where the start was not evaluated."""
    made = []
    for spec, by_seed in runs.items():
        for seed, record in by_seed.items():
            before = record["evals"][0]["eval"]["entropy"][0]
            ends = {"entropy": [before, value(record, "entropy")]}
            ends |= {name: [value(start, of) if start else nan, value(record, of)]
                     for name, of in _names(record).items()}  # fmt: skip
            made.append({"spec": spec, "options": [], "seed": seed, "metrics": ends})
    return made


def _names(record: dict) -> dict[str, str]:
    """The names that the checks use, with those of these records: UCC is over all samples here."""
    samples = record["final"]["samples"]
    names = {f"pass@{k}": f"pass@{k}" for k in (1, 16) if k <= samples}
    if samples == 256:
        names |= {f"pass@{k} of 256": f"pass@{k}" for k in OF_256}
    return names | {"ucc@16": _ucc(record)}


def _ucc(record: dict) -> str:
    return next(name for name in record["final"] if name.startswith("ucc@"))


def table(by_title: dict[str, Runs], start: dict | None) -> list[str]:
    """Each claim that some runs can test: its verdict, and its checks, of each kind of runs."""
    labs = [Lab(2, rows(runs, start)) for runs in by_title.values()]
    ucc = next((_ucc(r) for runs in by_title.values() for by in runs.values() for r in by.values()),
               "")  # fmt: skip
    lines = [f"| claim | holds if | {' | '.join(by_title)} |", "|---" * (2 + len(labs)) + "|"]
    for claim in (claim for _, group in papers().values() for claim in group):
        if not (claim.checks and "built-in task" in claim.test):
            continue
        results = [ClaimResult(claim, tuple(claim.checks(lab))) for lab in labs]
        if any(result.checks for result in results):
            lines += [line.replace("ucc@16", ucc) for line in _entry(claim, results)]
    return [*lines, ""]


def _entry(claim: Claim, results: list[ClaimResult]) -> list[str]:
    said = [f"**{result.verdict}**" if result.checks else "not run" for result in results]
    name = f"[{claim.key}](claims.md#{claim.key.lower()}) **{claim.statement}**"
    lines = [f"| {name} ({claim.source}) | | {' | '.join(said)} |"]
    numbers = [{c.statement: c for c in result.checks} for result in results]
    for statement in dict.fromkeys(s for checks in numbers for s in checks):
        bounds = next(checks[statement].bounds for checks in numbers if statement in checks)
        cells = [checks[statement].number if statement in checks else "" for checks in numbers]
        lines.append(f"| {statement} | {bounds} | {' | '.join(cells)} |")
    return lines
