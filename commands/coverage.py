"""Measures how many solution tokens are in a policy's top K.

This is oracle coverage (APO, table 1), by teacher forcing over a file of prompts and known
solutions. It shows how much of valid reasoning a policy would lose if only its K likeliest tokens
were kept.

    rlvr coverage demo/prompts --model builtin --k 1,4
"""

from pathlib import Path
from typing import Annotated

import typer

from rlvr_cli import config
from rlvr_cli.cli import lists, options
from rlvr_cli.terminal import console, results


def command(
    solutions: Annotated[Path, typer.Argument(help="a file with solutions, or prompts")],
    model: options.Model = None,
    k: Annotated[str, typer.Option("--k", help="values of K, as in 1,8")] = "1,4,8,16",
    chat: Annotated[bool, typer.Option("--chat", help="put prompts into a user turn")] = False,
    separator: Annotated[str, typer.Option(help="text between prompt and solution")] = "",
    out: options.Out = None,
    id_column: options.IdColumn = None,
    prompt_column: options.PromptColumn = None,
    solution_column: Annotated[str | None, typer.Option(help="the column of the solution")] = None,
    micro_batch_tokens: options.MicroBatchTokens = config.UpdateOptions.micro_batch_tokens,
    limit: options.Limit = None,
    json: options.Json = False,
) -> None:
    from rlvr_cli.errors import UsageError
    from rlvr_cli.evaluation import coverage
    from rlvr_cli.models import policy as policies

    if model is None:
        raise UsageError("coverage needs a policy", "name it with --model")
    policy = policies.resolve(model)
    known = coverage.load(
        solutions, id_column=id_column, prompt_column=prompt_column,
        solution_column=solution_column, limit=limit,
    )  # fmt: skip
    ks, parts = lists.ks(k), console.Parts("coverage", 1)
    with console.Parts("coverage", len(known.text)) as progress:
        result = coverage.run(
            known, policy, ks, separator=separator, chat=chat,
            micro_batch_tokens=micro_batch_tokens, on_prompt=lambda i: progress(i, "written"),
        )  # fmt: skip
    params = {"k": ks, "policy": policy.digest, "separator": separator, "chat": chat}
    written = coverage.write(result, out, params, parts) if out else None
    title = f"Oracle coverage of `{solutions}` by `{policy.name}`"
    results.evaluation(title, result.summary(), written, as_json=json, parts=parts)
