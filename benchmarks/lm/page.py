"""The page of the comparison: tables, curves and claims, from the records of runs alone.

Shapes: P prompts, K values of k.
"""

import json
from pathlib import Path

from head_to_head import cell as shown

from lm import claims, plan, plot
from lm.figures import (
    Runs,
    chance_of_none,
    chosen,
    counted,
    curve,
    names_of,
    over_prompts,
    paired,
    scale,
    value,
)
from rlvr_cli import registry
from rlvr_cli.evaluation.metrics import contrast
from rlvr_cli.evaluation.verdicts import holm

BEGIN = "<!-- begin: benchmarks/head_to_head_lm.py -->\n"
END = "<!-- end -->\n"
MODEL = "SmolLM2-135M"
SAYS = """\
[claims.md](claims.md) has the verdict of each claim on these runs, by the checks and bounds that \
it uses for a smaller policy. {tallies}.
"""
DIFFERENCES = ("pass@1", "pass@64", "pass@256", "ucc@64", "entropy")


def main_table(runs: Runs, rates: dict[str, float], start: dict | None) -> list[str]:
    names = names_of(next(iter(next(iter(runs.values())).values())))
    lines = [
        f"| objective | rate | seeds | {' | '.join(names)} |",
        "|---|---|---|" + "---|" * len(names),
    ]
    if start:
        cells = [f"{scale(n) * value(start, n):.{1 if scale(n) == 100 else 2}f}"
                 if n.startswith(("pass@", "ucc@", "length")) else "" for n in names]  # fmt: skip
        lines.append(f"| at the start | | | {' | '.join(cells)} |")
    for spec, by_seed in runs.items():
        cells = [shown([value(record, n) for record in by_seed.values()], scale(n)) for n in names]
        lines.append(f"| `{spec}` | {rates[spec]:g} | {len(by_seed)} | {' | '.join(cells)} |")
    return [*lines, ""]


def difference_table(runs: Runs, name: str) -> list[str]:
    """The differences to GRPO in one metric, by seeds and by prompts, with Holm's p-values."""
    rows, by_seed, by_prompt = [], [], []
    for spec in runs:
        pairs = paired(runs, spec, "grpo")
        if spec == "grpo" or not pairs:
            continue
        gaps = [value(a, name) - value(b, name) for a, b in pairs]
        ends = (None, None, None) if name == "entropy" else over_prompts(pairs, name)
        rows.append((spec, shown(gaps, scale(name)), ends))
        by_seed.append(chance_of_none(gaps))
        by_prompt.append(ends[2])
    if not rows:
        return []
    lines = [
        f"| {name} less grpo's | by seed ± | p (Holm) | over prompts | p (Holm) |",
        "|---|---|---|---|---|",
    ]
    adjusted = zip(rows, holm(by_seed), holm(by_prompt), strict=True)
    for (spec, mean, ends), seeds, prompts in adjusted:
        cells = [mean, _p(seeds), _range(ends, scale(name)), _p(prompts)]
        lines.append(f"| `{spec}` | {' | '.join(cells)} |")
    return [*lines, ""]


def _range(ends: tuple[float | None, float | None, float | None], by: int) -> str:
    low, high, _ = ends
    return "" if low is None or high is None else f"{by * low:+.2f} to {by * high:+.2f}"


def _p(chance: float | None) -> str:
    if chance is None:
        return ""
    return f"{chance:.3f}" if chance >= 0.0005 else "< 0.001"


def crossings(runs: Runs) -> list[str]:
    """Where the mean Pass@k of an objective and GRPO's change their order."""
    lines = []
    for spec, by_seed in runs.items():
        if spec == "grpo" or "grpo" not in runs:
            continue
        largest = int(counted(next(iter(by_seed.values())))[0][0])
        sides = [curve(each, largest)[None] for each in (runs["grpo"], by_seed)]
        gap_K = sides[1][0] - sides[0][0]
        at = contrast.crossings(*sides)
        where = f"changes at k = {', '.join(map(str, at))}" if at else "never changes"
        ahead = f"{100 * gap_K[0]:+.1f} points at k = 1, {100 * gap_K[-1]:+.1f} at k = {largest}"
        lines.append(f"- `{spec}`: {ahead}; the order {where}.")
    return lines


