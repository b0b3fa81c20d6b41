"""Computes exact Pass@k and Maj@k, with intervals.

    Pass@k = 1 - C(n - c, k) / C(n, k), per prompt, then the mean over prompts

Reads a scores directory, or JSONL, Parquet or CSV files of any tool (a file, a directory or a
quoted pattern), one completion or one list a row. Completions without a verdict are excluded and
counted. Maj@k needs extracted answers: it is the chance that the commonest of k answers is right,
and `--equality` decides which wrong ones are equal. Intervals are over prompts. `--power 0.02` says
how many prompts would show that change.

    rlvr eval-passk demo/scores --k 1,4,8 --plot
"""

from typing import Annotated, Any

import typer

from rlvr_cli import config
from rlvr_cli.cli import lists, options, sources
from rlvr_cli.terminal import console, results, tables


@options.takes(columns=config.Columns)
def command(
    columns: dict[str, Any],
    source: options.Files = None,
    k: options.Ks = None,
    min_n: options.MinN = 1,
    plot: Annotated[bool, typer.Option("--plot", help="draw Pass@k against k")] = False,
    out: options.Out = None,
    equality: options.Equality = None,
    power: options.Power = None,
    json: options.Json = False,
) -> None:
    from rlvr_cli.evaluation import enough, load, metric_shards, pass_at_k, power as powers, voting

    path = sources.files(source)
    reading = config.make(config.Columns, columns)
    tallied, scores = pass_at_k.tally(path, columns=reading, answers=equality != "none")
    console.remark("eval-passk", *load.remarks(tallied, scores))
    tallied, ks = enough.chosen(tallied, min_n, lists.ks(k))
    needed = None if power is None else powers.of_tally(tallied, power)
    decisive = voting.deciding(tallied, max(ks, default=0))
    judge = voting.equality_judge(tallied, scores, equality, decisive)
    with console.Parts("eval-passk", 1, judge.answers, "answers") as progress:
        tallied, majority = judge.count(progress.advance)
    measures = pass_at_k.outcome_measures(tallied, ks)
    parts = console.Parts("eval-passk", 1)
    how = {"equality": majority["equality"]} if majority else {}
    params = {"k": ks} | enough.params(min_n) | how
    written = metric_shards.write(out, "eval-passk", scores, tallied, measures, params, parts)
    facts = {"estimator": pass_at_k.PASS_ESTIMATOR, "power": needed}
    summary = metric_shards.summary(tallied, measures) | facts
    summary |= {"majority": majority} if majority else {}
    summary["remark"] = voting.remark(majority, equality)
    curve = pass_at_k.pass_curve(tallied) if plot else {}
    drawn = tables.by_k(curve, "Pass@k against log2 k", console.stdout().file) if plot else ""
    title = f"Pass@k of `{path}`"
    results.evaluation(title, summary, written, as_json=json, parts=parts, plot=drawn)
