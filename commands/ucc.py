"""Computes UCC@k: different correct completions among k.

    UCC@k = sum_j (1 - C(n - s_j, k) / C(n, k)), s_j the size of cluster j

(QUATRO, eq. 20). Correct completions whose similarity reaches the threshold share a cluster.

    rlvr ucc demo/scores --threshold 0.6,0.8
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from rlvr_cli import config
from rlvr_cli.cli import lists, options, sources
from rlvr_cli.runtime import malloc
from rlvr_cli.terminal import console, results, tables


@options.takes(columns=config.Columns)
def command(
    columns: dict[str, Any],
    source: options.Files = None,
    k: options.Ks = None,
    min_n: options.MinN = 1,
    threshold: Annotated[
        str, typer.Option(help="similarity above 0 up to 1, as in 0.6,0.8")
    ] = "0.8",
    linkage: options.Linkage = "single",
    similarity: Annotated[str, typer.Option(help="see `rlvr list similarities`")] = "tfidf",
    clusters: Annotated[Path | None, typer.Option(help="a JSON lines file to write")] = None,
    plot: Annotated[bool, typer.Option("--plot", help="draw UCC@k against k")] = False,
    out: options.Out = None,
    json: options.Json = False,
) -> None:
    malloc.take_one_core()  # each of several processes has one
    from rlvr_cli.evaluation import clustering, enough, load, metric_shards as shards, pass_at_k

    path, thresholds = sources.files(source), lists.thresholds(threshold)
    clustering.check(thresholds, linkage=linkage, similarity=similarity)
    reading = config.make(config.Columns, columns)
    tallied, scores = pass_at_k.tally(path, columns=reading, texts=True)
    console.remark("ucc", *load.remarks(tallied, scores))
    tallied, ks = enough.chosen(tallied, min_n, lists.ks(k), "ucc")
    how: dict[str, Any] = {"linkage": linkage, "similarity": similarity}
    clusterings = clustering.of_tally(
        tallied, thresholds=thresholds, representatives=bool(clusters), **how)  # fmt: skip
    measures = pass_at_k.sweep_measures(tallied, ks, clusterings, thresholds)
    parts = console.Parts("ucc", 1)
    chosen = {"threshold": thresholds if thresholds[1:] else thresholds[0], **how}
    params = {"k": ks, **enough.params(min_n), **chosen}
    written = shards.write(out, "ucc", scores, tallied, measures, params, parts)
    if clusters and (count := clustering.write(clusters, tallied, clusterings, thresholds)):
        console.say(f"ucc: {count} clusters -> `{clusters}`")
    summary = shards.summary(tallied, measures) | chosen | {"estimator": pass_at_k.UCC_ESTIMATOR}
    curve = pass_at_k.ucc_curve(tallied, clusterings, thresholds[0]) if plot else {}
    drawn = tables.by_k(curve, "UCC@k against log2 k", console.stdout().file) if plot else ""
    title = f"UCC@k of `{path}`, {similarity} similarity {threshold}, {linkage} linkage"
    results.evaluation(title, summary, written, as_json=json, parts=parts, plot=drawn)
