r"""The math verifier: (completion, gold, options, status, correct), the nasty ones first."""

import importlib.metadata

import pytest
from hypothesis import given, settings, strategies as st

from rlvr_cli.verification.verifiers.math import build


def verdict(completion, gold, finished=True, **options):
    verifier = build(**options)
    return verifier.judge(verifier.extract(completion, finished), gold, {})


def box(text):
    return f"So it is $\\boxed{{{text}}}$."


WHOLE = [  # completion, gold, status, correct
    (r"First \boxed{5}. Wait, no. Final: \boxed{7}", "7", "ok", True),
    (r"First \boxed{5}. Wait, no. Final: \boxed{7}", "5", "ok", False),
    (r"\boxed{840} \boxed{840}", "840", "ok", True),
    (r"<think>\boxed{42}</think> final \boxed{41}", "41", "ok", True),
    ("First we note 6*7=42 so then we need to", "42", "no_answer", False),
    (r"so \boxed{42", "42", "no_answer", False),
    (r"\boxed{5} and then \boxed{42", "5", "ok", True),
    (r"put the answer in \boxed and", "5", "no_answer", False),
    (r"ends with \boxed", "5", "no_answer", False),
    (r"\boxed{}", "5", "no_answer", False),
    (r"\boxed{\boxed{5}}", "5", "ok", True),
    (r"\fbox{5}", "5", "ok", True),
    (r"\boxed {5}", "5", "ok", True),
    (r"\boxed{\frac{1}{2}}", r"\dfrac{1}{2}", "ok", True),
    (r"\boxed{\{1,2\}}", r"\{2,1\}", "ok", True),
    (r"stray } and { then \boxed{5}", "5", "ok", True),
    ("**73**", "73", "no_answer", False),
    ("The answer is **73**.", "73", "ok", True),
    ("The final answer is $\\frac12$. I hope it is correct.", "0.5", "ok", True),
    ("The answer is 42 apples because there were 40.", "42", "ok", True),
    ("Answer: 12", "12", "ok", True),
    ("#### 1,234", "1234", "ok", True),
    ("#### 5\n#### 6", "6", "ok", True),
    ("so\nA: 26", "26", "ok", True),
    (r"#### 5, or \boxed{6}", "6", "ok", True),
    ("", "5", "no_answer", False),
    ("\x00\ud800 \u0665", "5", "no_answer", False),
    ("x" * 200_000, "5", "no_answer", False),
    ("\\boxed{" * 20_000, "5", "no_answer", False),
    (box("1+" * 10_000 + "1"), "5", "no_answer", False),
    (box("(" * 600), "5", "no_answer", False),
    (box("\u0665"), "5", "ok", True),
    (box("10+John's age"), "50", "no_answer", False),
    (r"So the solutions are \boxed{1}, \boxed{-2}", "-2,1", "ok", True),
    (r"The roots are $\boxed{-2}$ and $\boxed{1}$.", "-2,1", "ok", True),
    (r"$x=\boxed{1}$, $y=\boxed{2}$", "x=2,y=1", "ok", False),
    (r"$x=\boxed{1}$ and $y=\boxed{2}$", "x=1,y=2", "ok", True),
    (r"$\boxed{5}$ or $\boxed{6}$", "5", "ok", False),
    (r"\boxed{5} \boxed{ }", "5", "no_answer", False),
    (r"\boxed{5}. Then \boxed{7}", "7", "ok", True),
    (r"\boxed{5}" + "\n\n" + r"\boxed{7}", "7", "ok", True),
    (r"\boxed{-2}", r"\boxed{1} and \boxed{-2}", "ok", False),
    (r"\boxed5", "5", "ok", True),
    (r"\boxed 12", "12", "ok", True),
    (r"\boxed B", "B", "ok", True),
    ("<answer>5</answer>", "5", "ok", True),
    (r"<answer>It is \boxed{5}</answer>", "5", "ok", True),
    ("<answer>The answer is 5.</answer>", "5", "ok", True),
    ("<answer> 5", "5", "ok", True),
    ("The answer is 5, not 6", "5", "ok", True),
    ("The answer is not 5", "5", "no_answer", False),
    ("The answer is 5 or 6", "5", "ok", False),
    ("The answer is $x=1$ or $x=2$.", "1,2", "ok", True),
    ("The answer is $5.", "5", "ok", True),
    ("The answer is $5. I hope this answer is clear.", "5", "ok", True),
    ("The answer to the problem is 5.", "5", "ok", True),
    ("#### Step 2: add\nThe answer is 5", "5", "ok", True),
    ("The answer is therefore 5.", "5", "ok", True),
    ("答案是5", "5", "ok", True),
    ("所以，答案为：$5$。", "5", "ok", True),
    ("答え：5です。", "5", "ok", True),
    ("정답은 5입니다.", "5", "ok", True),
    ("La réponse est 5.", "5", "ok", True),
    ("La respuesta final es 5.", "5", "ok", True),
    ("A resposta é 5", "5", "ok", True),
    ("La risposta è 5.", "5", "ok", True),
    ("Die Antwort lautet 5.", "5", "ok", True),
    ("Ответ: 5", "5", "ok", True),
    ("**Ответ:** 5", "5", "ok", True),
    ("Cevap: 5", "5", "ok", True),
    ("الإجابة هي 5", "5", "ok", True),
    ("Đáp án là 5.", "5", "ok", True),
    ("Odpowiedź: 5", "5", "ok", True),
    ("Jawaban: 5", "5", "ok", True),
    ("La respuesta no es 5", "5", "no_answer", False),
]


