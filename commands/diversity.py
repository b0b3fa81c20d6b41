"""Measures how different a prompt's completions are.

Reports 1 - Self-BLEU-4, distinct-n, the entropy of the extracted answers, the mean similarity of
pairs, lengths and the truncated share, over all completions of a prompt, right or wrong.
`--equality` says which wrong answers count as the same. `--logprobs` adds token entropies.

    rlvr diversity demo/scores --logprobs demo/logprobs
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from rlvr_cli import config
from rlvr_cli.cli import options, sources
from rlvr_cli.terminal import console, results


@options.takes(columns=config.Columns)
def command(
    columns: dict[str, Any],
    source: options.Files = None,
    similarity: Annotated[
        str, typer.Option(help="measures, as in tfidf,rouge-l; see `rlvr list similarities`")
    ] = "tfidf,jaccard",
    logprobs: Annotated[
        Path | None, typer.Option(help="a logprobs directory with entropy or max_prob")
    ] = None,
    out: options.Out = None,
    equality: options.Equality = None,
    json: options.Json = False,
) -> None:
    from rlvr_cli.evaluation import diversity, earlier, load, voting

    path, specs = sources.files(source), diversity.specs(similarity)
    stored = diversity.load(path, config.make(config.Columns, columns))
    tallied = stored.tally()
    judge = voting.equality_judge(tallied, stored.scores, equality, voting.several(tallied))
    with console.Parts("diversity", 1, judge.answers, "answers") as progress:
        tallied, entropy = judge.count(progress.advance)
    measures = diversity.measure(stored, tallied, specs)
    if logprobs:
        measures = diversity.with_tokens(stored, measures, logprobs)
    parts = console.Parts("diversity", 1)
    params = {"similarity": specs} | ({"equality": entropy["equality"]} if entropy else {})
    written = diversity.write(out, stored, measures, params, parts) if out else None
    summary = diversity.summary(stored, measures)
    if entropy:
        remark = voting.described(entropy, "answer entropy")
        summary |= {"answer_entropy": entropy, "remark": remark}
    console.remark("diversity", *load.remarks(tallied, None))
    results.evaluation(f"Diversity of `{path}`", summary, written, as_json=json, parts=parts)
    console.remark("diversity", *earlier.remarks(out, diversity.BEHAVIOUR))
