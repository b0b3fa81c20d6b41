"""OpenAI-compatible servers: vLLM, SGLang, llama.cpp, hosted models; several share the work."""

import contextlib
import functools
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from rlvr_cli.engines.rollout import (
    _openai_answers as answers,
    _openai_check as checks,
    _openai_images as images,
)
from rlvr_cli.engines.rollout._openai_pool import Pool, Server, all_out
from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.models import stops, tokenizers
from rlvr_cli.models.policy import Policy
from rlvr_cli.protocols import Completion, Request, SamplingParams
from rlvr_cli.terminal import console, plural
from rlvr_cli.verification.remote import client, responses
from rlvr_cli.verification.remote.client import Client, Endpoint, Failed, Refused

UNDECIDING = (
    "url", "model", "key_variable", "in_flight", "timeout_s", "connect_s", "retries", "check",
    "load",
)  # fmt: skip
"""The options that decide no completion: they may change where a directory resumes."""

Api = Literal["auto", "chat", "completions"]
_OURS = {"model", "messages", "prompt", "stream", "n", "logprobs", "seed", "stop"}
_URL_VARIABLE, _KEY_VARIABLE = "OPENAI_BASE_URL", "OPENAI_API_KEY"


def build(
    *,
    url: str | list[str] = "",
    model: str = "",
    api: Api = "auto",
    body: dict[str, Any] | None = None,
    load: bool = False,
    check: bool = True,
    key_variable: str = _KEY_VARIABLE,
    in_flight: int = 64,
    timeout_s: float = 3600.0,
    connect_s: float = 10.0,
    retries: int = 8,
) -> Callable[..., "OpenAIEngine"]:
    """An engine that asks the servers at `url`, which may be given several times.

    With `--model DIR` a server is sent token ids and returns token ids with their log-probs, and
    `model` is what it calls that policy, if that cannot be guessed. Without `--model` the policy is
    what the server calls `model`: it is sent messages or text and returns text, which can be scored
    and evaluated but not trained on. Questions go to its chat `api`, raw text to completions.

    `check` compares the log-probs of a few completions with those of the policy in DIR, unless the
    server is one of `rlvr serve`, which says which policy it has; with `load` such a server takes
    the policy first. `body` adds fields to each request, and leaves out those that it sets to none.
    `in_flight` requests at a time go to each server, each takes `timeout_s` at most, and a server
    that fails `retries` times in a row is left out. The key is that of the variable `key_variable`.
    """
    urls = [url] if isinstance(url, str) else url
    if not any(urls):
        urls = [os.environ.get(_URL_VARIABLE, "")]
    if not all(urls):
        raise UsageError(
            "`openai` has no URL of a server",
            "name it, as in `--engine openai:url=http://localhost:8000/v1`",
        )
    if in_flight < 1 or timeout_s <= 0 or connect_s <= 0 or retries < 0:
        raise ValueError("in_flight, timeout_s and connect_s must be above 0, retries at least 0")
    if fixed := _OURS & {name for name, value in (body or {}).items() if value is not None}:
        raise ValueError(f"body cannot set `{min(fixed)}`")
    endpoints = [
        client.endpoint(one, key_variable, timeout_s=timeout_s, connect_s=connect_s, retries=0)
        for one in urls
    ]
    return functools.partial(
        _start, [*dict.fromkeys(endpoints)], in_flight, retries, model=model, api=api,
        body=body or {}, load=load, check=check,
    )  # fmt: skip


def _start(
    endpoints: list[Endpoint],
    in_flight: int,
    retries: int,
    policy: Policy,
    loaded: object = None,
    lora_rank: int = 0,
    **options: Any,
) -> "OpenAIEngine":
    if loaded is not None:
        refuse_training()
    pool = Pool([Server(one) for one in endpoints], in_flight=in_flight, retries=retries)
    return OpenAIEngine(policy, pool, **options)


def refuse_training() -> None:
    """The error of a run that would sample from servers, whose weights it cannot sync."""
    raise UsageError(
        "--engine openai samples from servers, and `train` from the weights that it trains",
        "train with --engine vllm, graph or transformers, or take what `rlvr rollout "
        "--engine openai:...` makes through score, advantage and train-step",
    )


