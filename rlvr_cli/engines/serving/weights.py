"""Middleware with which a vLLM server loads other weights of its policy's architecture.

    POST /v1/rlvr/policy {"path": DIR, "digest": SHA256}    {"model": "rlvr-SHA256"}

The server names its policy by the digest of its files. Requests use that name, so they are never
answered by another policy: before new weights are loaded, the server drops the old name and
finishes the requests in flight.
"""

import asyncio
import dataclasses
import inspect
import json
import os
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

from rlvr_cli.engines.serving import images, names
from rlvr_cli.errors import DataError, UserError, first_line
from rlvr_cli.models import policy as policies, pretrained
from rlvr_cli.models.policy import Policy

DECODABLE = "RLVR_SERVED_VOCABULARY"  # variables that `rlvr serve` sets for its servers
PLACEHOLDERS = "RLVR_SERVED_PLACEHOLDERS"  # ids of images, with commas between
STARTED_WITH = "RLVR_SERVED_POLICY"
_KEY = "VLLM_API_KEY"
_LOADING = "rlvr-loading"
_VARIES = ("dtype", "torch_dtype", "transformers_version", "_name_or_path", "use_cache")

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]


class Weights:
    """An ASGI application around vLLM's own."""

    def __init__(self, app: App) -> None:
        self._app, self._lock, self._is_ready = app, asyncio.Lock(), False

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        state = scope["app"].state
        async with self._lock:
            if not self._is_ready:  # the first request is that of `rlvr serve`
                await state.engine_client.collective_rpc("mask", args=_unsampled())
                self._is_ready = True
        ours = {f"/v1{names.PATH}": self._load, f"/v1{names.COMPLETIONS}": images.complete}
        if scope["path"] not in ours or scope["method"] != "POST":
            return await self._app(scope, receive, send)
        if not _may(scope):
            return await _answer(send, 401, {"error": "Unauthorized"})
        try:
            content = await ours[scope["path"]](state, await _body(receive))
        except UserError as error:
            return await _answer(send, 400, {"error": {"message": str(error)}})
        await _answer(send, 200, content)

    async def _load(self, state: Any, body: Any) -> dict[str, Any]:
        policy = _requested_policy(body)
        async with self._lock:
            await _take(state, policy)
        return {"model": names.of(policy.digest)}


def _unsampled() -> tuple[int, list[int]]:
    """Where the ids that pad the output head begin, and the placeholders of images."""
    places = filter(None, os.environ.get(PLACEHOLDERS, "").split(","))
    return int(os.environ[DECODABLE]), [int(place) for place in places]


def _may(scope: dict[str, Any]) -> bool:
    """Whether a request has the key, which vLLM itself asks of others."""
    key = os.environ.get(_KEY, "")
    sent = dict(scope["headers"]).get(b"authorization", b"")
    return not key or secrets.compare_digest(sent, f"Bearer {key}".encode())


async def _body(receive: Receive) -> Any:
    content, more = b"", True
    while more:
        message = await receive()
        content += message.get("body", b"")
        more = message.get("more_body", False)
    try:
        return json.loads(content)
    except ValueError:
        raise DataError("the request is not JSON", "send path and digest") from None


def _requested_policy(body: Any) -> Policy:
    """The policy of a request; an error if it is not there, or cannot take the place of the first.

    Only weights are loaded: all else must be as it was.
    """
    if not isinstance(body, dict) or {"path", "digest"} - body.keys():
        raise DataError("the request names no policy", "send path and digest")
    policy = policies.resolve(str(body["path"]))
    if policy.base:
        raise DataError(f"`{policy.path}` holds adapters", "send a complete model")
    if policy.digest != body["digest"]:
        raise DataError(
            f"`{policy.path}` has the digest {policy.digest}, not {body['digest']}",
            "send the one that it has now",
        )
    shapes = [_shape(Policy(path, str(path))) for path in
              (policy.path, policies.resolve(os.environ[STARTED_WITH]).path)]  # fmt: skip
    if differing := [name for name in {**shapes[0], **shapes[1]}
                     if shapes[0].get(name) != shapes[1].get(name)]:  # fmt: skip
        raise DataError(
            f"`{policy.path}` has another `{differing[0]}` than what the server was started with",
            "start another server for it",
        )
    return policy


def _shape(policy: Policy) -> dict[str, Any]:
    """What a model's configuration says, without what says nothing of its weights' shapes."""
    config: dict[str, Any] = pretrained.config(policy.path).to_dict()
    return {name: value for name, value in config.items() if name not in _VARIES}


async def _take(state: Any, policy: Policy) -> None:
    """Loads a policy between two requests; an error leaves the server without any."""
    engine, served = state.engine_client, state.openai_serving_models.base_model_paths
    if served[0].name == names.of(policy.digest):
        return
    path = str(policy.path)
    served[:] = [dataclasses.replace(served[0], name=_LOADING)]
    await _pause(engine)
    try:
        await engine.collective_rpc("take_policy", args=(path,))
        await engine.reset_prefix_cache()
        if os.environ.get(PLACEHOLDERS):
            await engine.reset_encoder_cache()
    except Exception as error:  # of a worker, which may raise anything
        raise DataError(f"`{path}` cannot be loaded: {first_line(error)}", "send another") from None
    else:
        name = names.of(policy.digest)
        served[:] = [dataclasses.replace(served[0], name=name, model_path=path)]
    finally:
        await engine.resume_generation()


async def _pause(engine: Any) -> None:
    """Finishes what is in flight, and begins no more; vLLM has said so in two ways."""
    if "mode" in inspect.signature(engine.pause_generation).parameters:
        await engine.pause_generation(mode="wait")
    else:
        await engine.pause_generation(wait_for_inflight_requests=True)


async def _answer(send: Send, status: int, content: dict[str, Any]) -> None:
    data = json.dumps(content).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(data))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": data})
