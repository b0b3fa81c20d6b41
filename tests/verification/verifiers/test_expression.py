"""The expression verifier."""

import pytest
from hypothesis import given, strategies as st

from rlvr_cli.verification.verifiers.expression import MAX_LENGTH, build

TABLE = [
    ("", "57", {}, 0.0, "no_answer"),
    (" \n\t", "57", {}, 0.0, "no_answer"),
    ("(" * 10_000 + "1" + ")" * 10_000, "1", {}, 0.0, "no_answer"),
    ("1+" * 100_000 + "1", "100001", {}, 0.0, "no_answer"),
    ("9" * 5_000, "9", {}, 0.0, "no_answer"),
    ("٥+٥", "10", {}, 0.0, "no_answer"),
    ("5²", "25", {}, 0.0, "no_answer"),
    ("5×2", "10", {}, 0.0, "no_answer"),
    ("5+\x005", "10", {}, 0.0, "no_answer"),
    ("\ud800", "10", {}, 0.0, "no_answer"),
    ("9**9**9", "57", {}, 0.0, "no_answer"),
    ("9//2", "4", {}, 0.0, "no_answer"),
    ("__import__('os')", "57", {}, 0.0, "no_answer"),
    ("5+5=10", "10", {}, 0.0, "no_answer"),
    ("5+5\n5+5", "10", {}, 0.0, "no_answer"),
    ("-5+5", "0", {}, 0.0, "no_answer"),
    ("5+-5", "0", {}, 0.0, "no_answer"),
    ("05+5", "10", {}, 0.0, "no_answer"),
    ("5 5", "55", {}, 0.0, "no_answer"),
    ("5(5)", "25", {}, 0.0, "no_answer"),
    ("(5)(5)", "25", {}, 0.0, "no_answer"),
    ("()", "0", {}, 0.0, "no_answer"),
    ("(5+5", "10", {}, 0.0, "no_answer"),
    ("5+5)", "10", {}, 0.0, "no_answer"),
    (")5+5(", "10", {}, 0.0, "no_answer"),
    ("5+", "5", {}, 0.0, "no_answer"),
    ("1.5+1.5", "3", {}, 0.0, "no_answer"),
    ("5/0", "5", {}, 0.0, "ok"),
    ("5/(3-3)", "5", {}, 0.0, "ok"),
    ("57", "57", {}, 0.0, "ok"),
    ("7", "7", {}, 0.0, "ok"),
    ("0+7", "7", {}, 0.0, "ok"),
    ("10+5", "15", {}, 0.0, "ok"),
    ("9*6+2", "57", {}, 0.0, "ok"),
    ("9*6+3", "57", {}, 1.0, "ok"),
    (" 9 * 6+3\n", "57", {}, 1.0, "ok"),
    ("9-3-2", "4", {}, 1.0, "ok"),
    ("9-(3-2)", "8", {}, 1.0, "ok"),
    ("8/4/2", "1", {}, 1.0, "ok"),
    ("2+3*4", "14", {}, 1.0, "ok"),
    ("(2+3)*4", "20", {}, 1.0, "ok"),
    ("1/3*3", "1", {}, 1.0, "ok"),
    ("1/3+1/3", "2/3", {}, 1.0, "ok"),
    ("3/2+1", "2.5", {}, 1.0, "ok"),
    ("3-9", "-6", {}, 1.0, "ok"),
    ("((((5))))+5", "10", {}, 1.0, "ok"),
    ("1+" * 99 + "1 ", "100", {}, 1.0, "ok"),
    ("25*4", "100", {"digits": [4, 25]}, 1.0, "ok"),
    ("25*4", "100", {"digits": [4, 25, 1]}, 0.0, "ok"),
    ("5+5", "10", {"digits": [5]}, 0.0, "ok"),
    ("57", "57", {"digits": [57]}, 1.0, "ok"),
    ("9*6+3", "57", {"digits": None}, 1.0, "ok"),
    ("9*6+3", "57", {"digits": "963"}, None, "bad_gold"),
    ("9*6+3", "57", {"digits": [9, 6, "3"]}, None, "bad_gold"),
    ("9*6+3", "", {}, None, "bad_gold"),
    ("9*6+3", "fifty-seven", {}, None, "bad_gold"),
    ("9*6+3", "٥٧", {}, None, "bad_gold"),
    ("9*6+3", "57\n", {}, None, "bad_gold"),
    ("9*6+3", "1/0", {}, None, "bad_gold"),
    ("9*6+3", "1e999999999", {}, None, "bad_gold"),
    ("9*6+3", "nan", {}, None, "bad_gold"),
    ("", "nan", {}, None, "bad_gold"),
]


@pytest.mark.parametrize(("completion", "answer", "extra", "reward", "status"), TABLE)
def test_verdict_is_the_one_in_the_table(completion, answer, extra, reward, status):
    verdict = build()(completion, answer=answer, extra=extra)
    assert (verdict.status, verdict.reward) == (status, reward)
    assert bool(verdict.reason) is (status != "ok")
    assert verdict.correct == (None if reward is None else reward == 1.0)
    if status == "bad_gold":
        assert "its `digits` are" in verdict.reason or "neither a whole" in verdict.reason
    else:
        assert verdict.extracted == (completion.strip() if status == "ok" else None)


def test_an_expression_one_character_too_long_is_no_answer():
    longest = "1" + "+1" * 99 + ")"
    assert len(longest) == MAX_LENGTH
    verify = build()
    assert verify("(" + longest[:-1], answer="100", extra={}).status == "no_answer"
    assert verify(f"({longest[:-3]})", answer="99", extra={}).reward == 1.0
    assert verify(f"({longest}", answer="100", extra={}).status == "no_answer"


@given(st.text() | st.text("0123456789+-*/() ", max_size=40), st.text() | st.just("57"))
def test_no_text_makes_it_raise(completion, answer):
    verdict = build()(completion, answer=answer, extra={})
    assert (verdict.reward is None) == (verdict.status == "bad_gold")


@given(
    st.recursive(
        st.integers(1, 9).map(str),
        lambda part: st.tuples(part, st.sampled_from("+-*"), part).map(lambda p: f"({''.join(p)})"),
        max_leaves=12,
    ).filter(lambda text: len(text) > 1)
)
def test_value_is_the_one_that_python_computes(expression):
    assert build()(expression, answer=str(eval(expression)), extra={}).reward == 1.0
