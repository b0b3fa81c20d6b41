"""What there is to say of a rollout before it starts and when it is done."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlvr_cli.config import RolloutOptions
from rlvr_cli.models import chat, prompt_options, tokenizers
from rlvr_cli.models.policy import Policy
from rlvr_cli.models.served import ServedEncoder
from rlvr_cli.stages import row_images
from rlvr_cli.stages.selection import Selection
from rlvr_cli.storage.images import Images
from rlvr_cli.storage.shards import MANIFEST, Shards
from rlvr_cli.terminal import plural

_SUMMARY = "{completions:completion}, {tokens:token}, {cut} cut off at the limit, {skipped} skipped"
_OF_TEXT = "{completions:completion}, {cut} cut off at the limit, {skipped} skipped"
_OF_DRAWS = ", {prompts} of {wanted} groups, from {drawn} in {draws:draw}"
_MANY_CUT = 0.1  # of the completions


def conclusion(options: RolloutOptions, rollouts: Shards | None) -> dict[str, Any]:
    """What to say of rollouts that are done, as `console.conclude` takes it."""
    remarks = list(cut(rollouts))
    if options.max_draws > 1:
        return {"text": _SUMMARY + _OF_DRAWS, "remarks": remarks}
    if rollouts is not None and rollouts.summary.get("tokens", 0) is None:
        return {"text": _OF_TEXT, "rate": "completions", "remarks": remarks}
    return {"text": _SUMMARY, "rate": "tokens", "remarks": remarks}


def cut(rollouts: Shards | None, option: str = "--max-new-tokens") -> Iterator[str]:
    """A warning if the limit that `option` sets cut many of the completions."""
    if rollouts is None:
        return
    count, limit = rollouts.summary.get("cut"), rollouts.params.get("max_new_tokens")
    if count is None:  # of imported ones there is no summary
        parts = (rollouts.part(i, ["finish_reason"]) for i in range(len(rollouts)))
        count = sum(part["finish_reason"].to_pylist().count("length") for part in parts)
    if count > _MANY_CUT * max(rollouts.rows, 1):
        at = f"at {limit} tokens" if limit else "at their limit"
        yield (
            f"warning: {count / rollouts.rows:.0%} of `{rollouts.path}` were cut {at}, before "
            f"they could state an answer; {option} allows more"
        )


def prompt_remarks(
    options: RolloutOptions,
    policy: Policy,
    prompts: Shards | None,
    selection: Selection = Selection(),
    *,
    out: Path | None = None,
) -> list[str]:
    """How the prompts are put to the policy; an error if the options do not fit them.

    Without `prompts` they are those of a task. Nothing is said of an `out` that is complete.
    """
    if out and (out / MANIFEST).exists():
        return []
    if prompts:
        row_images.check(prompts, policy, options)
    if policy.is_served:
        served_encoder = ServedEncoder(options)
        if prompts is None:
            return []
        asked = selection.rows(prompts)
        return list(served_encoder.remarks(asked["messages"].to_pylist(), asked["raw"].to_pylist()))
    if not prompt_options.given(options) and not tokenizers.has_chat_template(policy):
        if prompts:
            chat.refuse_messages(selection.rows(prompts))
        return []  # without a tokenizer, which takes seconds to load
    encoder = chat.encoder(policy, options)
    if prompts is None:
        return list(encoder.remarks(['""'], [True]))
    chosen = selection.rows(prompts)
    return list(encoder.remarks(chosen["messages"].to_pylist(), chosen["raw"].to_pylist()))


def dry_run_text(
    options: RolloutOptions, policy: Policy, prompts: Shards, selection: Selection, out: Path
) -> str:
    """What would be sampled, and the first selected prompt, exactly as the policy sees it."""
    draws = f", in {options.max_draws} draws at most," if options.max_draws > 1 else ""
    what = f"{plural.of(options.num_generations, 'completion')} of `{policy.name}`{draws}"
    count, preview = len(selection.of(prompts)), _preview(options, policy, prompts, selection)
    return f"{plural.of(count, 'prompt')} x {what} would go to `{out}`\n{preview}"


def _preview(options: RolloutOptions, policy: Policy, prompts: Shards, selection: Selection) -> str:
    first = selection.rows(prompts).slice(0, 1).to_pylist()
    if not first:
        return "there is no prompt"
    if policy.is_served:
        return ServedEncoder(options).preview(first[0])
    images = Images.of(prompts)
    own = images.of_prompt(first[0]["prompt_id"]) if images else ()
    return chat.encoder(policy, options).preview(first[0], own)
