"""Sends requests to several servers at once: a free server takes the next one.

A server that is busy or away rests, for as long as it asks or a time that doubles, and what it did
not answer goes back for the others to take. One that fails too often in a row is left out; an error
once none is left.
"""

import queue
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TypeVar

from rlvr_cli.engines.serving import names
from rlvr_cli.errors import UserError
from rlvr_cli.terminal import console, plural
from rlvr_cli.verification.remote import responses
from rlvr_cli.verification.remote.client import Client, Endpoint, Failed, Refused

T = TypeVar("T")
BUSY = (429, 503, 529)  # of the server, whatever the request
_FIRST_REST_S, _LONGEST_REST_S = 0.5, 30.0
_REPORTED_S = 60.0  # a longer rest, which a server asks for, is reported


class Server:
    """One server, and how it fares."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.model = ""  # what it calls the policy
        self.is_neutral = False  # whether it has sampling options of its own, to be switched off
        self.listed: list[str] = []  # the models that it says it has
        self.answers_as = ""  # another model's name, if it answered with one
        self.failures, self.rests_until = 0, 0.0
        self.trouble, self.kind = "", ""  # of its last failure
        self.code: int | None = None
        self.is_out = False

    def failed(self, error: Failed, most: int) -> None:
        """Rests, or is out; requests that fail while it rests are of the same failure."""
        now = time.monotonic()
        self.trouble, self.code, self.kind = str(error), error.code, error.kind
        if not error.may_pass:
            self.is_out = True
        elif now >= self.rests_until:
            self.failures += 1
            self.is_out = self.failures > most
            rest = self._rest_s(error.after_s)
            self.rests_until = now + rest
            if rest > _REPORTED_S and not self.is_out:
                console.say(
                    f"rollout: {error}; the next request follows in {rest:.0f} s, as it asks; "
                    "finished completions are kept if you end this command"
                )

    def _rest_s(self, after_s: float | None) -> float:
        """Seconds to rest: as the server asks, but never so short that each request is a failure.

        A date in the past, as of another clock, asks for none.
        """
        doubled = _FIRST_REST_S * 2.0 ** (self.failures - 1 if after_s is None else 0)
        return max(random.uniform(0.5, 1.0) * min(_LONGEST_REST_S, doubled), after_s or 0.0)


class Pool:
    """Servers that share requests: at most `in_flight` each, and `retries` failures in a row."""

    def __init__(self, servers: list[Server], *, in_flight: int, retries: int) -> None:
        self.all, self._in_flight, self.retries = servers, in_flight, retries

    @property
    def servers(self) -> list[Server]:
        """Those that are not out."""
        return [server for server in self.all if not server.is_out]

    def run(self, count: int, ask: Callable[[Client, Server, int], T]) -> Iterator[tuple[int, T]]:
        """What `ask` returns for each of `count` requests, with its number, as they come.

        `ask` raises Failed where the server gave no answer that it can use; any other error ends
        all.
        """
        work = _Work(count, self.retries)
        for server in self.servers:
            for _ in range(min(self._in_flight, count)):
                words = (self.all, server, ask, work)
                threading.Thread(target=_serve, args=words, daemon=True).start()
        try:
            for _ in range(count):
                outcome = work.done.get()
                if isinstance(outcome, BaseException):
                    raise outcome
                yield outcome
        finally:
            work.end()


class _Work:
    """Requests that are to be sent, each with how often it failed, and what came of the others."""

    def __init__(self, count: int, retries: int) -> None:
        self.retries = retries
        self.waiting = deque((index, 0) for index in range(count))
        self.left = count
        self.changed = threading.Condition()
        self.done: queue.SimpleQueue = queue.SimpleQueue()  # type: ignore[type-arg]

    def take(self, server: Server) -> tuple[int, int] | None:
        """The next request for a server, once it may take one; None when nothing is left."""
        with self.changed:
            while self.left and not server.is_out:
                rest = server.rests_until - time.monotonic()
                if rest <= 0 and self.waiting:
                    return self.waiting.popleft()
                self.changed.wait(rest if rest > 0 else None)
            return None

    def end(self) -> None:
        with self.changed:
            self.left = 0
            self.changed.notify_all()


def _serve(
    servers: list[Server],
    server: Server,
    ask: Callable[[Client, Server, int], T],
    work: _Work,
) -> None:
    """Asks one server one request after the other, over one connection."""
    with Client(server.endpoint) as client:
        while (taken := work.take(server)) is not None:
            index, tries = taken
            try:
                outcome = ask(client, server, index)
            except Refused as error:
                work.done.put(_of_request(error))
                return
            except Failed as error:
                _give_back(servers, server, work, index, tries, error)
                continue
            except BaseException as error:
                work.done.put(error)
                return
            with work.changed:
                server.failures = 0
                work.left -= 1
                if not work.left:
                    work.changed.notify_all()
            work.done.put((index, outcome))


def _give_back(
    servers: list[Server], server: Server, work: _Work, index: int, tries: int, error: Failed
) -> None:
    """A request that failed waits for another server; an error if there is none, or it is to blame.

    It is to blame where servers that answer others fail at it again and again.
    """
    with work.changed:
        was_out = server.is_out
        server.failed(error, work.retries)
        work.waiting.appendleft((index, tries + (error.code not in BUSY)))
        work.changed.notify_all()
        left = [other for other in servers if not other.is_out]
    if tries >= max(1, work.retries) * max(1, len(left)) + 1:
        work.done.put(_of_request(error))
    elif not left:
        work.done.put(all_out(servers))
    elif server.is_out and not was_out:
        others = plural.of(len(left), "other server")
        console.say(f"rollout: {error}; its work goes to {others}")


def _of_request(error: Failed) -> UserError:
    return UserError(
        f"a request cannot be answered: {error}",
        "`body={FIELD=none}` leaves a field of the request out; without --model it has few, and "
        "completions come as text, to be evaluated",
    )


def all_out(servers: list[Server]) -> UserError:
    """The error when no server answers."""
    trouble, key = servers[0].trouble, servers[0].endpoint.key_variable
    if "answers 401" in trouble or "answers 403" in trouble:
        return UserError(trouble, f"its key is that of the variable {key}: set it")
    none = (
        f"none of the {len(servers)} servers gives" if len(servers) > 1 else "the server gives no"
    )
    message = f"{none} completions: {trouble}"
    again = "run the same command again: finished completions are kept"
    if any(names.is_of_serve(one.model) and "answers 404" in one.trouble for one in servers):
        return UserError(message, f"it was given another policy: add `load=true`, and {again}")
    return UserError(message, f"{_remedy(servers[0])}, and {again}")


def _remedy(server: Server) -> str:
    """What to do about a server that gives no completions."""
    if server.code in (404, 405):
        if "chat" in server.trouble:
            return "leave --model out and add api=chat, for a model that only chats"
        if server.listed and server.model not in server.listed:
            return f"name a model that it has, as in model={server.listed[0]}"
        return "check model=, and url=, which ends like http://localhost:8000/v1"
    if server.kind == responses.OTHER_FORM:
        return (
            "check url=, which ends like http://localhost:8000/v1; the server must answer as a "
            "whole, not as a stream"
        )
    if server.code is not None and server.code < 500 and server.code not in BUSY:
        return "fix what it reports"
    return "start it, or name another url="
