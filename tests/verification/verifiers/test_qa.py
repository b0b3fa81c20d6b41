"""The qa verifier: what is read, what is equal, and what cannot be verified."""

import json

import pytest
from hypothesis import given, strategies as st

from rlvr_cli.verification.verifiers.qa import build

EQUAL = [
    ("Paris", "paris"),
    ("the Eiffel Tower!", "Eiffel Tower"),
    ("Beatles, The", "The Beatles"),
    ("St. Louis", "St Louis"),
    ("U.S.", "US"),
    ("Hawai’i", "Hawai'i"),  # a typographic apostrophe
    ("“Yesterday”", "Yesterday"),
    ("Beyonce\u0301", "Beyonc\u00e9"),  # decomposed and composed
    ("１９９８", "1998"),
    ("$1,000", "1000"),
    ("3–2", "3-2"),
    ("1914 - 1918", "1914–1918"),
    ("STRASSE", "Straße"),
    ("The vitamin A.", "Vitamin A"),
    ("a", "A"),
    ("北京。", "北京"),
    ("0.50%", "0.50"),
]
DIFFERENT = [
    ("1.5", "15"),
    ("-5", "5"),
    ("−5", "5"),
    ("2:1", "21"),
    ("2/3", "23"),
    ("10,5", "105"),
    ("10²", "102"),
    ("C++", "C"),
    ("C#", "C++"),
    ("AB-", "AB+"),
    ("O-", "O"),
    ("€5", "$5"),
    ("vitamin", "Vitamin A"),
    ("an", "the"),
    ("Paris Texas", "Paris"),
    ("Peter", "Pete"),
]


@pytest.mark.parametrize(("answer", "gold"), EQUAL)
def test_equal_answers_are_right(answer, gold):
    for verify in (build(), build(metric="f1"), build(metric="contains")):
        verdict = verify(f"<answer>{answer}</answer>", answer=gold, extra={})
        assert (verdict.status, verdict.reward, verdict.correct) == ("ok", 1.0, True)


@pytest.mark.parametrize(("answer", "gold"), DIFFERENT)
def test_different_answers_are_wrong_either_way_round(answer, gold):
    for left, right in ((answer, gold), (gold, answer)):
        verdict = build()(f"<answer>{left}</answer>", answer=right, extra={})
        assert (verdict.status, verdict.reward, verdict.correct) == ("ok", 0.0, False)


READ = [
    ("<answer> Paris </answer>", "Paris", None),
    ("For example, <answer>Rome</answer>. So <answer>Paris</answer>", "Paris", None),
    ("<answer>Rome<answer>Paris</answer>", "Paris", None),
    ("<ANSWER>\nParis\n</ANSWER>", "Paris", None),
    ("<finish>Paris</finish>", "Paris", None),
    ("<answer>\\boxed{\\text{Paris}}</answer>", "Paris", None),
    ("It is \\boxed{\\text{Paris}}, as said.", "Paris", None),
    ("<answer>Rome</answer>, no: <answer>Par", None, "its last <answer> is not closed"),
    ("Paris</answer>", None, "its last </answer> closes no <answer>"),
    ("<answer></answer>", None, "its <answer> is empty"),
    ("<answer>?!</answer>", None, "its answer holds punctuation alone"),
    ("\\boxed{}", None, "its box is empty"),
    ("The answer is St. Louis. It lies on the Mississippi.", "St. Louis", None),
    ("**Answer:** Paris", "Paris", None),
    ("The answer is: <b>Paris</b>", "Paris", None),
    ("所以答案是巴黎。", "巴黎", None),
    ("Final answer:\n\n**Paris**\n\nI hope this helps.", "Paris", None),
    ("Q: where?\nA: Paris\n", "Paris", None),
    ("The answer is George W. Bush.", "George W. Bush", None),
    ("The answer is Paris, because it is the capital.", "Paris", None),
    ("The answer is because of Paris", "because of Paris", None),
    ("The answer is Rome. Wait, it is Paris.", "Paris", None),
    ("The answer is Rome. No, that's Paris.", "Paris", None),
    ("The answer is Paris. Actually, it is the capital of France.", "Paris", None),
    ("The answer is Paris. Wait, it is correct.", "Paris", None),
    (
        "The answer is Paris. Wait, that's wrong. So let me look at each city of France once more "
        "and think about which of them could be meant by the question here",
        None,
        "it marks no answer and has 31 words",
    ),
    ("Paris.", "Paris.", None),
    ("", None, "it is empty"),
    ("so " * 21, None, "it marks no answer and has 21 words"),
    ("One\n\ntwo", None, "it marks no answer and has 2 words in several paragraphs"),
]


