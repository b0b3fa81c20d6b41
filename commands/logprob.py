"""Computes log-probs and entropies of stored completions.

The policy gives `old_logp`, `entropy`, `max_prob` and, if `--columns` asks for it, `collision`. A
reference policy (`--ref-model`) gives `ref_logp` and, with `--ref-top-k`, its likeliest tokens:
`ref_topk_ids` and `ref_topk_logp`.

    rlvr logprob demo/rollouts
"""

from typing import Annotated

import typer

from rlvr_cli.cli import launch, options, resumed, sources
from rlvr_cli.terminal import console


def command(
    rollouts: options.Directories = None,
    out: options.Out = None,
    model: options.Model = None,
    ref_model: Annotated[str | None, typer.Option(help="the reference policy")] = None,
    ref_top_k: Annotated[
        int, typer.Option(min=0, help="store this many of the reference's likeliest tokens")
    ] = 0,
    columns: Annotated[
        str | None, typer.Option(help="as in old_logp,entropy \\[default: all possible]")
    ] = None,
    micro_batch_tokens: options.StageTokens = None,
    shard: options.Shard = "0/1",
    nproc: options.Nproc = 1,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    from rlvr_cli.models import policy as policies, which
    from rlvr_cli.stages import common, logprob

    source, out = sources.directories(rollouts, "rollouts", out, "logprobs")
    begun = resumed.Begun(out)
    tokens = begun.values(micro_batch_tokens=micro_batch_tokens)
    if columns:
        wanted = tuple(name.strip() for name in columns.split(","))
    else:
        wanted = logprob.default_columns(has_reference=bool(ref_model), ref_top_k=ref_top_k)
    logprob.check(wanted, has_reference=bool(ref_model), ref_top_k=ref_top_k)
    reference = policies.resolve(ref_model) if ref_model else None
    needs_policy = set(wanted) & set(logprob.OF_POLICY)
    policy, said = which.sampled(source, model) if needs_policy else (None, [])
    how = tokens | {"columns": wanted, "reference": reference, "ref_top_k": ref_top_k}
    if dry_run:
        begun.dry_run(logprob.run, source, out, policy=policy, **how)
        return console.say(f"logprob: {', '.join(wanted)} of {source.rows} rows, into `{out}`")
    launch.spawn(nproc, rollouts, source.path)
    console.remark("logprob", *said)
    with console.Parts("logprob", len(source)) as parts:
        shards = common.together(logprob.run(source, out, policy=policy, on_part=parts,
                                             share=launch.share(shard), **how), out)  # fmt: skip
    console.conclude(parts, out, shards, "{tokens:token}", as_json=json, rate="tokens")
