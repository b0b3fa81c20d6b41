r"""The grade of a judge's reply: what is marked is read, and everything else is refused."""

import pytest
from hypothesis import given, strategies as st

from rlvr_cli.verification.parsing.grades import NoGrade, Scale, read

TEN, ONE = Scale(0, 10), Scale(0, 1)
CIP = Scale(0, 1, {"C": 1.0, "P": 0.5, "I": 0.0})

READ = [
    ("Score: 7", TEN, 7),
    ("**Score:** 7/10", TEN, 7),
    ("**Final score: 7/10**", TEN, 7),
    ("## Score\n7", TEN, 7),
    ("Reward: 10", TEN, 10),  # not 1
    ("Score: 1e1", TEN, 10),
    ("Score: .5", ONE, 0.5),
    ("Score: 1,000", Scale(0, 1000), 1000),
    ("Score: 7.5.", TEN, 7.5),
    ("Score: 7 - it is good", TEN, 7),
    ("Score: 5/10 (partially correct)", TEN, 5),
    ("Overall score is 6.", TEN, 6),
    ("Score: 85%", ONE, 0.85),
    ("Score: 8 out of 10", ONE, 0.8),
    ("Score: -1", Scale(-1, 1), -1),
    ("Correctness: 3\nStyle: 9\nTotal score: 6", TEN, 6),
    ("Score: 10 would be too much.\nScore: 3", TEN, 3),
    ("Rating: [[5]]", TEN, 5),
    ("I rate it [[5]]", TEN, 5),
    ("<score>4</score>", TEN, 4),
    (r"So \boxed{6}", TEN, 6),
    (r"$\boxed{\text{Yes}}$", ONE, 1),
    ('{"score": 8.5, "reason": "good"}', TEN, 8.5),
    ('```json\n{"explanation": "Score: 9", "criteria_met": false}\n```', ONE, 0),
    ('{"verdict": "yes"}', ONE, 1),
    ('Score: 7\n{"score": 6}', TEN, 6),
    ('{"score": 6}\nScore: 7', TEN, 7),
    # JSON that is none, as small models write it
    ('{\n  "explanation": "it "works"",\n  "criteria_met": true,\n}', ONE, 1),
    ("{'score': 7}", TEN, 7),
    ('```json\n{"score": 7, "reason": "because', TEN, 7),
    ("7", TEN, 7),
    ("Yes", ONE, 1),
    ("no.", ONE, 0),
    ("CORRECT\nBecause they are equal.", ONE, 1),
    ("They are equal.\n\n**Yes**", ONE, 1),
    ("Final Decision: Yes", ONE, 1),
    ("Verdict: Correct. However, it is long.", ONE, 1),
    ("**Verdict: No**", ONE, 0),
    ("The answer is correct.", ONE, 1),
    ("GRADE: C", CIP, 1),
    ("GRADE: P", CIP, 0.5),
    ("The response is right.\n\nGRADE: I", CIP, 0),
    ("<think>Score: 3</think>Score: 4", TEN, 4),
    ("Score: 3</think>Score: 4", TEN, 4),
    ("Verdict：yes", ONE, 1),
    ("## Verdict:\n\nyes", ONE, 1),
    ("Score: **7**/10", TEN, 7),
    ("Score (0-10): 7", TEN, 7),
    ("**Score [0-10]:** 7", TEN, 7),
    # What a judge restates of the answer that it judged is not its verdict.
    ("Verdict: no\nThe gold is \\boxed{1}.", ONE, 0),
    ("Verdict: no, as the gold is \\boxed{1}", ONE, 0),
    ('Verdict: no\n{"answer": 1}', ONE, 0),
    ("Verdict: no\nAnswer: yes", ONE, 0),
    ("Score: 7\n\nYes", TEN, 7),
    ("No.\n\nVerdict: yes", ONE, 1),
]


@pytest.mark.parametrize(("reply", "scale", "grade"), READ)
def test_a_marked_grade_is_read(reply, scale, grade):
    assert read(reply, scale) == grade


REFUSED = [
    ("", TEN, "empty"),
    ("</think>  ", TEN, "empty"),
    ("<think> Score: 3", TEN, "do not end"),
    ("I cannot grade this.", TEN, "no grade"),
    ("I would give Score: 10 but no", TEN, "no grade"),
    ("There are 5 reasons why this is a score of 9", TEN, "no grade"),
    ("This is not excellent but acceptable", ONE, "no grade"),
    ("Score: 11", TEN, "not from 0 to 10"),
    ("Score: 8", ONE, "not from 0 to 1"),
    ("Score: -1", TEN, "not from 0 to 10"),
    ("Score: 7-8", TEN, "neither"),
    ("Score: 8 or 9", TEN, "neither"),
    ("Score: 3,5", TEN, "neither"),
    ("Score: 8, 9", TEN, "neither"),
    ("Score: N/A", TEN, "neither"),
    ("Score: nan", TEN, "neither"),
    ("Score: 0x10", TEN, "neither"),
    ("Score: 8 out of 5", TEN, "out of 5, not 10"),
    ("Score: " + "9" * 400, TEN, "not from"),
    ("Verdict: maybe", ONE, "neither"),
    ("Verdict: yes or no", ONE, "neither"),
    ("Verdict: yes/no", ONE, "neither"),
    ("Verdict: not correct", ONE, "neither"),
    ("Verdict: yes\nVerdict:", ONE, "neither"),  # it was about to change its mind
    ("Answer: 1", ONE, "no grade"),  # of the question, as likely as not
    ("GRADE: C", ONE, "neither"),  # correct for some, not attempted for others
    ("Verdict: yes", CIP, "neither"),
    ('{"score": null}', TEN, "neither"),
    ('{"score": {"style": 1}}', TEN, "neither"),
    ('{"score": NaN}', TEN, "not from"),
    ('{"score": ' + "9" * 400 + "}", TEN, "not from"),
    ('{"correct": true, "verdict": "no"}', ONE, "several grades"),
]


@pytest.mark.parametrize(("reply", "scale", "why"), REFUSED)
def test_a_reply_without_a_clear_grade_of_the_scale_is_refused_with_the_reason(reply, scale, why):
    with pytest.raises(NoGrade, match=why):
        read(reply, scale)


@pytest.mark.parametrize(
    ("way", "grade"), [("label", 1), ("json", 2), ("boxed", 3), ("alone", 4), ("any", 2)]
)
def test_the_way_of_marking_may_be_fixed(way, grade):
    reply = 'Score: 1\n{"score": 2}\nso \\boxed{3} is\n4'
    assert read(reply, TEN, way) == grade


@given(st.text(alphabet='Score: 0123./{}"[]\\boxed<think>yesno\n*-', max_size=80))
def test_any_text_gives_a_grade_of_the_scale_or_a_reason(reply):
    try:
        assert 0 <= read(reply, ONE) <= 1
    except NoGrade as error:
        assert str(error)
