"""JSON over HTTP to a service that may be slow, busy or away, within a limit of time.

What may pass by itself (a lost connection, a time-out, 429, 5xx, also as an error in a body of
status 200) is tried again, after what `Retry-After` says or a time that doubles, with jitter. The
key goes into the header of a request and nowhere else: it is blotted out of what a service says.
"""

import contextlib
import http.client
import json
import os
import random
import re
import ssl
import time
import urllib.parse
import urllib.request
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from rlvr_cli.errors import UsageError
from rlvr_cli.protocols import Status
from rlvr_cli.verification.remote import responses

_PASSING = (408, 409, 424, 425, 429)  # 424: TGI, where its model failed at a request
_NEVER = (501, 505)  # of a server that lacks what is asked for
_FOR_GOOD = ("insufficient_quota", "billing_not_active")  # codes of a 429 that no waiting mends
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 30.0
_SHORTEST_KEY = 6  # characters; `EMPTY` and the like are no secrets
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LOCAL = re.compile(r"localhost|127(\.\d+){3}|::1")


class Failed(Exception):
    """Why a service gave no answer: it is away, busy or refuses every request.

    `may_pass` means that it may answer later, `after_s` is when it wants the next attempt; `kind`
    is the service's own word for what went wrong, if it has one.
    """

    def __init__(
        self,
        reason: str,
        status: Status = "error",
        code: int | None = None,
        *,
        may_pass: bool = False,
        after_s: float | None = None,
        kind: str = "",
    ) -> None:
        super().__init__(reason)
        self.status, self.code, self.kind = status, code, kind
        self.may_pass, self.after_s = may_pass, after_s


class Refused(Failed):
    """Why a service refuses this one request, as of a text that is too long for it."""


class _Passing(Exception):
    """Why a try failed that may succeed a little later."""

    def __init__(
        self,
        reason: str,
        status: Status = "error",
        code: int | None = None,
        after_s: float | None = None,
    ) -> None:
        super().__init__(reason)
        self.status, self.code, self.after_s = status, code, after_s


@dataclass(frozen=True)
class Endpoint:
    """Where a service is (endpoints with the same are equal), its time limits and retries."""

    url: str  # without what follows `/v1`
    key_variable: str  # the environment variable that holds its key, if it needs one
    timeout_s: float = field(compare=False)  # of one request with all its tries
    connect_s: float = field(compare=False)
    retries: int = field(compare=False)

    @property
    def host(self) -> str:
        """Scheme, host and port, as an error names them."""
        return "{0.scheme}://{0.netloc}".format(urllib.parse.urlsplit(self.url))


def endpoint(
    url: str, key_variable: str, *, timeout_s: float, connect_s: float, retries: int
) -> Endpoint:
    """The endpoint of a URL as users write it; UsageError if it is none."""
    parts = urllib.parse.urlsplit(url.strip())
    example = "as in `url=http://localhost:8000/v1`"
    try:
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    if parts.username or parts.password:
        raise UsageError(
            f"the URL of {parts.hostname} holds a password, and specs are stored",
            "leave it out, and put the key into the variable of `key_variable`",
        )
    if not is_url or re.search(r"\s", url.strip()):
        raise UsageError(f"`{url}` is not the URL of a server", example)
    if not _NAME.fullmatch(key_variable):  # it may be the key itself, which no error may show
        raise UsageError(
            "`key_variable` is not the name of an environment variable",
            "name the variable that holds the key, as in `key_variable=OPENAI_API_KEY`",
        )
    path = parts.path.rstrip("/").removesuffix("/completions").removesuffix("/chat")
    return Endpoint(
        parts._replace(path=path, fragment="").geturl(), key_variable, timeout_s, connect_s, retries
    )


