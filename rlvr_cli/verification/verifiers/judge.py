"""Asks a model behind an OpenAI-compatible endpoint to grade a completion by a rubric."""

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rlvr_cli.errors import UsageError, UserError
from rlvr_cli.protocols import Ask, Equality, Remote, Verdict
from rlvr_cli.verification.parsing import grades, rubrics
from rlvr_cli.verification.parsing.grades import NoGrade, Scale, Way
from rlvr_cli.verification.remote import client
from rlvr_cli.verification.remote.client import Client, Endpoint, Failed, Refused

EQUALITY: Equality = "none"  # it extracts nothing
UNDECIDING = ("url", "key_variable", "in_flight", "timeout_s", "connect_s", "retries", "remember")
"""The options that decide no verdict: they may change where a run or a directory resumes."""

_LOGIC = "2"  # raised with each change of what this file, `grades` or `rubrics` decides
_KEPT = 8000  # characters of what a judge says that are stored
_OURS = {"model", "messages", "stream"}  # fields of a request that no option may set
_URL_VARIABLE, _KEY_VARIABLE = "OPENAI_BASE_URL", "OPENAI_API_KEY"


@dataclass(frozen=True)
class _Judge:
    """The requests to a judge, and how its reply is read."""

    endpoint: Endpoint
    request: str  # JSON of the fields of each request but its messages
    template: str
    rubric_column: str
    scale: Scale
    read: Way
    passing: float


def build(
    *,
    model: str = "",
    url: str = "",
    rubric: str = "",
    rubric_column: str = "",
    scale: tuple[float, float] | None = None,
    grades: dict[str, float] | None = None,
    read: Way = "any",
    passing: float = 1.0,
    temperature: float | None = 0.0,
    seed: int | None = 0,
    max_tokens: int | None = 2048,
    body: dict[str, Any] | None = None,
    unfinished: bool = False,
    remember: bool = True,
    key_variable: str = _KEY_VARIABLE,
    in_flight: int = 32,
    timeout_s: float = 300.0,
    connect_s: float = 10.0,
    retries: int = 5,
) -> Remote:
    """The verifier that asks `model` at `url` (or `$OPENAI_BASE_URL`) about each completion.

    `rubric` is `equal` (is the answer the gold?), `score` (0 to 10), a file, or a text with
    `{prompt}`, `{completion}`, `{answer}` and columns of a prompt. `rubric_column` names a column
    of criteria with points, one request for each. A grade of `scale`, by default
    [0,1] and of `score` [0,10], becomes a reward from 0 to 1; from `passing` on the completion is
    correct. `grades={C=1,I=0}` gives words a value in place of yes and no; `read` says how a grade
    is marked: any, label, json, boxed or alone. `body` adds fields to each request, and `none`
    leaves out temperature, seed or max_tokens. A completion that was cut is judged if `unfinished`.

    The key is that of the variable `key_variable`. Each request with its tries takes `timeout_s` at
    most. Verdicts of other runs are reused where the temperature is 0 and `remember` is not false.
    """
    _check(model, url, scale, passing, body, in_flight, min(timeout_s, connect_s), retries)
    name = rubric or ("criterion" if rubric_column else "equal")
    template = rubrics.template(name)
    low, high = scale or ((0.0, 10.0) if name == "score" else (0.0, 1.0))
    request = {"model": model, "temperature": temperature, "max_tokens": max_tokens, "seed": seed}
    fields = {k: v for k, v in request.items() if v is not None} | (body or {})
    judge = _Judge(
        client.endpoint(
            url or os.environ.get(_URL_VARIABLE, ""), key_variable,
            timeout_s=timeout_s, connect_s=connect_s, retries=retries,
        ),
        json.dumps(fields, sort_keys=True), template, rubric_column,
        Scale(low, high, grades or {}), read, passing,
    )  # fmt: skip
    named = [f for f in rubrics.fields(template) if f not in rubrics.RESERVED]
    columns = [*named, *([rubric_column] if rubric_column not in ("", "answer") else [])]
    asks_prompt = ["prompt"] if "prompt" in rubrics.fields(template) else []
    decides = [_LOGIC, judge.request, template, rubric_column, [low, high], grades, read, passing]
    return Remote(
        extract=lambda text, finished: text if (finished or unfinished) and text.strip() else None,
        settle=functools.partial(_settled, judge),
        connect=functools.partial(_connected, judge),
        check=functools.partial(_check_service, judge),
        seconds=lambda answer, extra: timeout_s * max(1, len(_criteria(judge, answer, extra))),
        in_flight=in_flight,
        version=f"judge {json.dumps(decides, sort_keys=True)}",
        host=judge.endpoint.host,
        host_variable=_URL_VARIABLE,
        key_variable="" if key_variable == _KEY_VARIABLE else key_variable,
        reads=(*columns, *asks_prompt),
        columns=tuple(dict.fromkeys(columns)),
        needs_answer="answer" in rubrics.fields(template) or rubric_column == "answer",
        is_pure=remember and temperature == 0,
    )


