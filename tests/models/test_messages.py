"""Prompts in the shapes that data sets have them in."""

import json

import pytest
from hypothesis import given, strategies as st

from rlvr_cli.config import RolloutOptions
from rlvr_cli.errors import DataError
from rlvr_cli.models import messages, prompt_options
from rlvr_cli.models.wording import Wording

USER, GOLD = {"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}


@pytest.mark.parametrize(
    ("value", "prompt", "shape"),
    [
        ("1+1?", "1+1?", None),
        ("[1, 2] sorted?", "[1, 2] sorted?", None),
        ('[{"a": 1}] has which keys?', '[{"a": 1}] has which keys?', None),
        ('[{"a": 1}]', '[{"a": 1}]', None),
        ([USER], [USER], None),
        (json.dumps([USER]), [USER], "JSON text"),
        (USER, [USER], "one message"),
        ({"messages": [USER], "id": 3}, [USER], "an object with `messages`"),
        (
            [{"from": "system", "value": "s"}, {"from": "human", "value": "1+1?"}],
            [{"role": "system", "content": "s"}, USER],
            "ShareGPT's from and value",
        ),
        (
            [{"role": "user", "content": [{"type": "text", "text": "1+"}, {"text": "1?"}]}],
            [USER],
            None,
        ),
        (
            [{"role": "user", "content": [{"type": "text", "value": "1+1?"}]}],  # LLaMA-Factory's
            [USER],
            None,
        ),
        ([{**USER, "name": None, "tool_calls": None}], [USER], None),
        (
            [{"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
             {"role": "tool", "content": "3", "tool_call_id": "1"}],
            [{"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
             {"role": "tool", "content": "3", "tool_call_id": "1"}],
            None,
        ),
    ],
)  # fmt: skip
def test_a_shape_is_read_as_text_or_as_role_and_content(value, prompt, shape):
    assert messages.read(value, "a") == (prompt, shape)


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (5, "prompt `a` is `5`: no text and no messages"),
        (None, "prompt `a` is `null`"),
        ([], "an empty list of messages"),
        (["1+1?"], 'prompt `a` holds `"1\\+1\\?"`: no message with a role'),
        ([{"content": "1+1?"}], "no message with a role"),
        ([{"role": "user"}], "a user turn without content"),
        ([{"role": "user", "content": {"text": "1+1?"}}], "whose content is"),
        (
            [{"role": "user", "content": [{"type": "video", "video": "x"}]}],
            "a part of type `video`",
        ),
        ([{"role": "user", "content": [{"type": "text"}]}], 'holds `{"type": "text"}`'),
        ([{"from": "narrator", "value": "once"}], "a turn from `narrator`"),
    ],
)
def test_what_is_no_prompt_is_refused_with_its_name(value, what):
    with pytest.raises(DataError, match=what):
        messages.read(value, "a")


def test_text_in_a_prompts_directory_is_text_even_if_it_looks_like_messages():
    assert messages.stored(json.dumps(json.dumps([USER])), "a") == json.dumps([USER])


@pytest.mark.parametrize(
    ("prompt", "question"),
    [
        ("1+1?", "1+1?"),
        ([{"role": "system", "content": "s"}, USER], "1+1?"),
        ([USER, GOLD, {"role": "user", "content": "2+2?"}], "2+2?"),
        ([USER, {"role": "tool", "content": "2"}], "1+1?"),
        ([{"role": "system", "content": "s"}], "s"),
    ],
)
def test_the_question_is_what_the_user_said_last(prompt, question):
    assert messages.question(prompt) == question


def test_the_turns_of_the_assistant_at_the_end_are_the_answer():
    assert messages.ends_with_answer([USER, GOLD]) and not messages.ends_with_answer([USER])
    assert messages.without_answer([USER, GOLD, USER, GOLD, GOLD], "a") == [USER, GOLD, USER]
    with pytest.raises(DataError, match="only assistant turns"):
        messages.without_answer([GOLD], "a")


def user(*parts):
    """A user's turn; `#1` is an image, any other part is text."""
    content = [
        {"type": "image", "image": part} if part[:1] == "#" else {"type": "text", "text": part}
        for part in parts
    ]
    return {"role": "user", "content": content}


def test_parts_with_images_are_kept_in_order_and_texts_that_follow_each_other_are_one():
    parts = [{"type": "text", "text": "A"}, {"type": "text", "text": "b "}, {"type": "image"},
             {"type": "text", "text": ""}, {"type": "image", "image": "#2"}]  # fmt: skip
    (turn,), shape = messages.read([{"role": "user", "content": parts}], "a")
    place = {"type": "image", "image": None}
    assert turn["content"] == [{"type": "text", "text": "Ab "}, place, user("#2")["content"][0]]
    assert shape is None and messages.images([turn]) == [None, "#2"]
    assert messages.question([turn]) == "Ab "


def test_stored_parts_are_read_as_they_are():
    turns = [{"role": "system", "content": "Look."}, user("#1", "What?")]
    assert messages.stored(json.dumps(turns), "a") == turns
    assert messages.question(turns) == "What?" and messages.images(turns) == ["#1"]


@pytest.mark.parametrize(
    ("parts", "text", "expected"),
    [
        (["#1", "What?"], "Q: What? Answer:", ["#1", "Q: What? Answer:"]),
        (["a ", "#1", " b"], "<a  b>", ["<a ", "#1", " b>"]),
        (["a", "#1", "b"], "b", ["#1", "b"]),
        (["abc", "#1", "def", "#2"], "cdef", ["c", "#1", "def", "#2"]),
        (["abc", "#1"], "", ["#1"]),
        (["a", "#1", "b", "#2"], "other", ["#1", "#2", "other"]),
        (["#1"], "new", ["#1", "new"]),
        (["#1"], "", ["#1"]),
    ],
)
def test_another_text_leaves_every_image(parts, text, expected):
    assert messages.with_text(user(*parts)["content"], text) == user(*expected)["content"]


@given(
    st.lists(st.sampled_from(["#1", "#2", "ab", "a", "b "]), min_size=1), st.text("ab ", max_size=6)
)
def test_the_text_of_a_content_with_another_text_is_that_text(parts, text):
    content = messages.merged(user(*parts)["content"])
    changed = messages.with_text(content, text)
    assert messages.text(changed) == text
    assert messages.images([{"content": changed}]) == [part for part in parts if part[0] == "#"]


def test_what_options_put_around_a_question_goes_around_its_text():
    wording = Wording(prompt_options.resolved(RolloutOptions(suffix=" Think.")))
    assert wording.turns("a", [user("#1", "What", "#2", "?")]) == [
        user("#1", "What", "#2", "? Think.")
    ]


def test_messages_in_the_spelling_of_python_are_read_or_refused():
    """As `to_csv` of pandas writes a list, and an array of NumPy without commas."""
    turns = [USER, {"role": "assistant", "content": "it's 4"}]
    assert messages.read(str(turns), "p") == (turns, "messages in Python's spelling")
    with pytest.raises(DataError, match="Python's spelling that cannot be read"):
        messages.read(f"[{USER}\n {USER}]", "p")
    for text in ("[{'a': 1}] is a list", "What is [{'role': 1}]?"):
        assert messages.read(text, "p") == (text, None)
