"""The form of a text."""

import pytest
from hypothesis import given, strategies as st

from rlvr_cli.verification.verifiers.format import build

TABLE = [
    ("boxed", "so \\boxed{5}", True),
    ("boxed", "so 5", False),
    ("boxed", "so \\boxed{ }", False),
    ("boxed", "so \\boxed{5", False),
    ("think", "<think>hm</think> 5", True),
    ("think", " <think>\n</think> 5", False),
    ("think", "<think>hm</think> ", False),
    ("think", "<think>hm</think><think>hm</think> 5", False),
    ("think", "well <think>hm</think> 5", False),
    ("think", "</think>hm<think> 5", False),
    ("think-boxed", "<think>\\boxed{5}</think> 5", False),
    ("think-boxed", "<think>hm</think> \\boxed{5}", True),
    ("think-boxed", "\\boxed{5}", False),
]


@pytest.mark.parametrize(("form", "completion", "has"), TABLE)
def test_verdicts(form, completion, has):
    verdict = build(form=form)(completion, answer="anything", extra={})
    assert (verdict.status, verdict.reward, verdict.correct) == ("ok", float(has), has)


@given(st.text() | st.text("<think>/ \\boxed{}", max_size=60))
def test_it_never_raises(completion):
    for form in ("boxed", "think", "think-boxed"):
        build(form=form)(completion, answer="", extra={})
