"""Prompts as the tools write them, as roles and texts."""

import json

import pytest

from rlvr_cli.interop.turns import fingerprint, text, turns

PARTS = [
    {"type": "text", "text": "What is this?"},
    {"type": "image_url", "image_url": {"url": "https://a.b/c.png"}},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
]


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        (None, []),
        ("", []),
        ("1 + 1?", [("prompt", "1 + 1?")]),
        ([{"role": "user", "content": "a"}], [("user", "a")]),
        ({"role": "user", "content": "a"}, [("user", "a")]),
        ([{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}],
         [("human", "a"), ("gpt", "b")]),
        ([{"role": "user", "content": PARTS}],
         [("user", "What is this?\n[image_url https://a.b/c.png]\n[image_url]\n[input_audio]")]),
        ([{"role": "assistant", "content": None, "tool_calls": [
            {"type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}]}],
         [("assistant", '[call add: {"a": 1}]')]),
        ([{"role": "assistant", "content": "so", "reasoning_content": "hm"}],
         [("assistant", "hm\nso")]),
        ('[{"role": "user", "content": "of lm-eval"}]', [("user", "of lm-eval")]),
        ('[{"not": "messages"}]', [("prompt", '[{"not": "messages"}]')]),
        ("[{cut", [("prompt", "[{cut")]),
        ({"question": "é?"}, [("prompt", '{"question": "é?"}')]),
        ([1, 2], [("prompt", "1\n2")]),
        (7, [("prompt", "7")]),
    ],
)  # fmt: skip
def test_a_prompt_of_any_tool_is_roles_and_texts(prompt, expected):
    assert turns(prompt) == expected


def test_thoughts_and_refusals_are_texts():
    parts = [{"type": "thinking", "thinking": "hm"}, {"type": "refusal", "refusal": "no"}]
    assert text(parts) == "hm\nno"


def test_the_same_prompt_in_another_shape_has_the_same_fingerprint():
    messages = [{"role": "user", "content": [{"type": "text", "text": "a"}]}]
    shapes = ["a", messages, json.dumps(messages), [{"from": "human", "value": "a"}]]
    assert len(set(map(fingerprint, shapes))) == 1 and fingerprint("b") != fingerprint("a")
