"""The options of a rollout: what makes no sense together, and what follows for this machine."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from rlvr_cli import registry
from rlvr_cli.config import RolloutOptions
from rlvr_cli.errors import UsageError
from rlvr_cli.models import engine_choice, memory_model as memory_models
from rlvr_cli.models.policy import Policy
from rlvr_cli.stages import row_images
from rlvr_cli.stages.selection import Selection
from rlvr_cli.storage.begun import begun_with
from rlvr_cli.storage.shards import Shards
from rlvr_cli.storage.share import ALL_PARTS, Share


def check(
    options: RolloutOptions, selection: Selection = Selection(), share: Share = ALL_PARTS
) -> None:
    """Refuses options that make no sense together."""
    if options.temperature == 0 and options.num_generations > 1:
        raise UsageError(
            f"temperature 0 gives {options.num_generations} times the same completion",
            "use `--num-generations 1`, or a temperature above 0",
        )
    if options.engine != engine_choice.AUTO:
        registry.build("rollout", options.engine)
    memory_models.check(options)
    if options.max_draws > 1:
        _check_draws(options, selection, share)


def settle(
    options: RolloutOptions,
    policy: Policy,
    prompts: int,
    shares: int,
    *,
    out: Path | None = None,
    trainer: str = "local",
    of: Iterable[Shards] = (),
) -> tuple[RolloutOptions, list[str]]:
    """The options for this machine and so many processes, and what there is to say of them.

    The engine has a name, and of so many prompts each share has a part, if there are enough. An
    `out` that was begun keeps its parts. The prompts are `of` these directories: some may have
    images.
    """
    images = any(map(row_images.has_images, of))
    engine, why = engine_choice.resolve(options.engine, policy, trainer, images=images)
    remarks = [f"the engine is {engine}, as graph is not for `{policy.name}`: {why}"] if why else []
    size = options.prompts_per_part
    begun = begun_with(out).get("prompts_per_part") if out else None
    if shares > -(-prompts // size) and size != begun:
        size = max(1, prompts // shares)
        remarks.append(f"parts of {size} prompts, so that each of {shares} processes has one")
    return replace(options, engine=engine, prompts_per_part=size), remarks


def _check_draws(options: RolloutOptions, selection: Selection, share: Share) -> None:
    given = f"--max-draws is {options.max_draws}"
    if selection.prompts_per_step is None:
        raise UsageError(
            f"{given}, and nothing says how many groups are wanted",
            "say it with --prompts-per-step",
        )
    if share.count > 1:
        raise UsageError(
            f"{given}, and --shard is {share.index}/{share.count}: what is drawn depends on the "
            "rewards of all shares",
            "leave --shard out",
        )
    if options.num_generations == 1:
        raise UsageError(
            f"{given}, and a group of one completion never has different rewards",
            "use --num-generations 2 or more",
        )
