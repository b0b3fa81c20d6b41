"""What a service's response holds: its body in time, and what an error of it says."""

import contextlib
import email.utils
import http.client
import json
import math
import re
import socket
import ssl
import time

_LARGEST = 16 << 20  # bytes of a response
_SHOWN = 300  # characters of what a service says
FILTERED = "content_filter"  # the kind of a refusal of what a prompt is about
OTHER_FORM = "other_form"  # the kind of an answer that is read as nothing


def content(
    response: http.client.HTTPResponse, connection: http.client.HTTPConnection, deadline: float
) -> bytes:
    """The body of a response; TimeoutError where it is not there in time, however it trickles."""
    pieces: list[bytes] = []
    size = 0
    while size <= _LARGEST:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        if connection.sock is not None:
            connection.sock.settimeout(left)
        piece = response.read1(1 << 16)
        if not piece:
            if response.length:
                raise http.client.IncompleteRead(b"", response.length)
            response.close()  # so that the connection takes the next request
            return b"".join(pieces)
        pieces.append(piece)
        size += len(piece)
    raise http.client.HTTPException(f"an answer of more than {_LARGEST >> 20} MiB")


def retry_after(response: http.client.HTTPResponse) -> float | None:
    """Seconds that a service asks to wait: a number or a date."""
    text = (response.getheader("Retry-After") or "").strip()
    with contextlib.suppress(ValueError):
        return max(0.0, float(text)) if math.isfinite(float(text)) else None
    try:
        date = email.utils.parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None
    return max(0.0, date.timestamp() - time.time())


def code_within(answer: object) -> int | None:
    """The code of the error that an answer of status 200 is, as OpenRouter's; None if it is none.

    An error that comes without a code of HTTP is one of the server: 500.
    """
    if not isinstance(answer, dict) or not answer.get("error") or answer.get("choices"):
        return None
    error = answer["error"]
    code = str(error.get("code") if isinstance(error, dict) else "")
    return int(code) if re.fullmatch(r"[45]\d\d", code) else 500


def other_than_json(response: http.client.HTTPResponse, body: bytes) -> str:
    """What an answer that is no JSON is, in the words that follow the server's name."""
    kind = (response.getheader("Content-Type") or "").lower()
    start = body[:200].lstrip().lower()
    if "event-stream" in kind or "ndjson" in kind or start.startswith((b"data:", b"event:")):
        return "streams its answer: something else than JSON"
    if "html" in kind or start.startswith((b"<!doctype", b"<html")):
        return "answers with a page: something else than JSON"
    return "answers with something else than JSON"


def message(body: bytes) -> tuple[str, str]:
    """What the body of an error says, and its kind; both may be empty.

    The kind is FILTERED where it is the topic of a prompt that is refused: Azure says so by a code,
    OpenRouter by naming reasons.
    """
    text = body.decode(errors="replace")
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return _shown(re.sub(r"<[^>]*>", " ", text)), ""
    error = parsed.get("error", parsed) if isinstance(parsed, dict) else parsed
    if not isinstance(error, dict):
        return _shown(str(error)), ""
    detail = error.get("message") or error.get("detail") or error.get("error") or ""
    metadata = error.get("metadata")
    is_filtered = isinstance(metadata, dict) and bool(metadata.get("reasons"))
    return _shown(str(detail)), FILTERED if is_filtered else str(error.get("code") or "")


def _shown(text: str) -> str:
    line = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(line.split())[:_SHOWN]


def why(error: Exception) -> str:
    if isinstance(error, socket.gaierror):
        return "there is no such host"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, http.client.RemoteDisconnected | http.client.IncompleteRead):
        return "it ended the connection before its answer"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"{type(error).__name__}: {_shown(str(error))}".rstrip(": ")
