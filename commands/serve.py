"""Serves a policy by vLLM, one server a GPU, for rollouts on this machine or on others.

The policy is named: a model, a checkpoint, a run, which stands for its newest checkpoint, or
`builtin`, the tiny one of the demo. Each server answers as OpenAI's do, below /v1. The command
prints the `--engine openai:url=...` that samples from them. They give token ids and the
log-probs of what is sampled from, say by a digest which policy they have, and take the weights of
another checkpoint without a restart where a rollout asks with `load=true`. Each server has a port
of its own, from --port on.

    rlvr serve builtin --engine vllm:max_length=64,cache_gib=0.1
"""

from typing import Annotated

import typer

from rlvr_cli.cli import options
from rlvr_cli.terminal import console


def command(
    model: Annotated[
        str, typer.Argument(help="a model directory or hub name, a checkpoint, a run, or `builtin`")
    ],
    nproc: Annotated[int, typer.Option(min=1, help="servers, one a GPU")] = 1,
    port: Annotated[int, typer.Option(min=1, max=65535, help="of the first server")] = 8000,
    host: Annotated[str, typer.Option(help="0.0.0.0 lets other machines ask")] = "127.0.0.1",
    engine: Annotated[str, typer.Option(help="vLLM and its options, as in vllm:dtype=float32")] = (
        "vllm"
    ),
    key_variable: Annotated[
        str, typer.Option(help="ask for the key that this environment variable holds")
    ] = "",
    dry_run: options.DryRun = False,
) -> None:
    from rlvr_cli.engines.serving import start
    from rlvr_cli.models import policy as policies

    policy = policies.resolve(model)
    settings = start.Settings(nproc, host, port, engine, key_variable)
    if dry_run:
        start.check(policy, settings)
        return console.say(f"serve: `{policy.name}` would be served; sample with\n{settings.spec}")
    console.say(f"serve: starting {nproc} of vLLM on `{policy.name}`; interrupt to end")
    if host not in ("127.0.0.1", "localhost", "::1") and not key_variable:
        console.remark("serve", "warning: whoever reaches the ports may sample, and have other "
                       "weights loaded; --key-variable asks for a key")  # fmt: skip
    try:
        with start.running(policy, settings) as servers:
            console.document(f"--engine {settings.spec}\n")
            start.watch(servers, settings.urls)
    except KeyboardInterrupt:
        console.say("serve: ended")
