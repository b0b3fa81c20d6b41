"""Kinds of answers: kinds.jsonl has gold, answer, and whether it is right."""

import json
from pathlib import Path

import pytest

from rlvr_cli.verification.verifiers.math import build

PAIRS = [json.loads(line) for line in Path(__file__).with_name("kinds.jsonl").open()]


def judged(gold, answer, **options):
    verifier = build(**options)
    return verifier.judge(verifier.extract(f"So it is $\\boxed{{{answer}}}$.", True), gold, {})


def _label(pair):
    return f"{pair['kind']}: {pair['gold']}, {pair['answer']}"


@pytest.mark.parametrize("pair", [p for p in PAIRS if p["right"]], ids=_label)
def test_a_right_answer_of_this_kind_is_paid(pair):
    assert judged(pair["gold"], pair["answer"]).reward == 1.0


@pytest.mark.parametrize("pair", [p for p in PAIRS if not p["right"]], ids=_label)
def test_a_wrong_answer_of_this_kind_is_not_paid(pair):
    result = judged(pair["gold"], pair["answer"])
    assert result.status in ("ok", "no_answer") and result.reward == 0.0


def test_units_are_converted_where_asked():
    pytest.importorskip("pint")
    for gold, answer in ((r"5\text{ km}", r"5000\text{ m}"), ("2 hours", "120 minutes"),
                         (r"36\text{ km/h}", r"10\text{ m/s}"), ("5 km", "5")):  # fmt: skip
        assert judged(gold, answer, units="convert").reward == 1.0
    for gold, answer in (("5 km", "500 m"), ("5 km", "5 s"), ("5 apples", "5 oranges")):
        assert judged(gold, answer, units="convert").reward == 0.0


def test_an_integer_takes_the_tolerance_only_where_asked():
    assert judged("2024", "2024.0019").reward == 0.0
    assert judged("2024", "2024.0019", integers="lenient").reward == 1.0


def test_an_answer_that_is_not_read_says_so():
    result = judged("5", r"\foo{5} ?")
    assert (result.status, result.reason) == ("no_answer", "its shape is not read")


def test_a_gold_that_is_not_read_says_what_it_is():
    result = judged("np.arcsin(10/13)", "5")
    assert result.status == "bad_gold" and "np.arcsin" in result.reason


@pytest.mark.parametrize(
    "answer", [r"\text{ or }", ";", "=", r"\{\}", "()", ",,", r"\pm", "_", "<"]
)
@pytest.mark.parametrize("gold", ["5", "1,2", "a=1,b=2", "(1,2)", "x+y=1", "x<1", r"\pm 2", "5 km"])
def test_an_answer_without_any_value_is_not_paid(gold, answer):
    assert judged(gold, answer).reward == 0.0