def rate_table(done: dict[plan.Cell, dict]) -> list[str]:
    found = {(c.spec, c.rate): record for c, record in done.items() if c.split == "tune"}
    if not found:
        return ["No rate was searched for yet.", ""]
    rates = sorted({rate for _, rate in found})
    lines = [
        f"| objective | {' | '.join(f'{r:g}' for r in rates)} |",
        "|---|" + "---|" * len(rates),
    ]
    for spec in dict.fromkeys(spec for spec, _ in found):
        best = plan.tuned(spec, rates, done)
        cells = [_of_rate(found.get((spec, r)), bold=r == best) for r in rates]
        lines.append(f"| `{spec}` | {' | '.join(cells)} |")
    return [*lines, ""]


def _of_rate(record: dict | None, *, bold: bool) -> str:
    if record is None:
        return ""
    single, several = (100 * plan.last(record, name) for name in ("pass@1", "pass@16"))
    return f"**{single:.1f}** / {several:.1f}" if bold else f"{single:.1f} / {several:.1f}"


def pilot_table(rows: list[dict]) -> list[str]:
    if not rows:
        return ["No pilot was run.", ""]
    names = sorted({n for r in rows for n in r if n.startswith("pass@")}, key=lambda n: int(n[5:]))
    heads = ["task", "right answers shown", *names, "UCC@64", "length", "prompts", "on"]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for row in rows:
        passes = [f"{100 * row[n]:.1f}%" if n in row else "" for n in names]
        ucc = f"{row['ucc@64']:.2f}" if "ucc@64" in row else ""
        cells = [
            *passes,
            ucc,
            f"{row['length']:.1f}",
            str(row["held_out"]),
            row["machine"]["device"],
        ]
        lines.append(f"| {row['pilot']} | {row['examples']:,} | {' | '.join(cells)} |")
    return [*lines, ""]


def missing(by_title: dict[str, Runs]) -> list[str]:
    listed = [spec for tier in plan.TIERS for spec in tier]
    lines = []
    for title, runs in by_title.items():
        if few := [f"`{spec}`" for spec in listed if len(runs.get(spec, {})) < 3]:
            lines.append(f"- Fewer than three seeds, {title}: {', '.join(few)}.")
    specs = [*listed, *(spec for runs in by_title.values() for spec in runs)]
    known = {registry.parse("objectives", spec.split("+")[0])[0] for spec in specs}
    if others := sorted(set(registry.names("objectives")) - known):
        lines.append(f"- Not in the plan: {', '.join(f'`{s}`' for s in others)}.")
    return [*(lines or ["- Nothing of the plan."]), ""]


def facts(setting: plan.Setting, done: dict[plan.Cell, dict]) -> list[str]:
    devices = sorted(
        {f"{r['machine']['device']}, torch {r['machine']['torch']}" for r in done.values()}
    )
    policies = {r["machine"]["policy"] for r in done.values() if r["machine"]["policy"]}
    runs = sum(1 for cell in done if cell.spec != plan.START)
    lines = [
        f"Task `{setting.task}`: {setting.steps} steps of {setting.prompts_per_step} prompts x "
        f"{setting.generations} completions, {setting.prompts_per_step // setting.mini_batch} "
        f"updates a step; {setting.held_out} prompts to tune on and as many others to test on, "
        f"{setting.samples} completions each; {'; '.join(devices)}; {runs} runs.",
        "",
    ]
    if len(policies) > 1:
        lines += [f"**The weights at the start differ between machines**: {sorted(policies)}.", ""]
    totals = sorted(
        (value(r, "tokens"), c.spec) for c, r in done.items() if c.split == "test" and c.rate
    )
    if totals:
        (least, fewest), (most, longest) = totals[0], totals[-1]
        lines += [f"A run trains on {least:.2f} (`{fewest}`) to {most:.2f} (`{longest}`) million "
                  "tokens.", ""]  # fmt: skip
    return lines


