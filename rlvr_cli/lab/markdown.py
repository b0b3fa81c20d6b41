"""The ledger as a page of Markdown."""

from collections.abc import Mapping, Sequence

from rlvr_cli.lab.check import LEVEL
from rlvr_cli.lab.ledger import LANGUAGE_LEVEL, RATES, ClaimResult, tally

_STATES = {"holds": "yes", "fails": "no", "open": "undecided"}
_INTRO = """\
# Claims of the five papers, at this scale

Made by `{command}`; a claim alone: the same with `--only S9`. {total} claims: {counts}.{ours}

- Small systems (`rlvr lab sharpening`, `rlvr lab two-stage`, `rlvr lab squeeze`): {seeds} seeds \
a run unless a line says otherwise, trained by rlvr's own objectives. Runs that are compared draw \
the same random numbers, and differences are paired by seed. Where a claim names no learning \
rate, {rates} are tried: the table says at which of them all of its checks hold, and at which \
some. Intervals are {level:.0%}: Student's \
t for means, Clopper and Pearson's for shares. A number without an interval has no chance in it.
- Language models: the built-in task, 0.46 million parameters, answers of eight tokens, 20 \
steps, the runs of [head-to-head](head-to-head.md) (`docs/head-to-head.jsonl`): one learning rate \
(2e-4) and five seeds where a line does not say otherwise, {language:.0%} t-intervals of \
differences paired by seed. What fails here may hold at the papers' scale, and the reverse.
- The bounds were in the code (`rlvr_cli/lab/claims/`) before the numbers were made; the learning \
rates that are tried were widened afterwards. **holds**: the interval of every check lies within \
its bounds; **holds in part**: that of some; **does not hold**: of none, and at least one lies on \
the wrong side; **cannot be tested here**: no interval decides, or what it needs is not at hand. \
With so many intervals a few miss their truth.
"""


def page(
    papers: Mapping[str, tuple[str, Sequence[ClaimResult]]], *, seeds: int, command: str
) -> str:
    """The counts, an index of all verdicts, then each claim with its test and numbers."""
    findings = [finding for _, group in papers.values() for finding in group]
    own = ", ".join(f.claim.key for f in findings if f.claim.ours)
    intro = _INTRO.format(
        command=command, total=sum(not f.claim.ours for f in findings), counts=tally(findings),
        ours=f" Not counted: questions of ours, which no paper claims ({own})." if own else "",
        seeds=seeds, rates=_rates(RATES), level=LEVEL, language=LANGUAGE_LEVEL,
    )  # fmt: skip
    parts = [intro]
    for title, group in papers.values():
        rows = [
            f"| [{f.claim.key}](#{f.claim.key.lower()}) | {f.claim.statement} | {f.verdict} "
            f"| {_at(f)} |"
            for f in group
        ]
        heads = ["| | claim | here | at rates |", "|---|---|---|---|"]
        parts.append("\n".join([f"## {title}\n", *heads, *rows]))
    parts.append("# Tests and numbers")
    parts += [entry(finding) for finding in findings]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _at(finding: ClaimResult) -> str:
    """The learning rates at which a claim holds; empty where one is named, or none matters."""
    tried, whole, part = finding.rates
    if not tried:
        return ""
    if whole == tried:
        return "all"
    named = [_rates(whole)] * bool(whole) + [f"in part {_rates(part)}"] * bool(part)
    return "; ".join(named) or "none"


def _rates(rates: Sequence[float]) -> str:
    return ", ".join(f"{rate:g}" for rate in rates)


def entry(finding: ClaimResult) -> str:
    """A claim with its source, verdict, test and numbers."""
    claim = finding.claim
    lines = [f"### {claim.key}", f"**{claim.statement}** ({claim.source}): **{finding.verdict}**."]
    if claim.checks is not None:
        lines.append(f"Test: {claim.test}.")
    if at := _at(finding):
        lines.append(f"Learning rates {_rates(finding.rates[0])}; it holds at: {at}.")
    if claim.why:
        lines.append(claim.why)
    if claim.checks is not None and not finding.checks:
        lines.append("The runs that it needs are not at hand.")
    if finding.checks:
        heads = "| check | number | holds if | n | |\n|---|---|---|---|---|"
        rows = [
            f"| {c.statement} | {c.number} | {c.bounds} | {'' if c.exact else c.n} "
            f"| {_STATES[c.state]} |"
            for c in finding.checks
        ]
        lines.append("\n".join([heads, *rows]))
    return "\n\n".join(lines)
