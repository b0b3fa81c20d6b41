"""The last number of a completion."""

import pytest
from hypothesis import given, strategies as st

from rlvr_cli.verification.verifiers.number import build

verify = build()


@pytest.mark.parametrize(
    ("completion", "answer", "status", "correct"),
    [
        ("The answer is 12.", "12", "ok", True),
        ("12 and then 13", "12", "ok", False),
        ("so 1,200", "1200", "ok", True),
        ("so 1,20", "20", "ok", True),  # a list, not a number
        ("5.0", "5", "ok", True),
        ("5.01", "5", "ok", False),
        ("-3", "-3", "ok", True),
        ("10-3", "3", "ok", True),  # no sign after a digit
        ("$7", "7", "ok", True),
        ("**7**", "7", "ok", True),
        ("7%", "7", "ok", True),
        ("7.", "7", "ok", True),
        ("<<3+4=7>>7", "7", "ok", True),
        ("x7", "7", "no_answer", False),
        ("7kg", "7", "no_answer", False),
        ("seven", "7", "no_answer", False),
        ("", "7", "no_answer", False),
        ("7", "seven", "bad_gold", None),
        ("9" * 101, "9", "no_answer", False),
    ],
)
def test_verdicts(completion, answer, status, correct):
    verdict = verify(completion, answer=answer, extra={})
    assert (verdict.status, verdict.correct) == (status, correct)
    assert verdict.reward == (None if correct is None else float(correct))


@given(st.text(), st.text(alphabet="0123456789-.,x ", max_size=8))
def test_it_never_raises(completion, answer):
    verify(completion, answer=answer, extra={})


def test_a_long_text_is_read_at_its_end_alone():
    assert verify("7" + " " * 100_000, answer="7", extra={}).status == "no_answer"
