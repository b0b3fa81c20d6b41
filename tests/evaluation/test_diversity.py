"""Every figure of diversity of sets whose figures are known: collapsed ones and unlike ones."""

import json
import math

import pytest

ALL_EQUAL = {
    "1 - self-bleu": 0, "distinct-1": 1 / 8, "distinct-2": 1 / 8, "distinct-3": 1 / 8,
    "answer entropy": 0, "tfidf similarity": 1, "jaccard similarity": 1, "length std": 0,
}  # fmt: skip
ALL_UNLIKE = {
    "1 - self-bleu": 1, "distinct-1": 1, "distinct-2": 1, "distinct-3": 1,
    "answer entropy": math.log(8), "tfidf similarity": 0, "jaccard similarity": 0, "length std": 0,
}  # fmt: skip


@pytest.fixture
def figures(rlvr, jsonl):
    """The means of `rlvr diversity` over prompts of these completions."""

    def run(*prompts: list[str], **columns: list) -> dict[str, float]:
        rows = [
            {"id": i, "completions": texts, "extracted": texts, "correct": [False] * len(texts)}
            | columns
            for i, texts in enumerate(prompts)
        ]
        summary = json.loads(rlvr("diversity", jsonl(*rows), "--json").out)
        return {name: cell[0] for name, cell in summary["metrics"].items()}

    return run


@pytest.mark.parametrize(
    ("texts", "expected", "length"),
    [
        (["7"] * 8, ALL_EQUAL, 1),
        (["yes"] * 8, ALL_EQUAL, 1),
        ([""] * 8, ALL_EQUAL, 0),
        (list("abcdefgh"), ALL_UNLIKE, 1),
        ([f"a{i} b{i} c{i} d{i} e{i}" for i in range(8)], ALL_UNLIKE, 5),
    ],
)
def test_collapsed_and_unlike_sets_have_the_ends_of_every_scale(figures, texts, expected, length):
    assert figures(texts) == pytest.approx(expected | {"length": length})


def test_texts_that_differ_in_white_space_alone_are_collapsed(figures):
    found = figures(["", " ", "\n", "\t", "  ", " \n", "\n\n", "\t "])
    entropy = math.log(8)  # the answers were extracted with their white space
    assert found == pytest.approx(ALL_EQUAL | {"answer entropy": entropy, "length": 0})


def test_one_prompt_of_short_texts_leaves_no_figure_unknown(figures):
    found = figures(["7"] * 8, [f"a{i} b{i} c{i} d{i}" for i in range(8)])
    assert found["distinct-3"] == pytest.approx((1 / 8 + 1) / 2)
    assert all(value is not None for value in found.values())


def test_all_right_is_one_answer_and_no_answer_is_one_too(figures):
    assert figures(["a", "b"], correct=[True, True])["answer entropy"] == 0
    silent = figures(["a", "b"], ["c", "d"], extracted=[None, None])
    assert "answer entropy" not in silent


def test_truncated_is_0_of_none_and_1_of_all(figures):
    assert figures(["7"] * 2, finish_reason=["stop"] * 2)["truncated"] == 0
    assert figures(["7"] * 2, finish_reason=["length"] * 2)["truncated"] == 1


def test_a_prompt_of_one_completion_cannot_differ(refused, rlvr, jsonl):
    row = {"id": "a", "completion": "7"}
    assert "no prompt has two completions" in refused(3, "diversity", jsonl(row))
    pair = {"id": "b", "completions": ["7", "7"]}
    rows = [{"id": "a", "completions": ["7"]}, pair]
    summary = json.loads(rlvr("diversity", jsonl(*rows), "--json").out)
    assert (summary["left_out"], summary["prompts"]) == (["a"], 1)
