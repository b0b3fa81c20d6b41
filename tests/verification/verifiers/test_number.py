"""The last number of a completion."""

import cProfile

import pytest
from hypothesis import given, strategies as st

from rlvr_cli.verification.verifiers.number import build

verify = build()

RIGHT = [  # (completion, gold)
    ("The answer is 12.", "12"),
    ("so 1,200", "1200"),
    ("5.0", "5"),
    ("-3", "-3"),
    ("$7", "7"),
    ("**7**", "7"),
    ("7%", "7"),
    ("7.", "7"),
    ("<<3+4=7>>7", "7"),
    ("7kg", "7"),
    ("−3", "-3"),
    ("–3", "-3"),
    ("－3", "-3"),
    (".5", "0.5"),
    ("-.5", "-0.5"),
    ("1/2", "0.5"),
    ("-1/2", "-.5"),
    ("1 1/2", "1.5"),
    ("2½", "2.5"),
    ("½", "1/2"),
    ("5km", "5"),
    ("5 km", "5"),
    ("5km/h", "5"),
    ("1,234", "1234"),
    ("1,234,567.89", "1234567.89"),
    ("1 234", "1234"),
    ("1 234 567", "1234567"),
    ("1\u202f234", "1234"),
    ("1'234", "1234"),
    ("1_000", "1000"),
    ("1.234", "1.234"),
    ("1, 20", "20"),
    ("5%", "0.05"),
    ("5%", "5"),
    ("0.05", "5%"),
    ("5", "5%"),
    ("$5", "5"),
    ("-$5", "-5"),
    ("$-5", "-5"),
    ("$5.00", "5"),
    ("$1,200.50", "1200.5"),
    ("€5", "5"),
    ("5€", "5"),
    ("1e3", "1000"),
    ("1E-3", "0.001"),
    ("1.5e3", "1500"),
    ("1.5×10^3", "1500"),
    ("1.5 \\times 10^{3}", "1500"),
    ("5 x 10^2", "500"),
    ("5.", "5"),
    ("10 - 5 = 5", "5"),
    ("5 million", "5000000"),
    ("2 dozen", "24"),
    ("5!", "5"),
    ("\\boxed{5}", "5"),
    ("$\\boxed{5}$", "5"),
    ("\\frac{1}{2}", "0.5"),
    ("\\boxed{\\frac{1}{2}}", "0.5"),
    ("1{,}000", "1000"),
    ("1\\,000", "1000"),
    ("$5$", "5"),
    ("<answer>5</answer>", "5"),
    ("Answer:5", "5"),
    ("x=5", "5"),
    ("x = -5", "-5"),
    ("x = - 5", "-5"),
    ("* 5", "5"),
    ("#### 5", "5"),
    ("the answer is 7 as in COVID-19", "7"),
    ("~5", "5"),
    ("≈5", "5"),
    ("１２", "12"),
    ("٥", "5"),
    ("5°C", "5"),
    ("negative 5", "-5"),
    ("5-year-old", "5"),
    ("5 percent", "0.05"),
    ("(5)", "5"),
    ("[5]", "5"),
    ("(-5)", "-5"),
    ("5,", "5"),
    ("5...", "5"),
    ("...5", "5"),
    ("7" + " " * 100_000, "7"),
    ("7 " + "word " * 30_000, "7"),
    ("5 apples", "5"),
    ("5 apples and x7", "5"),
    ("3 1/2", "3.5"),
    ("½ cup", "0.5"),
    ("5", "$5"),
    ("5", "5.0"),
    ("1200", "1,200"),
    ("0.5", "1/2"),
    ("12", "12."),
    ("2,000", "2000"),
    ("3.14159", "3.14159"),
    ("The total is 1,000 dollars", "1000"),
    ("12 $", "12"),
    ("12$", "12"),
    ("1.5e3 m", "1500"),
    ("1000000", "1 million"),
    ("3 × 4 = 12", "12"),
    ("12)", "12"),
    ("12 %", "12"),
    ("+5", "5"),
    ("Answer: 42\n", "42"),
    ("the answer is:\n\n42", "42"),
    ("42 | 43 |", "43"),
    ("5\xa0000", "5000"),
    ("16 eggs", "16"),
    ("$18 every day", "18"),
    ("No. 5", "5"),
    ("$4.50/hr", "4.5"),
    ("5/day", "5"),
    ("> 16", "16"),
    ("<answer> 16", "16"),
    ("7/2", "3.5"),
]
WRONG = [  # (completion, gold)
    ("12 and then 13", "12"),
    ("5.01", "5"),
    ("−3", "3"),
    ("1/2", "2"),
    ("50", "0.5"),
    ("-$5", "5"),
    ("5 million", "5"),
    ("negative 5", "5"),
    ("24/7", "7"),
    ("1e999", "1"),
]
UNSURE = [  # (completion, gold)
    ("It costs $5, not $6.", "6"),
    ("between 3 and 5", "5"),
    ("x7", "7"),
    ("seven", "7"),
    ("", "7"),
    ("9" * 101, "9"),
    ("1,20", "20"),
    ("1,20", "1.2"),
    ("1.234,5", "1234.5"),
    ("1.234,5", "5"),
    ("1,234,5", "5"),
    ("10-5", "5"),
    ("10–5", "5"),
    ("10 - 5", "5"),
    ("2+3", "3"),
    ("2 + 3", "3"),
    ("3*4", "4"),
    ("12:30", "30"),
    ("2024-05-03", "3"),
    ("10/5/2024", "2024"),
    ("3x", "3"),
    ("5th", "5"),
    ("5k", "5"),
    ("5M", "5"),
    ("$5m", "5"),
    ("two dozen", "2"),
    ("5²", "5"),
    ("10^3", "3"),
    ("2^10", "10"),
    ("√5", "5"),
    ("sqrt(5)", "5"),
    ("\\sqrt{5}", "5"),
    ("2π", "2"),
    ("- 5", "5"),
    ("- 5", "-5"),
    ("COVID-19", "19"),
    ("GPT-4", "4"),
    ("±5", "5"),
    ("<5", "5"),
    ("≤5", "5"),
    ("100 200 300", "300"),
    ("5 factorial", "5"),
    ("5 squared", "5"),
    ("The 1990s", "1990"),
    ("1.2.3", "3"),
    ("192.168.1.1", "1"),
    ("5/0", "5"),
    ("so…5", "5"),
    ("answer—5", "5"),
    ("--5", "5"),
    ("0x1F", "0"),
    ("3 5/2", "2.5"),
    ("10³", "103"),
    ("20 -5", "-5"),
    ("15 minus 5", "5"),
    ("3:2", "2"),
    ("18 (9+9)", "18"),
    ("a5", "5"),
    ("5a", "5"),
    ("6'2", "2"),
    ("1,000,00", "1000"),
    ("5;6", "6"),
    ("7 / 2", "2"),
    ("so x > 6", "6"),
    ("since 7 > 6", "6"),
    ("4.50/x", "4.5"),
    ("3 x 4", "4"),
    ("x 4", "4"),
]
BAD_GOLDS = [  # (completion, gold)
    ("103", "10³"),
    ("5", "5 apples"),
    ("5", "seven"),
    ("5", "1,20"),
    ("5", ""),
    ("5", "10-5"),
]


