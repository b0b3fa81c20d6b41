"""Requests to OpenAI-compatible servers, and their answers in the shapes of several servers.

vLLM, SGLang        choice: token_ids, prompt_token_ids (`return_token_ids`)
vLLM before 0.10.2  choice.logprobs.tokens as `token_id:N` (`return_tokens_as_token_ids`)
Fireworks, Together choice.logprobs: token_ids, token_logprobs
llama.cpp           choice.logprobs.content: id and logprob of each token
"""

import json
import re
from typing import Any

from rlvr_cli.errors import DataError, UserError
from rlvr_cli.interop import finish
from rlvr_cli.protocols import Completion, Request, SamplingParams
from rlvr_cli.verification.remote import responses
from rlvr_cli.verification.remote.client import Failed, Refused

# What these sample with unless a request says otherwise: a model's generation_config.json, and of
# llama.cpp top_k 40, min_p 0.05 and others.
OWN_DEFAULTS = ("vllm", "sglang", "llamacpp")
_NEUTRAL = {
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "repeat_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}
# Servers that sample with a top_k of their own, and whose chat cannot be told another one.
FIXED_DEFAULTS = {"library": "Ollama", "organization_owner": "LM Studio"}
_TOO_LONG = re.compile(
    r"context|max_model_len|too long|longer than|max_new_tokens|must have less than", re.IGNORECASE
)
_SLACK = 1e-3  # nats that a log-prob may be above 0 by rounding
_LEAST = -1000.0  # nats; what is below stands for a probability of 0, as -9999 does in vLLM


def common(request: Request, sampling: SamplingParams, *, is_neutral: bool) -> dict[str, Any]:
    """The fields of a request that say how to sample."""
    fields: dict[str, Any] = {
        "max_tokens": sampling.max_new_tokens,
        "temperature": sampling.temperature,
        "seed": request.seed,
    }
    if is_neutral:
        fields |= _NEUTRAL
    if is_neutral or sampling.top_p < 1:
        fields["top_p"] = sampling.top_p
    if is_neutral or sampling.top_k:
        fields["top_k"] = sampling.top_k or -1
    if sampling.stop:
        fields["stop"] = list(sampling.stop)
    return fields


def of_tokens(eos_ids: list[int]) -> dict[str, Any]:
    """The fields of a request for token ids and their log-probs."""
    return {
        "logprobs": 1,
        "return_token_ids": True,
        "return_tokens_as_token_ids": True,
        "add_special_tokens": False,
        "skip_special_tokens": False,
        "stop_token_ids": eos_ids,
    }


def is_too_long(error: Refused) -> bool:
    """Whether a server has no room for a prompt and its completion."""
    return bool(_TOO_LONG.search(str(error)))


def is_other_model(answer: Any, requested: str) -> bool:
    """Whether an answer names another model than was asked for, as a proxy may take one.

    A name with a date, a folder or a tag more, or less, is the same one.
    """
    named = answer.get("model") if isinstance(answer, dict) else None
    if not isinstance(named, str) or not named:
        return False
    one, other = named.casefold(), requested.casefold()
    return one not in other and other not in one


def choice(answer: Any, host: str) -> dict[str, Any]:
    """The one completion of an answer."""
    choices = answer.get("choices") if isinstance(answer, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        shown = json.dumps(answer)[:200]
        raise Failed(f"{host} answers with no completion: {shown}", kind=responses.OTHER_FORM)
    first: dict[str, Any] = choices[0]
    return first


def reason(choice: dict[str, Any], host: str) -> str | None:
    """Why a completion ended; None where that is not known, as after a content filter."""
    try:
        why = finish.read(choice.get("finish_reason"))
    except ValueError as error:
        raise UserError(
            f"{host} ends a completion with the finish_reason `{error}`, which is not known here",
            "stop, length and the like are read; ask for it in an issue",
        ) from None
    if why == "abort":  # it was paused, or is going down: nothing of this is a completion
        fault = choice.get("error")
        fault_text = fault.get("message") if isinstance(fault, dict) else fault
        raise Failed(
            f"{host} aborted a request{f': {fault_text}' if fault_text else ''}", may_pass=True
        )
    return why


def sampled(answer: Any, request: Request, host: str) -> tuple[Completion, str]:
    """The tokens of a completion with their log-probs, and its text; an error of other shapes."""
    first = choice(answer, host)
    _check_prompt(answer, first, request, host)
    why = reason(first, host)
    logprobs = first["logprobs"] if isinstance(first.get("logprobs"), dict) else {}
    content = [entry for entry in logprobs.get("content") or [] if isinstance(entry, dict)]
    logps = logprobs.get("token_logprobs") or [entry.get("logprob") for entry in content]
    token_ids = first.get("token_ids") or _listed_ids(logprobs, content)
    if not token_ids and first.get("text"):
        raise _lacking("token ids", host)
    if not logps and token_ids:
        raise _lacking("log-probs", host)
    if len(token_ids) != len(logps):
        raise DataError(
            f"{host} gives {len(logps)} log-probs for {len(token_ids)} token ids", _AS_TEXT
        )
    if strange := [token for token in token_ids if type(token) is not int]:
        raise DataError(f"{host} gives `{strange[0]}` as a token id", _AS_TEXT)
    wrong = [logp for logp in logps if not _is_logp(logp)]
    if wrong:
        raise DataError(
            f"{host} gives a log-prob of {wrong[0]}", "the weights that it has may be damaged"
        )
    if why is None:
        ended_by = first.get("finish_reason")
        raise DataError(f"{host} ended a completion by `{ended_by}`", _AS_TEXT)
    text = str(first.get("text") or "")
    return Completion(list(token_ids), [float(p) for p in logps], why), text  # type: ignore[arg-type]


_AS_TEXT = (
    "to evaluate what it says, name its model in place of --model, as in "
    "`--engine openai:url=...,model=NAME`"
)


def _lacking(what: str, host: str) -> DataError:
    return DataError(
        f"{host} gives no {what}, and with --model each completion must have them", _AS_TEXT
    )


def _check_prompt(answer: Any, first: dict[str, Any], request: Request, host: str) -> None:
    """An error if the server sampled from other tokens than it was sent."""
    seen = first.get("prompt_token_ids") or answer.get("prompt_token_ids")
    usage = answer.get("usage")
    count = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    sent = request.prompt_token_ids
    if (seen and list(seen) != sent) or (count and not seen and count != len(sent)):
        raise DataError(
            f"{host} was sent {len(sent)} prompt tokens and sampled from "
            f"{len(seen) if seen else count}, others than these",
            _AS_TEXT,
        )


def _listed_ids(logprobs: dict[str, Any], content: list[dict[str, Any]]) -> list[int]:
    """The ids next to the log-probs; none where there are only texts of tokens."""
    if isinstance(logprobs.get("token_ids"), list):
        return list(logprobs["token_ids"])
    if content and all("id" in entry for entry in content):
        return [entry["id"] for entry in content]
    tokens = [*(logprobs.get("tokens") or []), *(entry.get("token") for entry in content)]
    numbers = [str(token).removeprefix("token_id:") for token in tokens]
    is_id = all(str(t).startswith("token_id:") for t in tokens) and all(map(str.isdecimal, numbers))
    return [int(number) for number in numbers] if is_id else []


def _is_logp(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and _LEAST < value <= _SLACK


def spoken(answer: Any, sampling: SamplingParams, host: str) -> Completion:
    """A completion as text: with what the model thought, and the stop string that ended it.

    Why it ended is unknown after words that are not known here, and after a filter, which may leave
    no text.
    """
    first = choice(answer, host)
    why = reason(first, host) if finish.is_known(first.get("finish_reason")) else None
    message = first.get("message")
    text = _text_of(message, why) if isinstance(message, dict) else first.get("text")
    if message is text is None and why is None and first.get("finish_reason"):
        text = ""
    if not isinstance(text, str):
        shown = json.dumps(first)[:200]
        raise Failed(f"{host} answers with no text: {shown}", kind=responses.OTHER_FORM)
    if isinstance(message, dict) and message.get("tool_calls"):
        why = None  # a call is no text that is complete
    ended_by = first.get("stop_reason") or first.get("matched_stop")
    if ended_by in sampling.stop and not text.endswith(ended_by):
        text += ended_by
    return Completion([], [], why, text=_whole(text))  # type: ignore[arg-type]


def filtered() -> Completion:
    """What a prompt gets that a service refuses to answer: no text, and an end that is unknown."""
    return Completion([], [], None, text="")


def _whole(text: str) -> str:
    """A text whose halves of a character, cut between two tokens, are joined or broken ones."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _text_of(message: dict[str, Any], why: str | None) -> str | None:
    """The text of a message, None if it has another form.

    A refusal is a text too, thoughts are in <think> before it.
    """
    content, thoughts = message.get("content"), None
    if isinstance(content, list):
        thoughts = _joined([part for part in content if _is_thought(part)])
        content = _joined([part for part in content if not _is_thought(part)])
    if content is None or content == "":
        content = message.get("refusal") or ""
    if not isinstance(content, str):
        return None
    thoughts = thoughts or message.get("reasoning_content") or message.get("reasoning")
    if not isinstance(thoughts, str) or not thoughts.strip():
        return content
    if not content and why != "stop":
        return f"<think>\n{thoughts}"
    return f"<think>\n{thoughts}\n</think>\n\n{content}"


def _is_thought(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") in ("thinking", "reasoning")


def _joined(part: Any) -> str:
    """The text of a part of a content, which may consist of parts, as Mistral's thoughts do."""
    if isinstance(part, str):
        return part
    if isinstance(part, list):
        return "".join(map(_joined, part))
    if not isinstance(part, dict):
        return ""
    return _joined(part.get("text") or part.get("thinking") or part.get("refusal"))