@pytest.mark.parametrize(("completion", "extracted", "reason"), READ)
def test_the_answer_is_read_from_its_mark_or_not_at_all(completion, extracted, reason):
    verdict = build()(completion, answer="Paris", extra={})
    assert (verdict.extracted, verdict.reason) == (extracted, reason)
    assert verdict.status == ("no_answer" if extracted is None else "ok")
    if extracted is None:
        assert (verdict.reward, verdict.correct) == (0.0, False)


GOLDS = [
    ('["Rome", "Paris"]', {}),
    ('{"target": ["Paris"]}', {}),  # Search-R1
    ('{"text": ["Paris", "Paris"], "answer_start": [3, 9]}', {}),  # SQuAD
    ('{"value": "Rome", "aliases": ["Paris"], "type": "WikipediaEntity"}', {}),  # TriviaQA
    ("Rome", {"golden_answers": ["Paris"]}),  # FlashRAG
    ("[]", {"golden_answers": ["Paris"]}),
    ("Paris", {"golden_answers": None}),
]


@pytest.mark.parametrize(("answer", "extra"), GOLDS)
def test_one_of_several_golds_suffices(answer, extra):
    assert build()("Paris", answer=answer, extra=extra).reward == 1.0
    assert build()("London", answer=answer, extra=extra).reward == 0.0


BAD_GOLDS = [
    ("", {}, "it is empty"),
    ("[]", {}, "it is an empty list: a question without an answer has none to compare"),
    ('{"text": [], "answer_start": []}', {}, "it is an empty list"),  # SQuAD 2, unanswerable
    ('["", " "]', {}, "it is empty"),
    ("?!", {}, "it holds punctuation alone"),
    ("['Paris', 'Rome']", {}, "it begins as a list and is no JSON list"),
    ("['Paris' 'Rome']", {}, "it begins as a list and is no JSON list"),  # NumPy's spelling
    ('{"city": "Paris"}', {}, "it is an object with none of target, "),
    ('[["Paris"]]', {}, 'its list holds ["Paris"], a text was expected'),
    ("[null]", {}, "its list holds null, a text was expected"),
]


@pytest.mark.parametrize(("answer", "extra", "reason"), BAD_GOLDS)
def test_a_gold_that_nothing_can_match_is_bad(answer, extra, reason):
    verdict = build()("Paris", answer=answer, extra=extra)
    assert verdict.status == "bad_gold" and verdict.reward is None
    assert verdict.reason.startswith(reason)


def test_f1_is_the_share_of_common_tokens_with_the_nearest_gold():
    verify = build(metric="f1", threshold=0.6)
    golds = json.dumps(["Rome", "the city of Paris"])
    verdict = verify("<answer>Paris, the capital</answer>", answer=golds, extra={})
    assert verdict.reward == pytest.approx(2 * 1 / (2 + 3)) and verdict.correct is False
    verdict = verify("<answer>Paris city</answer>", answer=golds, extra={})
    assert verdict.reward == pytest.approx(2 * 2 / (2 + 3)) and verdict.correct is True


@pytest.mark.parametrize(("answer", "gold"), [("yes and no", "no"), ("no", "no man's land")])
def test_yes_and_no_have_no_share_of_a_longer_answer(answer, gold):
    assert build(metric="f1")(answer, answer=gold, extra={}).reward == 0.0


def test_contains_takes_whole_words_alone():
    verify = build(metric="contains")
    assert verify("the art of war", answer="Art", extra={}).reward == 1.0
    assert verify("the Earth", answer="art", extra={}).reward == 0.0


def test_how_long_an_unmarked_answer_may_be_is_an_option():
    assert build(whole=0)("Paris", answer="Paris", extra={}).status == "no_answer"
    text = "word " * 30 + "Paris"
    assert build(whole=40, metric="contains")(text, answer="Paris", extra={}).reward == 1.0


@given(st.text() | st.text("<>/answerb\\{}: .", max_size=60), st.text() | st.text('[]{}", a'))
def test_it_never_raises(completion, answer):
    for metric in ("em", "f1", "contains"):
        build(metric=metric)(completion, answer=answer, extra={})


@given(st.text(min_size=1))
def test_a_gold_is_its_own_answer(gold):
    for metric in ("em", "f1", "contains"):
        verify = build(metric=metric, whole=10_000)
        verdict = verify(f"<answer>{gold}</answer>", answer=json.dumps([gold]), extra={})
        assert verdict.status == "bad_gold" or verdict.reward in (0.0, 1.0)
        tags = any(sign in gold for sign in "<\\{}")
        assert verdict.status == "bad_gold" or tags or verdict.reward == 1.0