def inlined(options: dict[str, Any]) -> dict[str, Any]:
    """The options with the rubric's text in place of its file."""
    rubric = options["rubric"]
    if not rubric or rubric in rubrics.NAMED:
        return options
    return options | {"rubric": rubrics.template(rubric)}


def _check(
    model: str,
    url: str,
    scale: tuple[float, float] | None,
    passing: float,
    body: dict[str, Any] | None,
    in_flight: int,
    shortest_s: float,
    retries: int,
) -> None:
    example = "judge:model=NAME,url=http://localhost:8000/v1"
    if not model:
        raise UsageError("`judge` has no model", f"name the one that judges: `{example}`")
    if not url and not os.environ.get(_URL_VARIABLE):
        raise UsageError(
            "`judge` has no URL of a server",
            f"name it, as in `{example}`, or set the variable {_URL_VARIABLE}",
        )
    if scale and not scale[0] < scale[1]:
        raise ValueError("the scale must rise, as in scale=[0,10]")
    if not 0 < passing <= 1:
        raise ValueError("passing must be above 0 and at most 1: it is a share of the scale")
    if in_flight < 1 or shortest_s <= 0 or retries < 0:
        raise ValueError("in_flight, timeout_s and connect_s must be above 0, retries at least 0")
    if fixed := _OURS & {*(body or {})}:
        raise ValueError(f"body cannot set `{min(fixed)}`")
    if (body or {}).get("n", 1) != 1:
        raise ValueError("body cannot set `n`: one reply is read")


def _criteria(judge: _Judge, answer: str, extra: dict[str, Any]) -> list[rubrics.Criterion]:
    """The criteria of a prompt, none where the rubric is one for all; ValueError says why."""
    if not judge.rubric_column:
        return []
    value = answer if judge.rubric_column == "answer" else extra.get(judge.rubric_column)
    return rubrics.criteria(value)


def _settled(
    judge: _Judge, extracted: str | None, answer: str, extra: dict[str, Any]
) -> Verdict | None:
    try:
        _criteria(judge, answer, extra)
    except ValueError as error:
        return Verdict("bad_gold", reason=f"`{judge.rubric_column}` of the prompt: {error}")
    if extracted is None:
        return Verdict("no_answer", 0.0, False, reason="it is empty or was cut at its limit")
    return None


@contextlib.contextmanager
def _connected(judge: _Judge) -> Iterator[Ask]:
    with Client(judge.endpoint) as connection:

        def ask(completion: str, answer: str, extra: dict[str, Any], used: Counter[str]) -> Verdict:
            connection.used = used
            return _verdict(judge, connection, completion, answer, extra)

        yield ask


def _verdict(
    judge: _Judge, connection: Client, completion: str, answer: str, extra: dict[str, Any]
) -> Verdict:
    values = extra | {
        "completion": completion, "answer": answer, "low": f"{judge.scale.low:g}",
        "high": f"{judge.scale.high:g}",
        # What is between two of these cannot hold one, as it would have to hold its own digest.
        "mark": hashlib.sha256(completion.encode(errors="replace")).hexdigest()[:16],
    }  # fmt: skip
    criteria = _criteria(judge, answer, extra)
    replies, met = [], []
    try:
        for criterion in criteria:
            text = rubrics.filled(judge.template, values | {"criterion": criterion.text})
            replies.append(f"{criterion.points:g} points, {criterion.text}\n")
            reply = _reply(judge, connection, text, replies)
            met.append(
                judge.scale.share(grades.read(reply, judge.scale, judge.read)) >= judge.passing
            )
        if criteria:
            reward = rubrics.share(criteria, met)
        else:
            reply = _reply(judge, connection, rubrics.filled(judge.template, values), replies)
            reward = judge.scale.share(grades.read(reply, judge.scale, judge.read))
    except NoGrade as error:
        return Verdict("error", reason=_kept(f"{error}: {''.join(replies)}"))
    correct = reward >= judge.passing
    return Verdict("ok", reward, correct, reason=_kept("".join(replies)))


