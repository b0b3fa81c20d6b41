"""Images in requests to servers: data URLs in messages, base64 next to token ids."""

import base64
from typing import Any

from rlvr_cli.engines.rollout._openai_pool import Server
from rlvr_cli.engines.serving import names
from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.protocols import Request

_BEGINNINGS = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"RIFF": "image/webp"}


def messages(request: Request) -> Any:
    """The turns of a chat as servers take them, each image as a data URL."""
    if not request.images or isinstance(request.asked, str):
        return request.asked
    images = iter(request.images)

    def sent(part: dict[str, Any]) -> dict[str, Any]:
        if part["type"] != "image":
            return part
        return {"type": "image_url", "image_url": {"url": _data_url(next(images))}}

    return [
        turn | {"content": list(map(sent, turn["content"]))}
        if isinstance(turn["content"], list)
        else turn
        for turn in request.asked or ()
    ]


def beside_tokens(request: Request, server: Server) -> tuple[str, dict[str, Any]]:
    """Where token ids are sent, and the field of their images; an error where there is none."""
    if not request.images:
        return "/completions", {}
    if not names.is_of_serve(server.model):
        raise UsageError(
            f"{server.endpoint.host} is sent token ids, with which it takes no images",
            "start a server with `rlvr serve`, which does, or leave --model out: messages hold "
            "images, and completions come as text, to be evaluated",
        )
    images = [base64.b64encode(data).decode() for data in request.images]
    return names.COMPLETIONS, {"images": images}


def _data_url(data: bytes) -> str:
    kind = next((kind for begin, kind in _BEGINNINGS.items() if data.startswith(begin)), None)
    if kind is None:
        raise DataError(
            f"an image of {len(data)} bytes is neither PNG, JPEG nor WebP",
            "make the prompts again with `rlvr prompts`",
        )
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
