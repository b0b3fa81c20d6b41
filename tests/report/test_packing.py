import base64
import json
import re
import zlib

import pytest

RIGHT, WRONG = ("The answer is 1", True), ("The answer is 2", False)


def unpacked(text):
    return json.loads(zlib.decompress(base64.b64decode(text)))


def held(html):
    """The table of a page, and its completions by prompt."""
    table = unpacked(re.search(r'id="table-data">(.*?)</script>', html)[1])
    blocks = [unpacked(text) for text in re.findall(r'class="block">(.*?)</script>', html)]
    return table, {row[0] or row[1]: blocks[row[4]][row[5]] for row in table["rows"]}


def text_of(packed):
    return packed if isinstance(packed, str) else packed[0]


def test_every_completion_is_in_the_page_in_the_order_of_its_samples(report, imported):
    texts = {f"p{n}": [(f"{n} and {i}", i > n) for i in range(5)] for n in range(4)}
    table, found = held(report(imported(texts)).html)
    assert [row[1] for row in table["rows"]] == list(texts)
    for name, expected in texts.items():
        (side,) = found[name]["sides"]
        assert [text_of(text) for text, *_ in side["texts"]] == [text for text, _ in expected]
        right = sorted(
            p for verdict, *_, members in side["groups"] if verdict == 1 for p in members
        )
        assert right == [i for i, (_, correct) in enumerate(expected) if correct]


def test_rows_count_what_is_right_judged_different_and_truncated(report, imported):
    texts = {"a": [("1 one", True), ("2 two", True), ("3", False), ("4", None)], "b": [WRONG] * 4}
    table, _ = held(report(imported(texts, finish_reason="length")).html)
    assert [row[-1] for row in table["rows"]] == [[[2, 3, 4, 2, 4]], [[0, 4, 4, 0, 4]]]


def test_prompts_of_one_name_that_differ_are_two_rows(report, imported):
    texts = {"a": [RIGHT, WRONG], "b": [WRONG, RIGHT]}
    table, found = held(report(imported(texts, "x"), imported(texts, "y", answer="7")).html)
    assert [row[0] or row[1] for row in table["rows"]] == ["a", "b", "a (2)", "b (2)"]
    assert [bool(c) for c in table["rows"][2][-1]] == [False, True]
    assert found["a (2)"]["sides"][0] is None and found["a (2)"]["gold"] == "7"
    assert not any(row[6] for row in table["rows"])


def test_two_runs_of_the_same_prompts_share_their_rows(report, imported):
    one = imported({"a": [RIGHT, WRONG], "b": [WRONG, RIGHT]}, "one")
    two = imported({"b": [RIGHT, RIGHT], "c": [RIGHT, WRONG]}, "two")
    table, found = held(report(one, two).html)
    assert [(row[1], row[6]) for row in table["rows"]] == [("a", 0), ("b", 1), ("c", 0)]
    assert [side is None for side in found["c"]["sides"]] == [True, False]


@pytest.mark.slow
def test_a_page_keeps_to_its_size_and_says_what_it_cut(report, imported):
    import random

    rng = random.Random(0)
    texts = {
        f"p{n}": [("begin " + rng.randbytes(3000).hex() + f" end {i}", i > 1) for i in range(4)]
        for n in range(40)
    }
    made = imported(texts)
    whole, small = report(made, max_mb=5).html, report(made, max_mb=0.8).html
    assert len(whole) > 900_000 > 800_000 > len(small)
    assert "have lost their middle" not in whole
    assert "160 of 160 completions are longer than" in small
    _, found = held(small)
    for name in texts:
        for at, (packed, length, _) in enumerate(found[name]["sides"][0]["texts"]):
            head, left_out, tail, *_ = packed
            assert head.startswith("begin") and tail.endswith(f"end {at}")
            assert len(head) + left_out + len(tail) == length == len(texts[name][at][0])


def test_what_is_not_set_for_the_limit_is_counted(report, imported):
    made = imported({"a": [(f"**{name}** " * 50, name == "x") for name in "xyzw"]})
    html = report(made, most_set=1000, most_examples=0).html
    _, found = held(html)
    plain = [isinstance(text, str) for text, *_ in found["a"]["sides"][0]["texts"]]
    assert plain == [False, True, True, True]  # each prompt has its share
    assert "3 texts are shown raw" in html and "here 1,000." in html
    assert "shown raw" not in report(made).html
