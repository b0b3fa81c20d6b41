"""Pass@k for every k, exact, with intervals over prompts.

    Pass@k = 1 - C(n - c, k) / C(n, k), per prompt, then the mean over prompts

Reads a scores directory, or a JSONL, Parquet or CSV file of any tool with one completion a row or
one list a row. A completion without a verdict is excluded, and counted. A k above the smallest n
is refused.
"""

from typing import Annotated

import typer

from rlvr_cli import console, options


def command(
    source: options.Source = None,
    k: Annotated[str | None, typer.Option("--k", help="as in 1,8,64; powers of two else")] = None,
    out: options.Out = None,
    id_column: options.IdColumn = None,
    correct_column: options.CorrectColumn = None,
    json: options.Json = False,
) -> None:
    from rlvr_cli.stages import evaluate

    path = options.source(source)
    tallied, scores = evaluate.tally(path, id_column=id_column, correct_column=correct_column)
    ks = options.ks(k) or evaluate.default_ks(tallied)
    measures = evaluate.pass_measures(tallied, ks)
    parts, params = console.Parts("eval-passk", 1), {"k": ks}
    made = (
        evaluate.write(out, "eval-passk", scores, tallied, measures, params, parts) if out else None
    )
    summary = evaluate.summary(tallied, measures)
    console.evaluation(f"Pass@k of `{path}`", summary, made, as_json=json, parts=parts)