class OpenAIEngine:
    """A policy at servers: one whose files are here, or one that only they have."""

    supports_continuous_batching = True
    needs_weight_sync = False

    def __init__(
        self,
        policy: Policy,
        pool: Pool,
        *,
        model: str,
        api: Api,
        body: dict[str, Any],
        load: bool,
        check: bool,
    ) -> None:
        self._policy, self._pool, self._api, self._body = policy, pool, api, body
        if policy.is_served:
            model = model or policy.name
        elif api == "chat":
            raise UsageError(
                "api=chat sends messages, and with --model a server is sent token ids",
                f"leave --model out, and name what the server calls it: `model={policy.path.name}`",
            )
        else:
            self._tokenizer = tokenizers.load(policy)
            self._eos_ids = list(tokenizers.end_ids(policy, self._tokenizer))
            self._vocabulary = tokenizers.vocabulary(self._tokenizer, tuple(self._eos_ids))
        unproven = self._meet(model, load)
        self._unverified = unproven if check else []

    def _meet(self, model: str, load: bool) -> list[Server]:
        """Learns what each server calls the policy; those that cannot prove that it is that."""
        unproven = []
        for server in self._pool.servers:
            try:
                is_proven = checks.meet(
                    server, self._policy, model, load=load, retries=self._pool.retries
                )
            except Failed as error:
                server.failed(error, most=0)
                continue
            if not is_proven and not self._policy.is_served:
                unproven.append(server)
        if not self._pool.servers:
            raise all_out(self._pool.all)
        for server in self._pool.all:
            if server.is_out:
                console.say(f"rollout: {server.trouble}; it is left out")
        return unproven

    def generate(
        self, requests: list[Request], sampling: SamplingParams
    ) -> Iterator[tuple[int, Completion]]:
        ask = self._asks(requests, sampling)
        self._verify(requests, sampling)
        unknown, drawn = 0, defaultdict[str, list[str]](list)
        for index, completion in self._pool.run(len(requests), ask):
            unknown += completion.finish_reason is None
            request = requests[index]
            sample = f"{completion.token_ids} {completion.text}"
            drawn[f"{request.prompt_token_ids} {request.asked}"].append(sample)
            yield index, completion
        groups = [group for group in drawn.values() if len(group) > 1]
        if sampling.temperature and len(groups) > 1 and all(len(set(g)) == 1 for g in groups):
            console.say(
                "rollout: warning: the completions of each prompt are equal, at temperature "
                f"{sampling.temperature:g}: does the server sample, and take a seed?"
            )
        if unknown:
            console.say(
                f"rollout: {unknown} completions do not say whether they ended or were cut, as "
                "after a content filter or a tool call"
            )

    def _asks(
        self, requests: Sequence[Request], sampling: SamplingParams
    ) -> Callable[[Client, Server, int], Completion]:
        """What asks a server for the completion of one of the requests."""
        stop = None
        if not self._policy.is_served:
            stop = stops.StopStrings(self._tokenizer, sampling.stop)

        def ask(connection: Client, server: Server, index: int) -> Completion:
            request = requests[index]
            try:
                if stop is None:
                    return self._speak(connection, server, request, sampling)
                return self._sample(connection, server, request, sampling, stop)
            except Refused as error:
                if error.kind == responses.FILTERED and stop is None:
                    return answers.filtered()
                if not answers.is_too_long(error):
                    raise
                return Completion([], [], "abort", too_long=str(error))

        return ask

    def _fields(
        self, server: Server, request: Request, sampling: SamplingParams, **more: Any
    ) -> dict[str, Any]:
        is_neutral = server.is_neutral or not self._policy.is_served
        fields = answers.common(request, sampling, is_neutral=is_neutral) | more
        fields |= {"model": server.model} | self._body
        return {name: value for name, value in fields.items() if value is not None}

    def _speak(
        self, connection: Client, server: Server, request: Request, sampling: SamplingParams
    ) -> Completion:
        """A completion as text, of a policy that only the server has."""
        prompt, path = images.messages(request), "/chat/completions"
        more: dict[str, Any] = {"messages": prompt}
        if isinstance(prompt, str) and self._api != "chat":
            path, more = "/completions", {"prompt": prompt}
        elif self._api == "completions":
            raise UsageError(
                "api=completions continues text, and a prompt is a chat",
                "leave api=completions out, or send plain questions as they are with --no-chat",
            )
        elif isinstance(prompt, str):
            more = {"messages": [{"role": "user", "content": prompt}]}
        answer = connection.ask("POST", path, self._fields(server, request, sampling, **more))
        _note_model(server, answer)
        return answers.spoken(answer, sampling, server.endpoint.host)

    def _sample(
        self,
        connection: Client,
        server: Server,
        request: Request,
        sampling: SamplingParams,
        stop: stops.StopStrings,
    ) -> Completion:
        """A completion with its token ids, of a policy whose tokenizer is here."""
        host = server.endpoint.host
        prompt = {"prompt": request.prompt_token_ids, **answers.of_tokens(self._eos_ids)}
        path, image_fields = images.beside_tokens(request, server)
        fields = self._fields(server, request, sampling, **prompt, **image_fields)
        answer = connection.ask("POST", path, fields)
        _note_model(server, answer)
        completion, text = answers.sampled(answer, request, host)
        self._check_ids(completion.token_ids, text, host)
        completion = stop.cut(completion)
        token_ids, size = completion.token_ids, len(completion.token_ids)
        if completion.finish_reason == "length" and size < sampling.max_new_tokens:
            raise DataError(
                f"{host} cuts completions at {plural.of(size, 'token')}, and --max-new-tokens is "
                f"{sampling.max_new_tokens}",
                "give the server a longer context, or sample fewer tokens",
            )
        is_end = bool(token_ids) and (token_ids[-1] in self._eos_ids or stop.completes(token_ids))
        if completion.finish_reason == "stop" and not is_end:
            raise DataError(
                f"{host} ended a completion by token {token_ids[-1] if token_ids else 'none'}, "
                f"which does not end one of `{self._policy.name}`",
                "its end-of-sequence ids are those of its generation_config.json: fix that, or "
                "start the server without further ones",
            )
        return completion

    def _check_ids(self, token_ids: list[int], text: str, host: str) -> None:
        """An error if ids are not the policy's, or decode to another text than the server's."""
        strange = [token for token in token_ids if not 0 <= token < self._vocabulary]
        expected = checks.letters(text)
        is_same = any(self._is_decoded(token_ids, expected, skips) for skips in (False, True))
        if strange or not is_same:
            what = f"the token id {strange[0]}" if strange else f"ids of other text than `{text}`"
            raise DataError(
                f"{host} gives {what}: it has another tokenizer than `{self._policy.name}`",
                "name the policy that the server has with --model",
            )

    def _is_decoded(self, token_ids: list[int], expected: str, skips: bool) -> bool:
        """Whether a server may write ids so; llama.cpp `skips` special tokens wherever they are."""
        text = self._tokenizer.decode(token_ids, skip_special_tokens=skips)
        decoded = checks.letters(text)
        return decoded.startswith(expected) or expected.startswith(decoded)

    def _verify(self, requests: Sequence[Request], sampling: SamplingParams) -> None:
        """Compares the log-probs of servers that cannot say which policy they have, once."""
        servers, self._unverified = self._unverified, []
        servers = [server for server in servers if not server.is_out]
        if not servers or not requests:
            return
        few = checks.few(requests, sampling)
        ask, drawn = self._asks(few.requests, few.sampling), {}
        for server in servers:
            with Client(server.endpoint) as connection, contextlib.suppress(Failed):
                drawn[server.endpoint.host] = [
                    ask(connection, server, index) for index in range(len(few.requests))
                ]
        checks.compare(self._policy, few, drawn)


def _note_model(server: Server, answer: Any) -> None:
    """Says once that a server answers with another model than it was asked for."""
    if not server.answers_as and answers.is_other_model(answer, server.model):
        server.answers_as = answer["model"]
        console.say(
            f"rollout: warning: {server.endpoint.host} was asked for `{server.model}` and says "
            f"that `{server.answers_as}` answers"
        )