def body(records: list[dict], pilots: list[dict], rate: float, picture: Path) -> str:
    """All that is generated, as Markdown."""
    lines = ["## The pilot", "", *pilot_table(pilots)]
    if not records:
        lines += ["## Results", "", "No run was made yet.", "", "### What was not run", ""]
        return "\n".join([*lines, *missing({f"all at {rate:g}": {}})])
    setting = plan.Setting(**records[0]["setting"])
    done = plan.by_cell(records)
    by_default, best = rates_of(done, rate)
    default, tuned = chosen(done, by_default), chosen(done, best)
    first = start_of(done)
    lines += ["## Results", "", *facts(setting, done)]
    for title, runs, rates in (
        (f"rate {rate:g}", default, by_default),
        ("tuned rate", tuned, best),
    ):
        if not runs:
            continue
        lines += [f"### Each at its {title}" if runs is tuned else f"### All at {title}", ""]
        lines += main_table(runs, rates, first)
        metrics = names_of(next(iter(next(iter(runs.values())).values())))
        for name in DIFFERENCES:
            lines += difference_table(runs, name) if name in metrics else []
        if found := crossings(runs):
            lines += ["Pass@k beside GRPO's:", "", *found, ""]
    if default or tuned:
        plot.draw(plot.rows(default, tuned, best, rate), picture)
        lines += [f"![curves at {rate:g}, and at other tuned rates]({picture.name})", ""]
    lines += [
        "### Held-out Pass@1 / Pass@16 by learning rate, on the prompts to tune on",
        "",
        "Of one run each. The rate with the highest Pass@1 (bold) is the tuned one.",
        "",
        *rate_table(done),
    ]
    sides = {f"At {rate:g}": default} | ({"at the tuned rates": tuned} if tuned else {})
    tallies = (f"{at}, {claims.tally(claims.rows(r, first, MODEL))}" for at, r in sides.items())
    lines += ["### What the papers say", "", SAYS.format(tallies="; ".join(tallies))]
    both = {f"all at {rate:g}": default, "each at its tuned rate": tuned}
    return "\n".join([*lines, "### What was not run", "", *missing(both)])


def rates_of(done: dict[plan.Cell, dict], rate: float) -> tuple[dict, dict]:
    """Of each objective the default rate, and of those that are tuned their own."""
    specs = dict.fromkeys(cell.spec for cell in done if cell.rate)
    tried = sorted({cell.rate for cell in done if cell.split == "tune"})
    best = {spec: plan.tuned(spec, tried, done) for spec in specs} if tried else {}
    return dict.fromkeys(specs, rate), {s: r for s, r in best.items() if r is not None}


def start_of(done: dict[plan.Cell, dict]) -> dict | None:
    return next((record for cell, record in done.items() if cell.spec == plan.START), None)


def figures(records: list[dict], rate: float) -> list[dict]:
    """What `rlvr lab claims` reads: the runs at the default rate, and those at tuned ones."""
    done = plan.by_cell(records)
    titles = f"{MODEL} at {rate:g}", f"{MODEL} at tuned rates"
    return [
        row
        for title, rates in zip(titles, rates_of(done, rate), strict=True)
        for row in claims.rows(chosen(done, rates), start_of(done), title)
    ]


def write(results: Path, page: Path, *, rate: float, setting: str | None = None) -> None:
    """Puts what the records say between the marks of the page, and the figures beside it;
    SystemExit if they are of several settings and none is named."""
    rows = (
        [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    )
    records = [row for row in rows if "key" in row]
    kinds = {plan.Setting(**row["setting"]).digest: row["setting"] for row in records}
    if setting or len(kinds) > 1:
        if setting not in kinds:
            raise SystemExit(f"--setting is one of {', '.join(kinds)}")
        records = [row for row in records if row["setting"] == kinds[setting]]
    made = body(records, [row for row in rows if "pilot" in row], rate, page.with_suffix(".svg"))
    before, _, rest = page.read_text().partition(BEGIN)
    page.write_text(f"{before}{BEGIN}{made}{END}{rest.partition(END)[2]}")
    lines = [json.dumps(row) + "\n" for row in figures(records, rate)]
    page.with_suffix(".jsonl").write_text("".join(lines))
