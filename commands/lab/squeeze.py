"""Softmax identities of APO and two-stage, checked by our objectives; recovery by the anchor.

Lemma 1, Theorem 1 and C.4 of two-stage (arXiv:2510.04028); eq. 2 and 20, B.1 to B.4 of Anchored
Policy Optimization: one update of random policies against each formula, the expected update
against the mean of many groups, and what becomes of a policy that has collapsed on an error.
"""

from rlvr_cli import console, options


def command(
    seeds: options.Seeds = 200,
    seed: options.Seed = 0,
    jobs: options.Jobs = None,
    out: options.Out = None,
    format: options.Format = None,
    json: options.Json = False,
) -> None:
    from rlvr_cli.lab import report, squeeze

    made = report.make("squeeze", squeeze.figures(), out, seeds, seed, jobs, format)
    summary = {**made.summary, "checks": report.checks(made.out, squeeze.identities(seeds))}
    console.result(made.out, summary, as_json=json)
