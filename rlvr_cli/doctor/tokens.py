"""Whether a policy's tokenizer, its chat template and its model agree on what ends a completion."""

import json
from collections.abc import Iterator
from typing import Any

from rlvr_cli.doctor.finding import Finding
from rlvr_cli.errors import DataError, UserError
from rlvr_cli.models import pretrained, tokenizers
from rlvr_cli.models.policy import Policy

_PROBE = "x"


def examine(policy: Policy) -> Iterator[Finding]:
    tokenizer = tokenizers.load(policy)
    yield from _ends(policy, tokenizer)
    yield from _vocabulary(policy, tokenizer)
    yield from _images(policy)


def _images(policy: Policy) -> Iterator[Finding]:
    """That the policy reads images, and its processor, if it does."""
    try:
        processor = tokenizers.load_processor(policy)
    except UserError as error:
        yield Finding("problem", "processor", str(error), error.hint)
        return
    if processor:
        names = " and ".join(type(p).__name__ for p in (processor, processor.image_processor))
        yield Finding("ok", "processor", f"the policy reads images, by {names}")


def _ends(policy: Policy, tokenizer: Any) -> Iterator[Finding]:
    """A completion ends at an id that the generation config declares, else the tokenizer's own."""
    try:
        declared = tokenizers.end_ids(policy, tokenizer)
    except DataError as error:
        yield Finding("problem", "end ids", str(error), error.hint)
        return
    expected = {"the tokenizer's own": tokenizer.eos_token_id, "a turn's": turn_end(tokenizer)}
    missing = {what: i for what, i in expected.items() if i is not None and i not in declared}
    for what, token in missing.items():
        ids = json.dumps(sorted({*declared, *missing.values()}))
        yield Finding(
            "problem",
            "end ids",
            f"{what} end is {token} `{tokenizer.convert_ids_to_tokens(token)}`, and "
            f"generation_config.json declares {list(declared)}: completions would run on",
            f'write "eos_token_id": {ids} in `{policy.path / "generation_config.json"}`',
        )
    if not missing:
        names = ", ".join(f"{i} `{tokenizer.convert_ids_to_tokens(i)}`" for i in declared)
        yield Finding("ok", "end ids", names)


def turn_end(tokenizer: Any) -> int | None:
    """The special token that the chat template puts after an assistant's message, if any."""
    if not getattr(tokenizer, "chat_template", None):
        return None
    turns = [{"role": role, "content": _PROBE} for role in ("user", "assistant")]
    try:
        conversation = tokenizer.apply_chat_template(turns, tokenize=False)
    except Exception:  # a template may raise anything, and may refuse what we ask
        return None
    ids = tokenizer(conversation.rpartition(_PROBE)[2], add_special_tokens=False)["input_ids"]
    return next((i for i in ids if i in tokenizer.all_special_ids), None)


def _vocabulary(policy: Policy, tokenizer: Any) -> Iterator[Finding]:
    config = pretrained.config((policy.base or policy).path)
    size, known = config.get_text_config().vocab_size, tokenizers.vocabulary(tokenizer)
    if known > size:
        yield Finding(
            "problem",
            "vocabulary",
            f"the tokenizer has ids up to {known - 1}, the model {size} rows: a prompt may not fit",
            "save the model's own tokenizer in its directory",
        )
    elif known < size:
        text = f"{size} rows, {size - known} of them beyond the tokenizer: never sampled"
        yield Finding("ok", "vocabulary", text)
    else:
        yield Finding("ok", "vocabulary", f"{size} tokens")
