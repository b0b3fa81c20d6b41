"""The word problems."""

import re

import pytest

from rlvr_cli import registry
from rlvr_cli.errors import UsageError
from rlvr_cli.tasks.word_problems import build
from rlvr_cli.verification.verifiers.number import build as build_verifier


def texts(**options):
    return [row["prompt"][0]["content"] for row in build(**options)]


def test_the_answer_is_what_the_steps_give():
    for row in build(count=300, steps=3):
        text = row["prompt"][0]["content"]
        value = int(re.search(r"has (\d+) ", text)[1])
        for more, less, times in re.findall(
            r"gets (\d+) more|gives (\d+) away|have (\d+) times", text
        ):
            value = value + int(more or 0) - int(less or 0)
            value *= int(times or 1)
        assert row["answer"] == str(value) and value > 0


def test_splits_share_no_problem_and_are_the_same_every_time():
    train, heldout = texts(count=500), texts(count=100, split="heldout")
    assert not set(train) & set(heldout)
    assert (len(set(train)), len(set(heldout))) == (500, 100)
    assert texts(count=500) == train
    assert texts(count=50) == train[:50]


@pytest.mark.slow
def test_more_problems_than_there_are_is_refused():
    with pytest.raises(UsageError, match="fewer than 30000"):
        registry.build("tasks", "word-problems:count=30000,steps=1,largest=10")


@pytest.mark.parametrize("option", ["steps=0", "steps=5", "count=0", "largest=9"])
def test_options_without_sense_are_refused(option):
    with pytest.raises(UsageError, match="steps must be"):
        registry.build("tasks", f"word-problems:{option}")


def test_the_verifier_takes_the_answers():
    verify = build_verifier()
    for row in build(count=20):
        assert verify(f"So it is {row['answer']}.", answer=row["answer"], extra={}).correct
