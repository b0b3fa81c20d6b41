"""The figures of these runs as `rlvr lab claims` reads them, and what it says of them."""

from math import nan

from lm.figures import Runs, value
from rlvr_cli.lab import ledger
from rlvr_cli.lab.ledger import ClaimResult, Lab

OF_256 = [2**n for n in range(9)]


def rows(runs: Runs, start: dict | None, model: str) -> list[dict]:
    """Of each run, its metrics at the start and end; nan where the start was not evaluated."""
    made = []
    for spec, by_seed in runs.items():
        for seed, record in by_seed.items():
            before = record["evals"][0]["eval"]["entropy"][0]
            ends = {"entropy": [before, value(record, "entropy")]}
            ends |= {name: [value(start, of) if start else nan, value(record, of)]
                     for name, of in _names(record).items()}  # fmt: skip
            made.append({
                "model": model, "spec": spec, "options": [], "seed": seed,
                "metrics": {name: [round(v, 7) for v in both] for name, both in ends.items()},
            })  # fmt: skip
    return made


def _names(record: dict) -> dict[str, str]:
    """The metrics that claims are about, and what they are called in a record."""
    samples = record["final"]["samples"]
    names = {f"pass@{k}": f"pass@{k}" for k in (1, 16) if k <= samples}
    if samples == 256:
        names |= {f"pass@{k} of 256": f"pass@{k}" for k in OF_256}
    ucc = next(name for name in record["final"] if name.startswith("ucc@"))
    return names | {ucc: ucc}


def tally(rows: list[dict]) -> str:
    """How many of the claims that these runs can test have each verdict."""
    lab = Lab(2, rows)
    claims = [claim for _, group in ledger.papers().values() for claim in group]
    results = [
        ClaimResult(claim, checks)
        for claim in claims
        if claim.of_language and claim.checks and (checks := tuple(claim.checks(lab)))
    ]
    return f"of {len(results)} claims {ledger.tally(results)}"
