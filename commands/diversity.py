"""How different the completions of a prompt are: n-grams, similarities, answers, entropies.

1 - Self-BLEU-4, distinct-n, entropy of the extracted answers, mean similarity of pairs, lengths and
the truncated share, over all completions of a prompt, right or wrong. Entropies of tokens come from
a logprobs directory of the same rollouts.
"""

from pathlib import Path
from typing import Annotated

import typer

from rlvr_cli import console, options


def command(
    source: options.Source = None,
    similarity: Annotated[
        str, typer.Option(help="of pairs, as in tfidf,rouge-l; see `rlvr list similarities`")
    ] = "tfidf,jaccard",
    logprobs: Annotated[
        Path | None, typer.Option(help="a logprobs directory with entropy or max_prob")
    ] = None,
    out: options.Out = None,
    id_column: options.IdColumn = None,
    completion_column: options.CompletionColumn = None,
    correct_column: options.CorrectColumn = None,
    extracted_column: options.ExtractedColumn = None,
    source_column: options.SourceColumn = None,
    json: options.Json = False,
) -> None:
    from rlvr_cli import generations
    from rlvr_cli.stages import diversity

    path = options.source(source)
    columns = generations.Columns(
        id=id_column, completion=completion_column, correct=correct_column,
        extracted=extracted_column, source=source_column,
    )  # fmt: skip
    specs = diversity.specs(similarity)
    found = diversity.load(path, columns)
    measures = diversity.measure(found, specs)
    if logprobs:
        measures = diversity.with_tokens(found, measures, logprobs)
    parts, params = console.Parts("diversity", 1), {"similarity": specs}
    made = diversity.write(out, found, measures, params, parts) if out else None
    summary = diversity.summary(found, measures)
    console.evaluation(f"Diversity of `{path}`", summary, made, as_json=json, parts=parts)
