"""The text verifier: what matches, how long a text is, and which golds are bad."""

import json

import pytest
from hypothesis import given, strategies as st

from rlvr_cli import registry
from rlvr_cli.errors import UsageError
from rlvr_cli.protocols import Isolated
from rlvr_cli.verification.scoring.scorer import Question, Scorer


def verdict(spec, completion, answer=""):
    built = registry.build("verifiers", spec)
    if isinstance(built, Isolated):
        return built.judge(built.extract(completion, True), answer, {})
    return built(completion, answer=answer, extra={})


MATCHES = [
    ("text", " Paris\n", "Paris", True),
    ("text", "paris", "Paris", False),
    ("text:case=lenient", "STRASSE", "straße", True),
    ("text", "a\n b", "a b", True),
    ("text:space=strict", "a\n b", "a b", False),
    ("text:space=strict", "a b ", "a b", False),
    ("text", "caf\u00e9", "cafe\u0301", True),  # composed and decomposed
    ("text", "Paris", '["Rome", "Paris"]', True),
    ("text:match=contains", "So it is Paris.", "Paris", True),
    ("text:match=contains", "So it is paris.", "Paris", False),
    ("text:match=contains,golds=all", "red and blue", '["red", "blue"]', True),
    ("text:match=contains,golds=all", "red and green", '["red", "blue"]', False),
    ("text:match=starts", "Dear Ann, hello", "Dear Ann", True),
    ("text:match=starts", "Oh dear Ann", "Dear Ann", False),
    ("text:match=ends", "... so yes.\n", "yes.", True),
    ("text:match=ends", "yes. Or not", "yes.", False),
    ("text:match=regex", "on 2024-03-01.", r"\d{4}-\d{2}-\d{2}", True),
    ("text:match=regex", "on 1 March", r"\d{4}-\d{2}-\d{2}", False),
    ("text:match=regex", "ABC", "abc", False),
    ("text:match=regex,case=lenient", "ABC", "abc", True),
    ("text:match=regex", "line\nsecond", r"(?m)^second$", True),
    ("text:match=regex", "b", "[a-c]", True),
    ("text:match=regex", "'x'", """['"]x['"]""", True),
    ("text:match=regex", "1", "[1]", True),  # a class, and no list
    ("text:match=regex,golds=all", "a1", '["[a-z]", "[0-9]"]', True),
    ("text:match=regex,golds=all", "a", '["[a-z]", "[0-9]"]', False),
    ("text:reads=answer", "I think <answer>Paris</answer>", "Paris", True),
    ("text:match=equal,words=[1,1]", "Paris", "Paris", True),
    ("text:match=contains,words=[1,1]", "to Paris", "Paris", False),
]


@pytest.mark.parametrize(("spec", "completion", "answer", "correct"), MATCHES)
def test_a_text_matches_or_not(spec, completion, answer, correct):
    result = verdict(spec, completion, answer)
    assert (result.status, result.correct, result.reward) == ("ok", correct, float(correct))
    assert (result.reason is None) == correct


LENGTHS = [
    ("text:words=[3,4]", "one two three", True, None),
    ("text:words=[3,4]", "one two", False, "it has 2 words"),
    ("text:words=[3,none]", "one " * 99, True, None),
    ("text:words=[0,2]", "it's well-known now", False, "it has 3 words"),
    ("text:characters=[5,5]", " héllo \n", True, None),
    ("text:sentences=[2,2]", "Mr. Smith met St. Paul at 3.30 p.m. today. He left!", True, None),
    ("text:sentences=[2,2]", "# Title\n\nOne sentence", True, None),
    ("text:sentences=[2,2]", "你好。再见。", True, None),
    ("text:sentences=[1,1]", "What?! ...", True, None),
    ("text:sentences=[1,1]", "." * 100_000 + "x", True, None),
    ("text:sentences=[1,1]", "I.B.M. made it in the U.S. army.", True, None),
    ("text:sentences=[2,2]", "1. One item\n 2. Another. ", True, None),
    ("text:sentences=[2,2]", "It was 1.\nIt is 2.", True, None),
    ("text:lines=[2,2]", "a\n\n\nb\n", True, None),
    ("text:paragraphs=[2,2]", "a\nb\n \nc", True, None),
    ("text:words=[1,5],lines=[2,none]", "one line", False, "it has 1 lines"),
]


@pytest.mark.parametrize(("spec", "completion", "correct", "reason"), LENGTHS)
def test_a_length_is_within_its_range_or_not_whatever_the_gold(spec, completion, correct, reason):
    result = verdict(spec, completion, "anything")
    assert (result.status, result.correct, result.reason) == ("ok", correct, reason)


@pytest.mark.parametrize("spec", ["text:words=[0,10]", "text", "text:match=regex"])
@pytest.mark.parametrize("completion", ["", " \n"])
def test_an_empty_text_is_never_right(spec, completion):
    result = verdict(spec, completion, "(?s).*")
    assert (result.status, result.reward) == ("no_answer", 0.0) and result.reason


BAD_GOLDS = [
    ("text", "", "it is empty"),
    ("text:match=contains", " ", "it is empty"),  # every text contains it
    ("text", "[]", "it is an empty list"),
    ("text", "['Paris']", "it begins as a list"),
    ("text:match=regex", "", "it is empty"),
    ("text:match=regex", '["a", ""]', "it is empty"),
    ("text:match=regex", "a(b", "it is no regular expression: missing )"),
    ("text:match=regex", "a{99999999999}", "it is no regular expression"),
]


@pytest.mark.parametrize(("spec", "answer", "reason"), BAD_GOLDS)
def test_a_gold_that_matches_nothing_or_everything_is_bad(spec, answer, reason):
    for completion in ("text", ""):
        result = verdict(spec, completion, answer)
        assert (result.status, result.reward) == ("bad_gold", None)
        assert result.reason.startswith(reason)


def test_a_regular_expression_that_explodes_is_stopped_at_its_time_limit():
    spec = "text:match=regex,timeout_s=2.0"
    built = registry.build("verifiers", spec)
    questions = [
        Question(spec, built, completion, True, "^(a+)+$", {})
        for completion in ("a" * 40 + "b", "aa")
    ]
    with Scorer(workers=1) as scorer:
        first, second = scorer.verdicts(questions)
    assert (first.status, first.reward) == ("timeout", None)
    assert (second.status, second.reward) == ("ok", 1.0)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("text:words=[5,1]", "does not fall"),
        ("text:match=none", "asks for nothing"),
        ("text:timeout_s=0", "timeout_s"),
        ("text:words=5", "a list"),
    ],
)
def test_options_that_ask_for_nothing_are_refused(spec, message):
    with pytest.raises(UsageError, match=message):
        registry.build("verifiers", spec)


@given(st.text(), st.text() | st.text('[]{}", a'))
def test_it_never_raises(completion, answer):
    for spec in ("text", "text:match=contains,golds=all,case=lenient", "text:reads=answer"):
        verdict(spec, completion, answer)


@given(st.text(min_size=1), st.text(max_size=5))
def test_a_text_equals_contains_begins_and_ends_with_itself(text, around):
    answer = json.dumps([text])
    for match in ("equal", "contains", "starts", "ends"):
        for options in ("", ",case=lenient", ",space=strict"):
            result = verdict(f"text:match={match}{options}", text, answer)
            assert result.correct or not text.strip()
