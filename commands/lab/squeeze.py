"""Tests the softmax identities of APO and two-stage training.

Lemma 1, Theorem 1 and C.4 of two-stage (arXiv:2510.04028); eq. 2 and 20, B.1 to B.4 of Anchored
Policy Optimization: one update of random policies against each formula, the expected update
against the mean of many groups, and what becomes of a policy that has collapsed on an error.

    rlvr lab squeeze --seeds 200
"""

from rlvr_cli.cli import options
from rlvr_cli.terminal import console


def command(
    seeds: options.Seeds = 200,
    seed: options.Seed = 0,
    jobs: options.Jobs = None,
    out: options.Out = None,
    format: options.Format = None,
    json: options.Json = False,
) -> None:
    from rlvr_cli.lab import recovery, report, squeeze

    figures = recovery.figures()
    result = report.make(
        "squeeze", figures, out=out, seeds=seeds, seed=seed, jobs=jobs, formats=format
    )
    summary = {**result.summary, "checks": report.checks(result.out, squeeze.identities(seeds))}
    console.result(result.out, summary, as_json=json)
