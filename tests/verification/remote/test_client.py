"""Requests to a service that is busy, slow, away or broken, over real connections."""

import contextlib
import socket
import threading
import time
from collections import Counter
from email.utils import formatdate

import pytest

from rlvr_cli.errors import UsageError
from rlvr_cli.verification.remote import client
from rlvr_cli.verification.remote.client import Client, Failed, Refused

BODY = {"model": "judge-of-a-test", "messages": [{"role": "user", "content": "hello"}]}
KEY = "sk-a-secret-of-this-test"


def endpoint(url, **changed):
    options = {"timeout_s": 60.0, "connect_s": 20.0, "retries": 2} | changed
    return client.endpoint(url, "KEY_OF_A_TEST", **options)


def post(url, **changed):
    """The answer, or what was raised, and what it used."""
    with Client(endpoint(url, **changed)) as asking:
        try:
            return asking.ask("POST", "/chat/completions", BODY), asking.used
        except Failed as error:
            return error, asking.used


@pytest.fixture
def listening():
    """A socket that accepts connections and does with each what it is told to, in a thread."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve(handle):
            def loop():
                while True:
                    try:
                        connection, _ = server.accept()
                    except OSError:
                        return
                    with connection, contextlib.suppress(OSError):
                        while not connection.recv(65536).endswith(b"}"):
                            pass
                        handle(connection)

            threading.Thread(target=loop, daemon=True).start()
            return f"http://127.0.0.1:{server.getsockname()[1]}/v1"

        yield serve


@pytest.mark.parametrize("status", [408, 424, 429, 500, 502, 503, 504, 522, 529])
def test_what_may_pass_is_tried_again(chat, status):
    chat.faults = [(status, {}, {"error": {"message": "busy"}})]
    answer, used = post(chat.url)
    assert answer["choices"][0]["message"]["content"] == "Verdict: yes"
    assert used == Counter(requests=2, retries=1)


def test_a_lost_connection_is_tried_again(chat):
    chat.faults = ["hang up"]
    answer, used = post(chat.url)
    assert answer["choices"] and used["retries"] == 1


def test_a_connection_that_the_service_ended_while_it_was_idle_is_no_failure(chat):
    with Client(endpoint(chat.url, retries=0)) as asking:
        asking.ask("POST", "/chat/completions", BODY)
        asking._connection.sock.shutdown(socket.SHUT_RDWR)
        assert asking.ask("POST", "/chat/completions", BODY)["choices"]


def test_requests_share_a_connection(chat):
    with Client(endpoint(chat.url)) as asking:
        asking.ask("POST", "/chat/completions", BODY)
        first = asking._connection.sock
        asking.ask("GET", "/models")
        assert asking._connection.sock is first


@pytest.mark.parametrize("after", ["1", "0.9", lambda: formatdate(time.time() + 3, usegmt=True)])
def test_as_long_is_waited_as_a_service_asks(chat, after):
    after = after() if callable(after) else after
    chat.faults = [(429, {"Retry_After": after}, {"error": {"message": "slow down"}})]
    start = time.monotonic()
    answer, _ = post(chat.url)
    assert answer["choices"] and time.monotonic() - start > 0.85


def test_a_wait_beyond_the_limit_of_time_is_not_begun(chat):
    chat.always = (429, {"Retry_After": "3600"}, {"error": {"message": "slow down"}})
    error, used = post(chat.url)
    assert "429 Too Many Requests: slow down" in str(error) and used["requests"] == 1


def test_after_the_last_try_the_reason_says_how_many_there_were(chat):
    chat.always = (503, {}, b"<html><body>upstream is <b>down</b></body></html>")
    error, used = post(chat.url, retries=1)
    assert str(error).endswith("answers 503 Service Unavailable: upstream is down (2 tries)")
    assert (error.status, type(error), used["requests"]) == ("error", Failed, 2)


def test_a_quota_that_is_used_up_is_not_tried_again(chat):
    chat.always = (429, {}, {"error": {"message": "no money", "code": "insufficient_quota"}})
    error, used = post(chat.url)
    assert used["requests"] == 1 and error.code == 429


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, Refused), (422, Refused), (401, Failed), (403, Failed), (404, Failed), (301, Failed)],
)
def test_what_will_not_pass_is_asked_once(chat, status, kind):
    chat.always = (status, {"Location": f"{chat.url}/elsewhere"}, {"detail": "not so"})
    error, used = post(chat.url)
    assert type(error) is kind and error.code == status and used["requests"] == 1
    assert "not so" in str(error)


@pytest.mark.parametrize("content", [b"<html>welcome</html>", b"", b"{"])
def test_an_answer_that_is_no_json_is_a_failure(chat, content):
    chat.always = (200, {}, content)
    error, _ = post(chat.url)
    assert "something else than JSON" in str(error)


def test_a_service_that_is_silent_is_a_timeout(listening):
    error, _ = post(listening(lambda connection: time.sleep(20)), timeout_s=0.5)
    assert error.status == "timeout"


def test_an_answer_that_trickles_is_a_timeout(listening):
    def trickle(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(100):
            connection.sendall(b" ")
            time.sleep(0.05)

    error, _ = post(listening(trickle), timeout_s=0.5)
    assert error.status == "timeout"


def test_an_answer_that_breaks_off_is_no_answer(listening):
    half = b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"choices": []}'
    error, used = post(listening(lambda connection: connection.sendall(half)), retries=1)
    assert "ended the connection before its answer" in str(error) and used["retries"] == 1


def test_a_service_that_is_not_there_says_so():
    with socket.socket() as taken:  # by nobody who listens
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        error, _ = post(f"http://127.0.0.1:{port}/v1", retries=0)
    assert str(error) == f"http://127.0.0.1:{port}: Connection refused"


def test_the_key_is_sent_and_never_said(chat, monkeypatch):
    monkeypatch.setenv("KEY_OF_A_TEST", f" {KEY}\n")
    chat.key = KEY
    assert post(chat.url)[0]["choices"]
    chat.key = "another"
    error, _ = post(chat.url)  # the server repeats what it was sent
    assert "Incorrect API key: Bearer [the key]" in str(error) and KEY not in str(error)


def test_a_key_that_no_header_may_hold_is_refused_without_showing_it(chat, monkeypatch):
    monkeypatch.setenv("KEY_OF_A_TEST", f"{KEY}\nX-Other: 1")
    error, _ = post(chat.url)
    assert "KEY_OF_A_TEST holds no key" in str(error) and KEY not in str(error)
    assert chat.seen == []


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("localhost:8000", "is not the URL"),
        ("ftp://host/v1", "is not the URL"),
        ("http://", "is not the URL"),
        ("http://host:99999/v1", "is not the URL"),
        ("http://ho st/v1", "is not the URL"),
        ("https://user:secret@host/v1", "of host holds a password"),
    ],
)
def test_what_is_no_url_is_refused(url, why):
    with pytest.raises(UsageError, match=why) as error:
        endpoint(url)
    assert "secret" not in str(error.value)


def test_urls_are_taken_as_they_are_copied():
    for url in (
        "http://h:1/v1",
        "http://h:1/v1/",
        "http://h:1/v1/chat/completions",
        " http://h:1/v1",
    ):
        assert endpoint(url).url == "http://h:1/v1"
    with_query = Client(endpoint("https://h/openai/v1?api-version=2024"))
    assert with_query._target("/models") == "/openai/v1/models?api-version=2024"


def test_a_proxy_of_the_environment_is_used_but_not_for_the_own_machine(chat, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{chat.server_port}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    answer, _ = post("http://judge.invalid/v1")
    assert answer["choices"], "the proxy, which is the test's server, answers for a host of no name"
    error, _ = post("http://127.0.0.1:9/v1", retries=0)
    assert "Connection refused" in str(error)


def test_an_answer_of_any_size_is_not_read(listening):
    def flood(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n")
        connection.sendall(b"x" * (17 << 20))

    error, _ = post(listening(flood), retries=0)
    assert "more than 16 MiB" in str(error)


def test_the_wait_between_tries_grows_and_is_spread():
    waits = [[client._wait_s(tries, None) for _ in range(50)] for tries in (0, 3, 20)]
    assert max(waits[0]) <= 0.5 < min(waits[1]) and max(waits[2]) <= 30
    assert all(len(set(some)) > 40 for some in waits)
