"""The images of the prompts that are sampled, and of those that rollouts are of."""

import contextlib
from collections.abc import Sequence
from dataclasses import replace

from rlvr_cli.config import RolloutOptions
from rlvr_cli.errors import DataError, UsageError, UserError
from rlvr_cli.models import chat, engine_choice, policy as policies
from rlvr_cli.models.policy import Policy
from rlvr_cli.protocols import Row
from rlvr_cli.storage import images
from rlvr_cli.storage.images import Images
from rlvr_cli.storage.shards import Shards


def check(prompts: Shards, policy: Policy, options: RolloutOptions) -> None:
    """Refuses prompts with images if the policy, the engine or DLC reads only text."""
    if has_images(prompts) and (error := refusal(first(prompts), policy, options)):
        raise error


def refusal(name: str, policy: Policy, options: RolloutOptions) -> UserError | None:
    """Why a prompt of this name cannot be sampled if it has an image; None where it can."""
    if not policy.is_served and not policies.reads_images(policy):
        return chat.reads_text_alone(name, policy.name)
    if options.is_decoupled:
        return UsageError(
            f"prompt `{name}` has an image, and DLC's memory model reads only text",
            "leave `+dlc` and --memory-model out, or take prompts without images",
        )
    return engine_choice.refusal_of_images(options.engine, name)


def has_images(prompts: Shards) -> bool:
    """Whether some of the prompts have images; nothing is read for it."""
    return any(images.KIND in one.manifest["parents"] for one in prompts.inputs)


def first(prompts: Shards) -> str:
    """The id of the first prompt that has an image."""
    for index in range(len(prompts)):
        table = prompts.part(index, ["prompt_id", images.COLUMN])
        for name, own in zip(*(column.to_pylist() for column in table.columns), strict=True):
            if own:
                return str(name)
    raise DataError(f"no prompt of `{prompts.path}` has an image", "make them again")


def of_rollouts(rollouts: Shards, policy: Policy) -> tuple[Images | None, ...]:
    """The images of the prompts of each input of rollouts, None where it has none.

    An error if there are some, and the policy reads only text.
    """
    images_I = tuple(_of_prompts(one, policies.reads_images(policy)) for one in rollouts.inputs)
    if any(images_I) and not policies.reads_images(policy):
        raise DataError(
            f"`{rollouts.path}` has prompts with images, and `{policy.name}` reads only text",
            "name a policy that reads images",
        )
    return images_I


def _of_prompts(rollouts: Shards, needed: bool) -> Images | None:
    if "prompts" not in rollouts.manifest["parents"]:
        return None
    if needed:
        return Images.of(rollouts.parent("prompts"))
    with contextlib.suppress(DataError, LookupError):  # text needs no prompts, which may be gone
        return Images.of(rollouts.parent("prompts"))
    return None


def with_images(rows: Sequence[Row], prompt_ids: Sequence[str], images: Images | None) -> list[Row]:
    """The rows with the images of their prompts."""
    if images is None:
        return list(rows)
    return [
        replace(row, images=images.of_prompt(name))
        for row, name in zip(rows, prompt_ids, strict=True)
    ]
