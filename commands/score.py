"""Verifies completions: each gets a reward, or a status.

If the verifier itself fails, the row has a status and a null reward, never a 0. To score again with
another verifier, give another `--out`: nothing is sampled again. You can add verifiers up
(`0.9*math+0.1*format`) or write one (`reward.py:function`); see `rlvr list verifiers`. Completions
of several directories are verified by their own prompts; `--follow RUN` scores a run's steps.

    rlvr score demo/rollouts
"""

from typing import Annotated, Any

import typer

from rlvr_cli.cli import options, resumed, sources
from rlvr_cli.loop import follow_options
from rlvr_cli.terminal import console, plural


@follow_options.scores
def command(
    rollouts: options.Directories = None,
    out: options.Out = None,
    verifier: Annotated[str | None, typer.Option(help="replaces each prompt's own")] = None,
    answer_from: options.AnswerFrom = None,
    prompts: options.MovedPrompts = None,
    workers: options.Workers = None,
    cache: options.Cache = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="verify every completion")] = False,
    allow_code_execution: options.AllowCode = False,
    unsafe_no_sandbox: options.Unsafe = False,
    max_error_rate: options.MaxErrorRate = 0.01,
    shard: options.Shard = "0/1",
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    from rlvr_cli.stages import score, unanswered
    from rlvr_cli.storage.share import Share

    source, out = sources.directories(rollouts, "rollouts", out, "scores")
    where = sources.moved_to(prompts, "prompts", source)
    how: dict[str, Any] = {"prompts": where, "allow_code": allow_code_execution}
    how |= {"answer_from": answer_from} | resumed.Begun(out).values(verifier=verifier)
    if dry_run:
        score.check(source, where, how.get("verifier"), allow_code=allow_code_execution)
        resumed.dry_run(score.run, source, out, **how)
        return console.say(f"score: would score {plural.of(source.rows, 'completion')} to `{out}`")
    score.discard_failed(out, max_error_rate)
    kind = score.sandbox(unsafe=unsafe_no_sandbox) if allow_code_execution else None
    console.remark("score", *score.isolation(kind))
    scorer = score.scorer(workers=workers, cache=cache, use_cache=not no_cache, sandbox=kind)
    with scorer, console.Parts("score", len(source), source.rows, "completions") as parts:
        how["on_failure"] = lambda text: console.remark("score", text)
        summary = score.run(source, out, share=Share.parse(shard), with_scorer=scorer,
                            on_part=parts, on_rows=parts.advance, **how)  # fmt: skip
    console.remark("score", *scorer.remarks())
    console.conclude(parts, out, summary, score.SUMMARY, as_json=json,
                     remarks=[*unanswered.remarks(summary, source)])  # fmt: skip
    if summary:
        score.check_error_rate(summary, max_error_rate)