@pytest.mark.slow
@pytest.mark.parametrize(("completion", "gold", "status", "correct"), WHOLE)
def test_what_is_read_of_a_completion(completion, gold, status, correct):
    result = verdict(completion, gold)
    assert (result.status, result.correct, result.reward) == (status, correct, float(correct))


PAIRS = [  # answer, gold, correct by default, the option that decides otherwise
    ("1/2^{99}", "1/2^{98}", False, None),
    ("1/2004!", "1/2006!", False, None),
    (r"1+\frac1{\mathrm e}", r"1-\frac1{\mathrm e}", False, None),
    (r"1-\frac1{\mathrm e}", r"1-\frac1{\mathrm{e}}", True, None),
    ("3x+4y+14=0", "3*x-1*y+13=0", False, None),
    ("2x+4y=6", "x+2y=3", True, None),
    (r"\frac97", r"\dfrac{9}{7}", True, None),
    (r"\text{13}", "13", True, None),
    ("1728", r"1331 \text{ and } 1728", False, None),
    (r"1728, 1331", r"1331 \text{ and } 1728", True, None),
    ("50", r"50\%", True, {"percent": "strict"}),
    ("0.5", r"50\%", True, None),
    (r"50\%", "0.5", True, None),
    ("50", "0.5", False, None),
    (r"50\%", "50", True, {"percent": "strict"}),
    ("28 percent", r"28\%", True, None),
    (r"10\text{ cm}", r"10\text{ m}", False, None),
    (r"10\text{ centimeters}", r"10\text{ cm}", True, None),
    ("10", r"10\text{ cm}", True, {"units": "strict"}),
    (r"15\text{ cm}^2", r"15\mbox{ cm}^2", True, None),
    ("5 km", "5000 m", False, None),
    ("1010", "1010_2", False, {"base": "lenient"}),
    ("1010_{2}", "1010_2", True, None),
    ("10", "1010_2", False, None),
    ("204_6", "204_5", False, None),
    (r"90^\circ", "90", True, {"degrees": "strict"}),
    (r"90^{\circ}", r"90^\circ", True, None),
    ("0<x<12.5", "(0,12.5)", True, {"intervals": "strict"}),
    ("(0,12.5)", "0<x<12.5", True, {"intervals": "strict"}),
    ("1<=x<=2", "[1,2]", True, {"intervals": "strict"}),
    ("[0,9)", "(0,9)", False, None),
    ("1,2", r"\{1,2\}", True, {"sets": "strict"}),
    ("2,1", "1,2", True, None),
    ("(2,1)", "(1,2)", False, None),
    (r"\begin{bmatrix}1&2\\3&4\end{bmatrix}", r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", True,
     {"matrices": "strict"}),
    (r"\begin{pmatrix}1&2\\3&5\end{pmatrix}", r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", False, None),
    ("5", "x=5", True, {"equations": "strict"}),
    ("x=5", "5", True, {"equations": "strict"}),
    ("y=5", "x=5", False, None),
    (r"x \neq 3", "x != 3", True, None),
    (r"x \neq 4", r"x \neq 3", False, None),
    (r"1\,000", "1000", True, None),
    ("1{,}000", "1000", True, None),
    (r"\$1,234.50", "1234.5", True, None),
    ("32, 349", "32349", False, None),
    ("1.5e3", "1500", True, None),
    (r"7.8\times 10^2", "780", True, None),
    ("0.333", "1/3", False, {"tolerance": 0.01}),
    ("0.3333333", "1/3", True, {"tolerance": 0.0}),
    ("0.0000002", "0.0000001", False, None),
    (r"9\frac34", "39/4", True, None),
    (r"\\frac{1}{2}", r"\frac12", True, None),
    (r"\frac12", r"\\frac{1}{2}", True, None),
    ("12:00", "1:00", False, None),
    ("12:00", "12:00", True, None),
    (r"\text{silent}", r"\text{listen}", False, None),
    ("Evelyn", r"\text{Evelyn}", True, None),
    (r"\text{(C)}", r"\text{C}", True, None),
    ("x^2+2x+1", "(x+1)^2", True, None),
    ("-5", "5", False, None),
    ("−5", "-5", True, None),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "gold", "correct", "other"), PAIRS)
