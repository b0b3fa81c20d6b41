"""Questions in flight: each is answered or given up in time, and a service that is away is left."""

import contextlib
import threading
from collections import Counter

import pytest

from rlvr_cli.protocols import Limits, Remote, Verdict
from rlvr_cli.verification.remote import asking
from rlvr_cli.verification.remote.client import Failed, Refused
from rlvr_cli.verification.workers.pool import Task


def remote(ask, in_flight=4, seconds=lambda number: 60.0):
    """A verifier that asks a function; `seconds` are those of a question, by its number."""
    return Remote(
        extract=lambda text, finished: text,
        settle=lambda extracted, answer, extra: None,
        connect=lambda: contextlib.nullcontext(ask),
        check=lambda: None,
        seconds=lambda answer, extra: seconds(int(answer)),
        in_flight=in_flight,
        version="1",
        host="http://localhost",
        host_variable="NONE",
    )


def tasks(count):
    return [Task("own", str(i), str(i), {}, Limits(0, 0)) for i in range(count)]


def answered(ask, count, **options):
    """The verdict of each question, and what all used."""
    verdicts, used = {}, Counter()
    for index, verdict, own in asking.run(remote(ask, **options), tasks(count), grace_s=0.1):
        assert index not in verdicts
        verdicts[index] = verdict
        used += own
    return [verdicts[i] for i in range(count)], used


@pytest.mark.parametrize("in_flight", [1, 4, 100])
def test_each_question_has_its_own_answer(in_flight):
    def ask(text, answer, extra, used):
        used["requests"] += 1
        return Verdict("ok", float(text), True)

    verdicts, used = answered(ask, 50, in_flight=in_flight)
    assert [v.reward for v in verdicts] == list(range(50)) and used == Counter(requests=50)


def test_a_question_that_hangs_is_given_up_with_its_thread():
    released = threading.Event()

    def ask(text, answer, extra, used):
        if int(text) < 3:  # more than are in flight
            released.wait(60)
        return Verdict("ok", 1.0, True)

    def seconds(number):
        return 0.2 if number < 3 else 60.0

    verdicts, _ = answered(ask, 20, in_flight=2, seconds=seconds)
    released.set()
    assert [v.status for v in verdicts] == ["timeout"] * 3 + ["ok"] * 17
    assert verdicts[0].reward is None and verdicts[0].reason == "it was not answered in time"


def test_what_is_raised_is_an_error_of_that_question_alone():
    def ask(text, answer, extra, used):
        if text == "3":
            raise KeyError("choices")
        return Verdict("ok", 1.0, True)

    verdicts, _ = answered(ask, 8)
    assert verdicts.pop(3) == Verdict("error", reason="KeyError: 'choices'")
    assert {v.status for v in verdicts} == {"ok"}


@pytest.mark.parametrize(("error", "asked"), [(Failed("away", "timeout"), 16), (Refused("no"), 60)])
def test_a_service_that_fails_is_left_and_one_that_refuses_texts_is_not(error, asked):
    texts = []

    def ask(text, answer, extra, used):
        texts.append(text)
        raise error

    verdicts, _ = answered(ask, 60, in_flight=1)
    assert abs(len(texts) - asked) <= 1  # one was on its way
    assert {v.status for v in verdicts} == {error.status} and {v.reward for v in verdicts} == {None}
    assert all(str(error) in v.reason for v in verdicts)


def test_what_is_left_in_the_middle_leaves_no_thread_behind():
    before = threading.active_count()
    run = asking.run(remote(lambda *given: Verdict("ok", 1.0, True)), tasks(100))
    next(run)
    run.close()
    for thread in threading.enumerate()[before:]:
        thread.join(60)
    assert threading.active_count() <= before
