"""A function of a user's file."""

import re

import pytest

from rlvr_cli.errors import DataError, Untrusted, UsageError
from rlvr_cli.specs import trust
from rlvr_cli.verification.verifiers.custom import build

FILE = """
REWARD_RANGE = (-1, 2)

def score(completion, *, answer, extra):
    return extra["made"] if "made" in extra else len(completion) - len(answer)

number = 5
"""


@pytest.fixture
def ask(tmp_path):
    path = tmp_path / "mine.py"

    def run(made, function="score", file=FILE):
        path.write_text(file)
        with trust.trusting(trust.Named([path])):
            verifier = build(path=str(path), function=function)
        return verifier.judge(
            verifier.extract("abc", True), "ab", {} if made is None else {"made": made}
        )

    return run


def test_it_gets_the_completion_the_answer_and_the_extras(ask):
    assert ask(None).reward == 1.0
    assert ask(2).reward == 2.0


def test_a_completion_is_correct_if_its_reward_is_the_highest_or_it_says_so(ask):
    assert [ask(made).correct for made in (2, 1, -1)] == [True, False, False]
    made = ask({"reward": 0, "correct": True, "extracted": 5})
    assert (made.reward, made.correct, made.extracted) == (0.0, True, "5")


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ("1", "it returned '1', no reward"),
        ([1], r"it returned \[1\], no reward"),
        ({}, r"it returned {}, no reward"),
        (float("nan"), r"its reward nan is not from -1 to 2; say range=\[LOW,HIGH\]"),
        (float("inf"), r"its reward inf is not from -1 to 2; say range=\[LOW,HIGH\]"),
        (-1.5, r"its reward -1.5 is not from -1 to 2; say range=\[LOW,HIGH\]"),
    ],
)
def test_what_is_no_reward_is_an_error(ask, made, words):
    verdict = ask(made)
    assert (verdict.status, verdict.reward) == ("error", None)
    assert re.fullmatch(words, verdict.reason)


@pytest.mark.parametrize("name", ["missing", "number"])
def test_a_function_that_is_not_there_is_named(ask, name):
    with pytest.raises(UsageError, match=f"has no function `{name}`"):
        ask(None, function=name)


def test_a_file_that_is_not_there_is_named():
    with (
        trust.trusting(trust.Named(["nowhere.py"])),
        pytest.raises(DataError, match="cannot read the verifier"),
    ):
        build(path="nowhere.py")


def test_a_file_that_nothing_trusts_is_neither_read_nor_run(tmp_path):
    with pytest.raises(Untrusted, match=r"mine\.py` is code that a specification names"):
        build(path=str(tmp_path / "mine.py"))
