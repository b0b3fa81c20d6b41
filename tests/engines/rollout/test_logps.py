"""Rows of log-probs, with a scheduler that only takes what it is given."""

from types import SimpleNamespace

import numpy as np
import pytest

from rlvr_cli.engines.rollout._logps import BatchedLogprobs
from rlvr_cli.errors import DataError


class Scheduler:
    def __init__(self):
        self.given = []

    def update_from_output(self, scheduled, output):
        self.given.append(output.logprobs)

    def step(self, **sampled):
        """One step's output: a request's token, or None while its prompt is read."""
        tokens = [[] if token is None else [token] for token in sampled.values()]
        ids_NK = np.array([[token or 99, 7] for token in sampled.values()])
        logprobs = SimpleNamespace(logprob_token_ids=ids_NK, logprobs=-0.5 * ids_NK)
        self.update_from_output(
            None,
            SimpleNamespace(req_ids=list(sampled), sampled_token_ids=tokens, logprobs=logprobs),
        )


def of(token_ids):
    return SimpleNamespace(token_ids=token_ids)


@pytest.fixture
def scheduler():
    return Scheduler()


@pytest.fixture
def kept(scheduler):
    with BatchedLogprobs(scheduler, 3) as kept:
        for name in "abc":
            kept.expect(name)
        yield kept


def test_each_request_has_its_own_in_the_order_of_its_tokens(scheduler, kept):
    scheduler.step(a=1, b=None)
    scheduler.step(b=4, a=2)
    assert kept.take("a", of([1, 2])) == [-0.5, -1.0]
    scheduler.step(b=6, c=8)
    assert (kept.take("b", of([4, 6])), kept.take("c", of([8]))) == ([-2.0, -3.0], [-4.0])


def test_the_scheduler_sees_none_and_has_its_method_back_afterwards(scheduler):
    with BatchedLogprobs(scheduler, 3):
        scheduler.step(a=1)
    scheduler.step(a=1)
    assert [given is None for given in scheduler.given] == [True, False]


def test_tokens_behind_the_end_of_a_request_are_nobodys(scheduler, kept):
    """A step that was on its way when the request ended, and then others in its row."""
    scheduler.step(a=1)
    assert kept.take("a", of([1])) == [-0.5]
    for _ in range(5):
        scheduler.step(a=9, gone=9)
    scheduler.step(a=9, b=2, gone=9)
    assert kept.take("b", of([2])) == [-1.0]


@pytest.mark.parametrize("returned", [[1], [1, 3], [1, 2, 3], []])
def test_other_tokens_than_those_returned_are_refused(scheduler, kept, returned):
    scheduler.step(a=1)
    scheduler.step(a=2)
    with pytest.raises(DataError, match="log-probs of other tokens than those of its completion a"):
        kept.take("a", of(returned))


def test_more_requests_than_rows_have_their_own_too(scheduler):
    names = [f"r{i}" for i in range(1500)]
    with BatchedLogprobs(scheduler, 2) as kept:
        for name in names:
            kept.expect(name)
        for step in (1, 2):
            scheduler.step(**{name: step * (i + 1) for i, name in enumerate(names)})
        for i, name in enumerate(names, 1):
            assert kept.take(name, of([i, 2 * i])) == [-0.5 * i, -1.0 * i]


def test_a_request_that_was_never_seen_is_refused(kept):
    with pytest.raises(DataError):
        kept.take("a", of([]))