def _reply(judge: _Judge, connection: Client, text: str, replies: list[str]) -> str:
    """The text of a reply, which is added to `replies`; NoGrade if it is empty or cut off."""
    body = json.loads(judge.request) | {"messages": [{"role": "user", "content": text}]}
    answer = connection.ask("POST", "/chat/completions", body)
    try:
        choice = answer["choices"][0]
        message, reason = choice["message"], choice.get("finish_reason")
        content = message.get("content") or ""
        usage = answer.get("usage") or {}
        for name in ("prompt_tokens", "completion_tokens"):
            connection.used[name] += int(usage.get(name) or 0)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError):
        raise Failed(f"{judge.endpoint.host} answers with no completion of a chat") from None
    if isinstance(content, list):  # content in parts, as some servers send it
        content = "".join(part.get("text", "") for part in content if isinstance(part, dict))
    replies.append(f"{content.strip()}\n" if replies else content.strip())
    if refusal := message.get("refusal"):
        raise NoGrade(f"the judge refuses: {refusal}")
    if reason not in (None, "stop", "eos"):
        raise NoGrade(
            "the judge's reply was cut, raise max_tokens" if reason == "length"
            else f"the judge's reply ended by {reason}"
        )  # fmt: skip
    return str(content)


def _kept(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _KEPT else f"{text[:_KEPT]}... ({len(text)} characters)"


def _check_service(judge: _Judge) -> None:
    """An error if the judge is not available: it is away, refuses the key, or lacks the model.

    Each judge is checked only once in a process.
    """
    _answered(judge.endpoint, judge.request)


@functools.lru_cache(maxsize=64)
def _answered(endpoint: Endpoint, request: str) -> None:
    model, listed = json.loads(request)["model"], []
    once_more = dataclasses.replace(endpoint, retries=min(endpoint.retries, 1))
    with Client(once_more) as connection:
        try:
            listed = _models(connection)
            body = {"messages": [{"role": "user", "content": "Reply with the word yes."}]}
            connection.ask("POST", "/chat/completions", json.loads(request) | body)
        except Refused as error:
            raise UsageError(
                f"the judge `{model}` refuses the request: {error}",
                "change the field that it names: `temperature=none`, `seed=none` and "
                "`max_tokens=none` leave one out, `body={...}` adds some",
            ) from None
        except Failed as error:
            raise _unusable(endpoint, model, error, listed if error.code == 404 else []) from None


def _models(connection: Client) -> list[str]:
    """The models that a service lists; none where it has no list."""
    try:
        data = connection.ask("GET", "/models")
    except Failed as error:
        if error.code in (404, 405) or isinstance(error, Refused):
            return []
        raise
    entries = data.get("data") if isinstance(data, dict) else None
    return [str(e["id"]) for e in entries or [] if isinstance(e, dict) and "id" in e]


def _unusable(endpoint: Endpoint, model: str, error: Failed, listed: list[str]) -> UserError:
    text = f"the judge `{model}` is not available: {error}"
    if error.code in (401, 403):
        variable = endpoint.key_variable
        held = "that key is not accepted" if os.environ.get(variable) else "it is not set"
        return UsageError(
            text, f"its key is that of the variable {variable}, and {held}: `export {variable}=...`"
        )
    if error.code == 404 and listed:
        return UsageError(text, f"it has {', '.join(listed[:5])}: `judge:model={listed[0]}`")
    if error.code == 404:
        return UsageError(text, f"is `{endpoint.url}` its URL? Most end with `/v1`")
    return UserError(text, "start it, or name where it is with `url=`, and run the command again")