def test_pairs_are_decided_as_the_table_in_the_docs_says(answer, gold, correct, other):
    result = verdict(box(answer), gold)
    assert (result.status, result.correct) == ("ok", correct)
    assert result.extracted == answer
    if other:
        assert verdict(box(answer), gold, **other).correct is not correct


def test_gold_and_answer_are_not_interchangeable():
    relations = {"sets": "lenient", "equations": "lenient"}
    assert verdict(box("11a+c"), "7 = 11a+c", **relations).correct is False
    assert verdict(box("x = 5+5+1 = 11"), "11", **relations).correct is True


@pytest.mark.parametrize(
    "gold", ["", "   ", r"\frac{}{}", r"\foo{", "[]{", "a} b{", "x" * 1001, r"\boxed{}"]
)
@pytest.mark.parametrize("completion", [box("5"), "no answer at all"])
def test_a_gold_that_does_not_parse_is_a_fault_whatever_was_answered(gold, completion):
    result = verdict(completion, gold)
    assert (result.status, result.reward, result.correct) == ("bad_gold", None, None)
    assert result.reason


@pytest.mark.parametrize(
    "gold", ["7", r"\dfrac{9}{7}", "#### 72", r"ends \boxed{3}", '["a", 2]', "C"]
)
def test_a_gold_that_can_be_read_is_none(gold):
    assert verdict("", gold).status == "no_answer"


def test_a_text_that_was_cut_off_is_read_only_when_asked():
    text = r"It is \boxed{42}. But wait"
    assert verdict(text, "42", finished=False).status == "no_answer"
    assert verdict(text, "42", finished=False, unfinished=True).correct is True


def test_a_text_without_a_mark_is_read_only_when_asked():
    text = "First we note 6*7=42"
    assert verdict(text, "42").status == "no_answer"
    assert verdict(text, "42", unanchored=True).correct is True
    assert verdict(r"\boxed{41}, not 42", "42", unanchored=True).correct is False


def test_an_answer_of_the_longest_length_is_read_and_one_longer_is_none():
    assert verdict(box("1" * 20), "1" * 20, max_length=20).correct is True
    assert verdict(box("1" * 21), "1" * 20, max_length=20).status == "no_answer"


def test_the_versions_of_what_decides_are_part_of_the_version():
    for name in ("math-verify", "latex2sympy2_extended", "sympy"):
        assert f"{name} {importlib.metadata.version(name)}" in build().version


@pytest.mark.parametrize("options", [{"tolerance": -1.0}, {"timeout_s": 0.0}, {"max_length": 0}])
def test_options_out_of_bounds_are_refused(options):
    with pytest.raises(ValueError, match="must be"):
        build(**options)


@settings(max_examples=100)
@given(st.text() | st.text("\\boxed{}$ answer is#:4", max_size=60))
def test_no_text_makes_the_extraction_raise(completion):
    for options in ({}, {"unanchored": True}):
        build(**options).extract(completion, True)
