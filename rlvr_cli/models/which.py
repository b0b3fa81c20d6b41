"""Which policy a stage takes where no --model names one, and why."""

from pathlib import Path

from rlvr_cli import registry
from rlvr_cli.errors import UsageError, UserError
from rlvr_cli.models import policy as policies
from rlvr_cli.models.policy import BUILTIN, BUILTIN_VL, Policy
from rlvr_cli.specs import grammar
from rlvr_cli.storage import images
from rlvr_cli.storage.begun import begun_paths, begun_with
from rlvr_cli.storage.shards import Shards


def to_sample(
    prompts: Shards, given: str | None, out: Path, engine: str = ""
) -> tuple[Policy, list[str]]:
    """The policy that was given, that `out` was begun with, or the built-in one for its task.

    Where none was given, that of a server which the `engine` names.
    """
    if given:
        return policies.resolve(given), []
    if recorded := begun_paths(out).get("policy"):
        policy = policies.recorded_in(out, recorded)
        return policy, [
            f"no --model given, using `{policy.name}`, because `{out}` was begun with it"
        ]
    if served := _served(engine, out):
        return served, []
    policy = policies.resolve(builtin(prompts))
    own = " `builtin-vl`" if policy.name == BUILTIN_VL else ""
    why = "the prompts are from a built-in task"
    return policy, [f"no --model given, using the built-in tiny policy{own}, because {why}"]


def _served(engine: str, out: Path) -> Policy | None:
    """The policy that only a server knows, if the engine samples from one."""
    if grammar.read(engine).name != "openai":
        return None
    if name := registry.parse("rollout", engine)[1]["model"]:
        return policies.served(name)
    return policies.served_before(begun_with(out).get("policy") or "")


def sampled(rollouts: Shards, given: str | None) -> tuple[Policy, list[str]]:
    """The policy that was given, or the one that the rollouts were sampled from."""
    policy = policies.of(rollouts, given)
    were = "was" if len(rollouts.inputs) == 1 else "were"
    why = f"`{rollouts.path}` {were} sampled from it"
    said = f"no --model given, using `{policy.name}`, because {why}"
    return policy, [] if given else [said]


def builtin(prompts: Shards) -> str:
    """The built-in policy for prompts of a built-in task; an error unless they are of one."""
    require_named(prompts)
    has_images = any(images.KIND in one.manifest["parents"] for one in prompts.inputs)
    return BUILTIN_VL if has_images else BUILTIN


def require_named(prompts: Shards) -> None:
    """An error unless the prompts are of a built-in task, the only ones for the built-in policy."""
    if not _is_builtin(prompts):
        raise UsageError(
            f"no --model is given, and `{prompts.path}` holds prompts of your own",
            f"name a model with `--model DIR`; `--model {BUILTIN}` is a tiny one that knows only "
            "its own task",
        )


def _is_builtin(prompts: Shards) -> bool:
    task = prompts.params.get("task")
    if task is not None:
        return grammar.read(task).name in registry.names("tasks")
    try:
        return _is_builtin(prompts.parent("prompts"))
    except (LookupError, UserError):  # none, or one that was moved
        return False
