"""UCC@k: how many different correct completions k samples find.

    UCC@k = sum_j (1 - C(n - s_j, k) / C(n, k)), s_j the size of cluster j

(QUATRO, eq. 20). Correct completions of a prompt are in one cluster if their TF-IDF cosine reaches
the threshold, directly or through others (`--linkage single`). The paper names no threshold: the
value is ours, and the figure depends on it.
"""

from typing import Annotated, Literal

import typer

from rlvr_cli import console, options


def command(
    source: options.Source = None,
    k: Annotated[str | None, typer.Option("--k", help="as in 1,8,64; powers of two else")] = None,
    threshold: Annotated[float, typer.Option(help="of the cosine, above 0 up to 1")] = 0.8,
    linkage: Annotated[
        Literal["single", "average", "complete"], typer.Option(help="what joins a cluster")
    ] = "single",
    out: options.Out = None,
    id_column: options.IdColumn = None,
    completion_column: options.CompletionColumn = None,
    correct_column: options.CorrectColumn = None,
    json: options.Json = False,
) -> None:
    from rlvr_cli.stages import evaluate

    path = options.source(source)
    tallied, scores = evaluate.tally(
        path, texts=True, id_column=id_column, correct_column=correct_column,
        completion_column=completion_column,
    )  # fmt: skip
    ks = options.ks(k) or evaluate.default_ks(tallied)
    measures = evaluate.ucc_measures(tallied, ks, threshold=threshold, linkage=linkage)
    parts = console.Parts("ucc", 1)
    params = {"k": ks, "threshold": threshold, "linkage": linkage}
    made = evaluate.write(out, "ucc", scores, tallied, measures, params, parts) if out else None
    summary = {**evaluate.summary(tallied, measures), "threshold": threshold, "linkage": linkage}
    title = f"UCC@k of `{path}`, TF-IDF cosine {threshold}, {linkage} linkage"
    console.evaluation(title, summary, made, as_json=json, parts=parts)