class Client:
    """One connection to an endpoint, used by one thread; `used` counts requests and retries."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.used: Counter[str] = Counter()
        self._connection: http.client.HTTPConnection | None = None

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """The JSON that the service answers with; Failed or Refused if there is none."""
        deadline = time.monotonic() + self.endpoint.timeout_s
        tries = 0
        while True:
            self.used["requests"] += 1
            try:
                return self._once(method, path, body, deadline)
            except _Passing as trouble:
                self._close()
                wait = _wait_s(tries, trouble.after_s)
                tries += 1
                if tries > self.endpoint.retries or time.monotonic() + wait > deadline:
                    attempts = f" ({tries} tries)" if tries > 1 else ""
                    raise Failed(
                        f"{trouble}{attempts}", trouble.status, trouble.code,
                        may_pass=True, after_s=trouble.after_s,
                    ) from None  # fmt: skip
                self.used["retries"] += 1
                time.sleep(wait)
            except BaseException:
                self._close()
                raise

    def _once(self, method: str, path: str, body: dict[str, Any] | None, deadline: float) -> Any:
        headers = {"Accept": "application/json", "User-Agent": "rlvr"} | _authorization(
            self.endpoint.key_variable
        )
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            headers["Content-Type"] = "application/json"
        target = self._target(path)
        try:
            connection, is_new = self._open(deadline)
            try:
                connection.request(method, target, data, headers)
                response = connection.getresponse()
            except ConnectionError:
                if is_new:
                    raise
                self._close()  # it ended an idle connection, as it may
                connection, _ = self._open(deadline)
                connection.request(method, target, data, headers)
                response = connection.getresponse()
            content = responses.content(response, connection, deadline)
        except TimeoutError:
            raise _Passing(f"{self.endpoint.host} took too long to answer", "timeout") from None
        except (OSError, http.client.HTTPException) as error:
            raise _Passing(f"{self.endpoint.host}: {responses.why(error)}") from None
        if response.will_close:
            self._close()
        return self._read(response, content)

    def _read(self, response: http.client.HTTPResponse, content: bytes) -> Any:
        """The JSON of a response, or its error."""
        code, words = response.status, response.reason
        if code == 200:
            try:
                answer = json.loads(content.decode(errors="replace"))
            except (ValueError, RecursionError):
                what = responses.other_than_json(response, content)
                raise Failed(f"{self.endpoint.host} {what}", kind=responses.OTHER_FORM) from None
            inner = responses.code_within(answer)
            if inner is None:
                return answer
            code, words = inner, http.client.responses.get(inner, "")
        message, kind = responses.message(self._safe(content))
        reason = f"{self.endpoint.host} answers {code} {words}: {message}".rstrip(": ")
        if _may_pass(code) and kind not in _FOR_GOOD:
            raise _Passing(reason, code=code, after_s=responses.retry_after(response))
        is_of_request = code in (400, 413, 422) or kind == responses.FILTERED
        raise (Refused if is_of_request else Failed)(reason, code=code, kind=kind)

    def _open(self, deadline: float) -> tuple[http.client.HTTPConnection, bool]:
        """The connection, and whether it is new; it may be silent until the deadline."""
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        if self._connection is not None and self._connection.sock is not None:
            self._connection.sock.settimeout(left)
            return self._connection, False
        self._close()
        self._connection = _connection(self.endpoint.url, min(self.endpoint.connect_s, left))
        self._connection.connect()
        self._connection.sock.settimeout(left)
        return self._connection, True

    def _close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.close()
            self._connection = None

    def _target(self, path: str) -> str:
        parts = urllib.parse.urlsplit(self.endpoint.url)
        url = parts._replace(path=parts.path + path)
        through_proxy = parts.scheme == "http" and _proxy(self.endpoint.url)
        return url.geturl() if through_proxy else url._replace(scheme="", netloc="").geturl()

    def _safe(self, content: bytes) -> bytes:
        """What a service says, without the key."""
        key = os.environ.get(self.endpoint.key_variable, "").strip().encode()
        return content.replace(key, b"[the key]") if len(key) >= _SHORTEST_KEY else content


def _may_pass(code: int) -> bool:
    return code in _PASSING or (500 <= code < 600 and code not in _NEVER)


def _authorization(variable: str) -> dict[str, str]:
    key = os.environ.get(variable, "").strip()
    if not key:
        return {}
    if not (key.isascii() and key.isprintable()):
        raise Failed(f"the variable {variable} holds no key: it has signs that no header may have")
    return {"Authorization": f"Bearer {key}"}


def _connection(url: str, timeout_s: float) -> http.client.HTTPConnection:
    """A connection to a URL's host, by way of the environment's proxy if it names one."""
    parts = urllib.parse.urlsplit(url)
    assert parts.hostname
    host, port = parts.hostname, parts.port
    if proxy := _proxy(url):
        via = urllib.parse.urlsplit(proxy if "//" in proxy else f"//{proxy}")
        host, port = via.hostname or "", via.port or 80
    if parts.scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=timeout_s)
    connection = http.client.HTTPSConnection(
        host, port, timeout=timeout_s, context=ssl.create_default_context()
    )
    if proxy:
        connection.set_tunnel(parts.hostname, parts.port or 443)
    return connection


def _proxy(url: str) -> str:
    parts = urllib.parse.urlsplit(url)
    host = parts.hostname or ""
    if _LOCAL.fullmatch(host) or urllib.request.proxy_bypass(host):
        return ""
    return urllib.request.getproxies().get(parts.scheme, "")


def _wait_s(tries: int, after_s: float | None) -> float:
    """Seconds until the next try, so spread that many threads do not come at once."""
    if after_s is not None:
        return after_s + random.uniform(0, min(1.0, after_s) + 0.1)
    return random.uniform(0.5, 1.0) * min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2.0**tries)