@pytest.mark.parametrize(("completion", "answer"), RIGHT)
def test_the_last_number_is_the_answer_however_it_is_written(completion, answer):
    verdict = verify(completion, answer=answer, extra={})
    assert (verdict.status, verdict.correct, verdict.reward) == ("ok", True, 1.0), verdict.reason


@pytest.mark.parametrize(("completion", "answer"), WRONG)
def test_another_number_is_wrong(completion, answer):
    verdict = verify(completion, answer=answer, extra={})
    assert (verdict.status, verdict.correct, verdict.reward) == ("ok", False, 0.0)


@pytest.mark.parametrize(("completion", "answer"), UNSURE)
def test_what_may_be_another_number_is_no_answer_and_says_why(completion, answer):
    verdict = verify(completion, answer=answer, extra={})
    assert (verdict.status, verdict.correct, verdict.reward) == ("no_answer", False, 0.0)
    assert verdict.reason


@pytest.mark.parametrize(("completion", "answer"), BAD_GOLDS)
def test_a_gold_is_one_certain_number_alone(completion, answer):
    verdict = verify(completion, answer=answer, extra={})
    assert (verdict.status, verdict.reward) == ("bad_gold", None)
    assert verdict.reason


@pytest.mark.parametrize("completion", [text for text, _ in RIGHT + WRONG if len(text) < 1000])
def test_what_is_extracted_is_the_number_as_a_completion_and_as_a_gold(completion):
    extracted = verify(completion, answer="1", extra={}).extracted
    assert verify(extracted, answer=extracted, extra={}).correct is True


@given(
    st.text() | st.text("0123456789-.,/% $xe^{}\\½", max_size=20),
    st.text(alphabet="0123456789-.,x/% ", max_size=8),
)
def test_it_never_raises(completion, answer):
    verify(completion, answer=answer, extra={})


def test_a_long_text_without_number_costs_few_calls_a_word():
    text = "the x2y of var1x " * 300
    profile = cProfile.Profile()
    profile.enable()
    verdict = verify(text, answer="5", extra={})
    profile.disable()
    assert verdict.reason == "it has no number"
    calls = sum(entry.callcount for entry in profile.getstats())
    assert calls < 10 * len(text.split())
