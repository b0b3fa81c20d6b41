"""The tokenizers and processors of policies, by their files, and which tokens end a completion."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlvr_cli.errors import DataError, first_line
from rlvr_cli.models import file_digests, pretrained, processors

if TYPE_CHECKING:
    from rlvr_cli.models.policy import Policy

MAIN_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model")
_FILES = (  # of which a tokenizer has one of the main ones
    *MAIN_FILES,
    *("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "merges.txt"),
    *("chat_template.jinja", "chat_template.json", "config.json"),
)
_CHAT_TEMPLATES = ("chat_template.jinja", "chat_template.json", "additional_chat_templates")


def load_processor(policy: Policy) -> Any:
    """The processor of a policy that reads images, None of any other; checkpoints share one."""
    if policy.is_served or not processors.reads_images((policy.base or policy).path):
        return None
    path = (policy.base or policy).path
    own = [path / name for name in processors.FILES if (path / name).exists()]
    names = sorted(path.glob("chat_template*")) + own
    digests = file_digests.sha256_of([*names, path / "config.json"])
    return _processor(_Content("\0".join(digests), policy), load(policy))


@functools.lru_cache(maxsize=2)
def _processor(content: _Content, tokenizer: Any) -> Any:
    return processors.load((content.policy.base or content.policy).path, tokenizer)


def has_chat_template(policy: Policy) -> bool:
    """Whether the policy's files hold a chat template; nothing is loaded."""
    if any((policy.path / name).exists() for name in _CHAT_TEMPLATES):
        return True
    tokenizer = policy.path / "tokenizer_config.json"
    return tokenizer.exists() and '"chat_template"' in tokenizer.read_text()


def load(policy: Policy) -> Any:
    """The policy's tokenizer; the checkpoints of a run share one in memory."""
    own = [path for path in sorted(policy.path.iterdir()) if path.name in _FILES]
    content = zip(own, file_digests.sha256_of(own), strict=True)
    return _tokenizer(_Content("".join(f"{p.name}\0{digest}\n" for p, digest in content), policy))


def files(path: Path) -> list[Path]:
    """The files in a directory that make its tokenizer; none where there is no known one."""
    own = [file for file in sorted(path.iterdir()) if file.name in _FILES]
    is_known = any(file.name in MAIN_FILES for file in own)
    return [file for file in own if file.name != "config.json"] if is_known else []


@dataclass(frozen=True)
class _Content:
    digest: str
    policy: Policy = field(compare=False)


@functools.lru_cache(maxsize=2)
def _tokenizer(content: _Content) -> Any:
    policy = content.policy
    quiet()
    try:
        return pretrained.tokenizer(policy.path)
    except Exception as error:  # a broken file may raise anything
        raise DataError(
            f"cannot load the tokenizer of `{policy.path}`: {first_line(error)}",
            "copy or save it again",
        ) from error


def end_ids(policy: Policy, tokenizer: Any) -> tuple[int, ...]:
    """Every end-of-sequence id that the generation config declares, else the tokenizer's."""
    path = policy.path / "generation_config.json"
    declared = json.loads(path.read_text()).get("eos_token_id") if path.exists() else None
    if declared is None:
        declared = tokenizer.eos_token_id
    if declared is None:
        raise DataError(
            f"`{policy.path}` declares no end-of-sequence token",
            "set eos_token_id in its generation_config.json",
        )
    return tuple(declared) if isinstance(declared, list) else (declared,)


def quiet() -> None:
    """Turns off transformers' own progress bars and notices."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()


def vocabulary(tokenizer: Any, eos_ids: tuple[int, ...] = ()) -> int:
    """One more than the highest token id that can be decoded or ends a completion."""
    return int(max(0, *tokenizer.get_vocab().values(), *eos_ids)) + 1
