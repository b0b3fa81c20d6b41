"""Which part of a completion is its answer."""

import pytest

from rlvr_cli.errors import UsageError
from rlvr_cli.verification.parsing import thoughts

THINK = thoughts.read(thoughts.DEFAULT)


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        ("It is 5.", "It is 5."),
        ("<think>4?</think>It is 5.", "It is 5."),
        ("4?</think>It is 5.", "It is 5."),
        ("<think>4?</think>5<think>6?</think>7", "7"),
        ("<think>a <think>b</think> c</think>5", "5"),
        ("<think>4?", None),
        ("It is 5.<think>or", None),
        ("<think>4?</think>5<think>6", None),
        ("<think>4?</think>", ""),
        ("", ""),
        ("<thinking>4</thinking>5", "<thinking>4</thinking>5"),
    ],
)
def test_what_follows_the_last_thought_is_the_answer_and_an_open_thought_has_none(
    completion, answer
):
    assert thoughts.answer_of(completion, THINK) == answer


def test_a_completion_of_a_prompt_that_opens_a_thought_begins_within_it():
    assert thoughts.opens("What is 2+3?\n<think>\n", THINK)
    assert not thoughts.opens("Put your thoughts in <think> tags.", THINK)
    assert thoughts.answer_of("It is 5.", THINK, is_open=True) is None
    assert thoughts.answer_of("hm</think>It is 5.", THINK, is_open=True) == "It is 5."


def test_other_markers_are_named_by_what_opens_and_closes_or_by_what_an_answer_follows():
    pair = thoughts.read("<reasoning>...</reasoning>")
    assert thoughts.answer_of("<reasoning>4</reasoning>5", pair) == "5"
    assert thoughts.answer_of("<think>4</think>5", pair) == "<think>4</think>5"
    final = thoughts.read("<|channel|>final<|message|>")
    text = "<|channel|>analysis<|message|>4<|channel|>final<|message|>5"
    assert thoughts.answer_of(text, final) == "5"
    assert thoughts.answer_of("4", final) is None
    assert thoughts.answer_of("<think>4", thoughts.read("none")) == "<think>4"
    assert not thoughts.opens("<think>", final) and not thoughts.opens("<think>", None)


@pytest.mark.parametrize("text", ["", "...", "<think>...", "...</think>", "a...a"])
def test_markers_that_mark_nothing_are_refused(text):
    with pytest.raises(UsageError, match=r"neither `OPEN\.\.\.CLOSE` nor `CLOSE`"):
        thoughts.read(text)
