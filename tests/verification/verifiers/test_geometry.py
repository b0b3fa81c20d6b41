r"""Answers to problems of geometry as Geometry3K has them: golds with spaces in their LaTeX.

Pairs of a gold, an answer in a box, and whether it is right: radicals, degrees, units, names of
angles and sides, roundings. Then letters of choices and their values.
"""

import pytest

from rlvr_cli.verification.verifiers.choice import build as build_choice
from rlvr_cli.verification.verifiers.math import build as build_math

PAIRS = [
    (r"2 \sqrt { 221 }", r"2\sqrt{221}", True),
    (r"2 \sqrt { 221 }", r"2 \sqrt { 221 }", True),
    (r"2 \sqrt { 221 }", r"\sqrt{884}", True),
    (r"2 \sqrt { 221 }", "29.732137494637012", True),
    (r"2 \sqrt { 221 }", r"2\sqrt{221} \approx 29.73", True),
    (r"2 \sqrt { 221 }", "29.73", False),
    (r"2 \sqrt { 221 }", r"2\sqrt{22}", False),
    (r"2 \sqrt { 221 }", r"\sqrt{221}", False),
    (r"2 \sqrt { 221 }", "2√221", True),
    (r"2 \sqrt { 221 }", "2√221 cm", True),
    (r"2 \sqrt { 221 }", "√884", True),
    (r"2 \sqrt { 221 }", "√(4·221)", True),
    (r"2 \sqrt { 221 }", "√2*21", False),
    (r"2 \sqrt { 221 }", "2√22", False),
    (r"2 \sqrt { 221 }", "2 sqrt 221", True),
    (r"2 \sqrt { 221 }", "2sqrt(221)", True),
    (r"2 \sqrt { 221 }", r"AB = 2\sqrt{221}", True),
    (r"2 \sqrt { 221 }", r"2\sqrt{221}\text{ units}", True),
    (r"5 \sqrt { 3 }", r"\frac{15}{\sqrt{3}}", True),
    (r"5 \sqrt { 3 }", r"5\sqrt{2}", False),
    (r"6 \sqrt { 2 }", "8.49", False),
    (r"\frac { \sqrt { 2 } } { 2 }", "√2/2", True),
    (r"\frac { \sqrt { 2 } } { 2 }", "√(1/2)", True),
    (r"\frac { \sqrt { 2 } } { 2 }", r"\sin 45^\circ", True),
    (r"\frac { \sqrt { 2 } } { 2 }", r"\cos 60^\circ", False),
    (r"\frac { 2 \sqrt { 2 } } { 5 }", r"\frac{4}{5\sqrt{2}}", True),
    (r"\frac { 2 \sqrt { 2 } } { 5 }", r"\frac{\sqrt{2}}{5}", False),
    (r"\frac { 29 } { 7 }", r"4\frac{1}{7}", True),
    (r"\frac { 29 } { 7 }", "4.14", False),
    (r"4 \sqrt [ 3 ] { 2 }", r"4\sqrt[3]{2}", True),
    (r"4 \sqrt [ 3 ] { 2 }", r"4\sqrt{2}", False),
    (r"12 + 4 \sqrt { 3 }", r"4(3+\sqrt{3})", True),
    (r"12 + 4 \sqrt { 3 }", r"16\sqrt{3}", False),
    ("22.5", r"22.5^\circ", True),
    ("22.5", "22.5°", True),
    ("22.5", "22.5 degrees", True),
    ("22.5", r"\frac{45}{2}", True),
    ("22.5", r"22^\circ 30'", True),
    ("22.5", r"22^\circ 45'", False),
    ("22.5", "23", False),
    ("22.5", "2.25", False),
    ("80", r"m\angle ABC = 80^\circ", True),
    ("80", r"m\widehat{AB} = 80", True),
    ("80", r"\angle A = 100^\circ", False),
    ("80", r"x = 80,\ y = 100", False),
    ("80", r"80 \mathrm{~cm}^2", True),
    ("80", r"80 \text{ square units}", True),
    ("80", "80 sq. cm", True),
    ("80", "80 sq. units", True),
    ("80", "8 sq. cm", False),
    ("80", r"80\pi", False),
    ("26", r"26 \text{ ft}", True),
    ("26", "26x", False),
    ("26", "25.98", False),
    ("1.0", "1", True),
    ("1.0", "10", False),
    (r"48 \pi", r"48\pi", True),
    (r"48 \pi", r"48\pi \text{ cm}^2", True),
    (r"48 \pi", "48π cm²", True),
    (r"48 \pi", "48pi cm^2", True),
    (r"48 \pi", r"84\pi \text{ cm}^2", False),
    (r"48 \pi", "150.8", False),
    (r"48 \pi", "48", False),
    (r"60 ^ { \circ }", "60", True),
    (r"60 ^ { \circ }", r"30^\circ", False),
    (r"2 x + 1", "1 + 2x", True),
]


@pytest.mark.parametrize(("gold", "answer", "correct"), PAIRS)
def test_an_answer_is_right_where_it_is_the_golds_value(gold, answer, correct):
    verifier = build_math()
    found = verifier.judge(verifier.extract(f"So $\\boxed{{{answer}}}$.", True), gold, {})
    assert (found.status, found.correct) == ("ok", correct)


CHOICES = ["5", r"5 \sqrt { 2 }", r"5 \sqrt { 3 }", "10"]
CHOSEN = [  # a completion, and what choice and math say of it; the gold is C
    (r"\boxed{C}", True, False),
    ("The answer is (C).", True, False),
    (r"\boxed{\text{C}}", True, False),
    (r"\boxed{C. 5\sqrt{3}}", True, False),
    (r"\boxed{5 \sqrt { 3 }}", True, True),
    (r"\boxed{5\sqrt{3}}", None, True),
    (r"\boxed{\frac{15}{\sqrt3}}", None, True),
    ("The answer is 5√3 cm.", None, True),
    (r"\boxed{B}", False, False),
    (r"\boxed{5\sqrt{2}}", None, False),
    (r"\boxed{10}", False, False),
    (r"\boxed{\text{B or C}}", None, False),
]


@pytest.mark.parametrize(("completion", "letter", "value"), CHOSEN)
def test_a_choice_is_named_by_its_letter_or_its_value(completion, letter, value):
    extra = {"options": CHOICES}
    chosen = build_choice()(completion, answer="C", extra=extra)
    verifier = build_math()
    found = verifier.judge(verifier.extract(completion, True), CHOICES[2], extra)
    assert (chosen.correct if chosen.status == "ok" else None) is letter
    assert bool(found.correct) is value
