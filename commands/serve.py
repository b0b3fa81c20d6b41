"""Serves a policy with vLLM, one server per GPU.

The servers answer rollouts of this machine or of others. The policy is a model, a checkpoint, a run
(its newest checkpoint), or `builtin`, the tiny one of the demo. Each server speaks the OpenAI
protocol below /v1, on its own port, counting from --port. The command prints the
`--engine openai:url=...` that samples from them. They return token ids and the log-probs of the
distribution that is sampled from, report a digest of the policy that they hold, and load the
weights of another checkpoint without a restart if a rollout asks with `load=true`.

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
    nproc: Annotated[int, typer.Option(min=1, help="servers, one per GPU")] = 1,
    port: Annotated[int, typer.Option(min=1, max=65535, help="port of the first server")] = 8000,
    host: Annotated[str, typer.Option(help="0.0.0.0: all networks")] = "127.0.0.1",
    engine: Annotated[str, typer.Option(help="vLLM and its options, as in vllm:dtype=float32")] = (
        "vllm"
    ),
    key_variable: Annotated[
        str, typer.Option(help="require the API key in this environment variable")
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
