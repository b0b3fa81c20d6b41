"""Reading the end of a text, in time that is linear in its length."""

import pytest

from rlvr_cli.verification.parsing import boxed

BOMBS = {
    "\\boxed{" * 30_000: None,
    "\\boxed{" * 30_000 + "}" * 30_000: None,
    "{" * 200_000: None,
    "\\" * 200_000: None,
    "answer is " * 20_000: None,
    "####" * 50_000: None,
    "the answer is $" * 13_000: None,
    "answer" + " " * 200_000: None,
    "answer is" + " " * 200_000 + "5": None,
    "answer is" + " " * 1_000 + "5": "5",
    "A:\n" * 60_000: None,
    "the answer is " + "is " * 60_000: None,
    "answer " * 30_000 + ": 7": "7",
}


@pytest.mark.parametrize("text", BOMBS, ids=lambda text: text[:12])
def test_a_long_text_is_read_in_one_pass(text):
    """Anything that grows with the square of the length would take minutes here."""
    answer = boxed.anchored(text)
    assert BOMBS[text] is None or answer == BOMBS[text]


def test_of_nested_boxes_the_inmost_is_read():
    assert boxed.last_box(r"\boxed{a \boxed{b} c}") == "b"
    assert boxed.last_box(r"\boxed{\text{\boxed{5}}} ") == "5"


def test_an_escaped_brace_neither_opens_nor_closes():
    assert boxed.last_box(r"\boxed{\{1\}, \}}") == r"\{1\}, \}"


def test_a_box_that_another_is_told_apart_from_is_the_answer():
    assert boxed.anchored(r"It is \boxed{5}, not \boxed{6}.") == "5"
    assert boxed.anchored(r"$\boxed{5}$ rather than $\boxed{6}$") == "5"
    assert boxed.anchored(r"It is not \boxed{5}, but \boxed{6}.") == "6"
    assert boxed.anchored(r"First \boxed{5}. Then it is clear that it is not \boxed{6}") is None
