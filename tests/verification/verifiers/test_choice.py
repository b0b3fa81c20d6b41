"""The choice verifier: (completion, gold, number of options, status, extracted)."""

import pytest
from hypothesis import given, strategies as st

from rlvr_cli.verification.verifiers.choice import build

TABLE = [
    ("The answer is (D).", "D", 4, "ok", "D"),
    ("Answer: D", "D", 4, "ok", "D"),
    ("ANSWER: D", "D", 4, "ok", "D"),
    ("**Answer:** D", "D", 4, "ok", "D"),
    ("**Answer: (D)**", "D", 4, "ok", "D"),
    ("The final answer is $\\boxed{\\text{(D)}}$", "D", 4, "ok", "D"),
    ("The answer is \\textbf{D}", "D", 4, "no_answer", None),
    ("The correct option is C.", "C", 4, "ok", "C"),
    ("The answer is option C", "C", 4, "ok", "C"),
    ("Answer: A\nNo, wait.\nAnswer: B", "B", 4, "ok", "B"),
    ("Answer: D. Option A is wrong because it is hot.", "D", 4, "ok", "D"),
    ("Antwort: D", "D", 4, "no_answer", None),
    ("Answer seems to be A", "A", 4, "ok", "A"),
    ("Answer seems odd", "A", 4, "no_answer", None),
    ("A careful reading shows option (D)", "D", 4, "no_answer", None),
    ("the answer is a bit unclear", "A", 4, "no_answer", None),
    ("The answer is A bit unclear", "A", 4, "ok", "A"),
    ("Answer: I'd say none", "I", 10, "no_answer", None),
    ("The answer is I", "I", 10, "ok", "I"),
    ("The answer is I", "C", 4, "no_answer", None),
    ("I think so. Answer: J", "J", 10, "ok", "J"),
    ("Answer: J", "A", 4, "no_answer", None),
    ("\\boxed{\\Delta E} so Answer: D", "D", 5, "ok", "D"),
    ("\\boxed{E}", "E", 5, "ok", "E"),
    ("the answer is G, H and I", "G", 10, "no_answer", None),
    ("the answer is G or H", "G", 10, "no_answer", None),
    ("the answer is A/B", "A", 4, "no_answer", None),
    ("D", "D", 4, "ok", "D"),
    (" (D). ", "D", 4, "ok", "D"),
    ("d", "D", 4, "ok", "D"),
    ("a", "D", 4, "ok", "A"),
    ("A man walks", "A", 4, "no_answer", None),
    ("The answer is CBF", "C", 4, "no_answer", None),
    ("Answer:\nB", "B", 4, "ok", "B"),
    ("", "B", 4, "no_answer", None),
    ("Answer: \u0392", "B", 4, "no_answer", None),  # a Greek capital
    ("Answer: D" + "x" * 30_000, "D", 4, "no_answer", None),
    ("answer " * 100_000, "D", 4, "no_answer", None),
    ("Answer: D", "(d)", 4, "ok", "D"),
    ("Answer: D", "E", 4, "bad_gold", "it is none of A, B, C, D"),
    ("Answer: D", "", 4, "bad_gold", "it is none of A, B, C, D"),
    ("", "7", 4, "bad_gold", "it is none of A, B, C, D"),
]


@pytest.mark.parametrize(("completion", "answer", "count", "status", "extracted"), TABLE)
def test_verdicts(completion, answer, count, status, extracted):
    verdict = build()(completion, answer=answer, extra={"options": ["?"] * count})
    said = verdict.reason if status == "bad_gold" else verdict.extracted
    assert (verdict.status, said) == (status, extracted)
    right = status == "ok" and extracted == answer.strip("()").upper()
    assert (verdict.reward, verdict.correct) == (
        (None, None) if status == "bad_gold" else (float(right), right)
    )


def test_a_gold_may_be_a_label_that_is_a_number():
    extra = {"choices": {"text": ["x", "y", "z"], "label": ["1", "2", "3"]}}
    assert build()("Answer: B", answer="2", extra=extra).correct is True
    assert build()("Answer: D", answer="2", extra=extra).status == "no_answer"


def test_options_may_be_a_list_as_text_or_a_number():
    assert build()("Answer: E", answer="E", extra={"options": '["a","b","c","d","e"]'}).correct
    assert build(options=5)("Answer: E", answer="E", extra={}).correct
    assert build()("Answer: E", answer="E", extra={}).status == "bad_gold"


@given(st.text() | st.text("AB ()answer is:*", max_size=40), st.text(max_size=3))
def test_it_never_raises(completion, answer):
    build()(completion, answer=answer, extra={})
