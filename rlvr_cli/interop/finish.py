"""Why a completion ended, in the words that servers and tools write.

Shapes: N completions.
"""

import contextlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from rlvr_cli.errors import DataError

NAMES = (
    *("finish_reason", "finish_reasons", "stop_reason", "stop_reasons", "done_reason"),
    *("finishReason", "stopReason", "meta_info.finish_reason", "is_truncated"),
)
_STOP, _LENGTH, _ABORT = "stop", "length", "abort"
# OpenAI, vLLM and llama.cpp; TGI; Anthropic and Bedrock; Gemini, which writes capitals; Cohere;
# Ollama; the Responses API, whose status it is; inspect_ai; SGLang; DeepSeek; Zhipu.
_WORDS: dict[str, str | None] = {
    **dict.fromkeys(
        ("stop", "eos", "eos_token", "eos_token_id", "end_turn", "end_of_turn", "stop_sequence",
         "stop_token", "stop_str", "stop_string", "complete", "completed", "finished", "endoftext",
         "end_of_text", "end", "done", "word", "false"),  # false: it was not truncated
        _STOP,
    ),
    **dict.fromkeys(
        ("length", "max_tokens", "max_length", "max_new_tokens", "max_output_tokens",
         "max_completion_tokens", "token_limit", "model_length", "context_length", "limit",
         "incomplete", "truncated", "model_context_window_exceeded", "error_limit", "true"),
        _LENGTH,
    ),
    **dict.fromkeys(
        ("abort", "aborted", "cancelled", "canceled", "user_cancel", "error", "failed", "timeout",
         "network_error", "insufficient_system_resource"),
        _ABORT,
    ),
    # What a call or a filter kept from the text is not there to be read, judged or trained on.
    **dict.fromkeys(
        ("tool_calls", "tool_call", "tool_use", "function_call", "pause_turn", "content_filter",
         "content_filtered", "guardrail_intervened", "refusal", "safety", "recitation", "blocklist",
         "prohibited_content", "spii", "language", "malformed_function_call", "sensitive",
         "error_toxic"),
        None,
    ),
    **dict.fromkeys(
        ("", "none", "null", "nan", "unknown", "other", "unspecified", "finish_reason_unspecified",
         "not_finished", "load", "repetition"),
        None,
    ),
}  # fmt: skip


def read(value: Any) -> str | None:
    """`stop`, `length`, `abort`, or None where that is not known; a ValueError for other words.

    A bool says whether the completion was truncated. SGLang's reasons are objects with a `type`.
    """
    if isinstance(value, dict):
        value = value.get("type")
    if value is None or value != value:
        return None
    if isinstance(value, bool):
        return _LENGTH if value else _STOP
    word = str(value).strip().lower().removeprefix("finishreason.")
    word = word.partition(":")[0]  # Gemini's `content_filter: PROHIBITED_CONTENT`
    if word not in _WORDS:
        raise ValueError(str(value))
    return _WORDS[word]


def is_known(value: Any) -> bool:
    """Whether `read` reads a value."""
    try:
        read(value)
    except ValueError:
        return False
    return True


def column(values: Any, name: str, place: Callable[[int], str]) -> pa.Array:
    """The reasons of N completions as text; an error that names the first one that is no reason.

    `place` says in words where the value of an index is.
    """
    if isinstance(values, pa.Array):
        encoded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
        with contextlib.suppress(ValueError):
            words = [read(word) for word in encoded.dictionary.to_pylist()]
            return pa.array(words, pa.large_string()).take(encoded.indices)
        values = values.to_pylist()
    reasons = []
    for at, value in enumerate(values):
        try:
            reasons.append(read(value))
        except ValueError as error:
            raise DataError(
                f"{place(at)} has `{name}` = `{str(error)[:40]}`, "
                "which says neither that it ended nor that it was cut",
                "write stop, length or null, or leave it unknown with --finish-column none",
            ) from error
    return pa.array(reasons, pa.large_string())
