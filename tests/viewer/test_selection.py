"""Which prompts are shown of one file or of two, in which order, and where one is."""

import json

import pytest

from rlvr_cli.viewer import files
from rlvr_cli.viewer.filters import RowFilter, natural
from rlvr_cli.viewer.selection import Selection

A = {"p1": "++-", "p2": "---", "p10": "+++", "p3": "-"}
B = {"p10": "+--", "p2": "--+", "p4": "+", "p1": "++-"}


def rows_of(texts, **columns):
    return [
        {"id": name, "prompt": f"{name}?", "completion": f"{name} {n} " + "x" * n,
         "correct": mark == "+", **columns}
        for name, marks in texts.items() for n, mark in enumerate(marks)
    ]  # fmt: skip


@pytest.fixture
def index(tmp_path):
    def make(rows, name="a.jsonl"):
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        *_, last = files.snapshots(path)
        return last

    return make


@pytest.fixture
def one(index):
    return Selection([index(rows_of(A))])


@pytest.fixture
def two(index):
    return Selection([index(rows_of(A)), index(rows_of(B), "b.jsonl")])


def shown(selection):
    return [selection.names[prompt] for prompt in selection.shown]


def place(selection):
    """The prompt, and the sample of each side."""
    samples = [None if row is None else int(selection.indexes[side].sample_N[row])
               for side, row in enumerate(selection.rows)]  # fmt: skip
    return selection.names[selection.at], samples


@pytest.mark.parametrize(
    ("order", "down", "expected"),
    [
        ("file", False, ["p1", "p2", "p10", "p3"]),
        ("file", True, ["p3", "p10", "p2", "p1"]),
        ("pass rate", False, ["p2", "p3", "p1", "p10"]),
        ("pass rate", True, ["p10", "p1", "p2", "p3"]),
        ("length", False, ["p3", "p1", "p2", "p10"]),
        ("truncated", False, ["p1", "p2", "p10", "p3"]),
        ("id", False, ["p1", "p2", "p3", "p10"]),
        ("id", True, ["p10", "p3", "p2", "p1"]),
    ],
)
def test_prompts_are_sorted(one, order, down, expected):
    one.sort(order, down=down)
    assert shown(one) == expected and place(one)[0] == expected[0]


@pytest.mark.parametrize(
    ("order", "down", "expected"),
    [
        ("file", False, ["p1", "p2", "p10", "p3", "p4"]),
        ("difference", False, ["p10", "p1", "p2", "p3", "p4"]),
        ("difference", True, ["p2", "p1", "p10", "p3", "p4"]),
        ("pass rate of A", False, ["p2", "p3", "p1", "p10", "p4"]),
        ("pass rate of B", True, ["p4", "p1", "p2", "p10", "p3"]),
    ],
)
def test_two_sides_are_sorted_and_what_has_no_figure_is_last(two, order, down, expected):
    two.sort(order, down=down)
    assert shown(two) == expected


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ("partly right", ["p1", "p2", "p10"]),
        ("gained", ["p2"]),
        ("lost", None),
        ("in both", ["p1", "p2", "p10"]),
        ("in one alone", ["p3", "p4"]),
    ],
)
def test_prompts_of_a_group_are_shown(two, group, expected):
    assert two.choose(RowFilter(group=group)) is (expected is not None)
    assert shown(two) == (expected or ["p1", "p2", "p10", "p3", "p4"])


def test_a_filter_that_nothing_passes_changes_nothing(one):
    assert not one.choose(RowFilter(verdict="no verdict"))
    assert one.filter == RowFilter() and len(one.shown) == 4


def test_a_filter_moves_to_the_next_prompt_that_passes_or_the_last(one):
    one.step(1)
    assert one.choose(RowFilter(verdict="right")) and place(one) == ("p10", [0])
    one.choose(RowFilter())
    one.go(one.shown[-1])
    assert one.choose(RowFilter(verdict="right")) and place(one) == ("p10", [0])


def test_samples_are_those_that_pass(one):
    one.choose(RowFilter(verdict="wrong"))
    assert place(one) == ("p1", [2]) and not one.sample(1)


def test_a_prompt_that_one_side_lacks_is_shown_on_the_other(two):
    two.jump("p3")
    assert place(two) == ("p3", [0, None]) and two.active == 0 and not two.other_side()
    two.jump("p4")
    assert place(two) == ("p4", [None, 0]) and two.active == 1


def test_samples_move_on_the_active_side_alone(two):
    assert two.sample(1) and place(two) == ("p1", [1, 0])
    assert two.other_side() and two.sample(1) and place(two) == ("p1", [1, 1])
    two.row(1), two.row(1)
    assert place(two) == ("p2", [0, 0])
    two.row(-1)
    assert place(two) == ("p1", [2, 2])


@pytest.mark.parametrize(
    ("text", "expected"),
    [("p10", "p10"), ("#2", "p2"), ("2", "p2"), (" 4 ", "p3"), ("P3", "p3"), ("10", "p10"),
     ("", None), ("#9", None), ("zzz", None)],
)  # fmt: skip
def test_a_jump_finds_an_id_a_number_or_a_part(one, text, expected):
    assert one.jump(text) is (expected is not None)
    assert place(one)[0] == (expected or "p1")


def test_an_id_that_is_a_number_is_found_before_a_line(index):
    selection = Selection([index(rows_of({"3": "+", "1": "+", "2": "+"}))])
    assert selection.jump("1") and place(selection)[0] == "1"
    assert selection.jump("#1") and place(selection)[0] == "3"


def test_a_jump_lifts_a_filter_that_hides_the_prompt(one):
    one.choose(RowFilter(verdict="right"))
    assert one.jump("p2") and place(one)[0] == "p2" and one.filter == RowFilter()


def test_the_same_id_with_another_text_or_gold_is_unlike_and_has_no_difference(index):
    first = rows_of(A, answer="1")
    changes = {"p1": {"prompt": "other?"}, "p2": {"answer": "2"}}
    second = [row | changes.get(row["id"], {}) for row in first]
    selection = Selection([index(first), index(second, "b.jsonl")])
    assert {selection.names[p] for p in selection.unlike} == {"p1", "p2"}
    selection.sort("difference", down=False)
    assert shown(selection)[2:] == ["p1", "p2"]


def test_sources_tell_equal_ids_apart_on_both_sides(index):
    first = [*rows_of({"1": "+"}, source="aime"), *rows_of({"1": "-"}, source="math")]
    selection = Selection([index(first), index(first[1:], "b.jsonl")])
    assert selection.names == ["aime/1", "math/1"]
    assert selection.place_SP.tolist() == [[0, 1], [-1, 0]]
    assert selection.jump("1") and selection.names[selection.at] == "aime/1"


def test_what_grows_stays_where_it_is(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows = rows_of({f"p{n}": "+-" for n in range(900)})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    snapshots = files.snapshots(path)
    selection = Selection([next(snapshots)])
    selection.sort("id", down=True)
    selection.step(1), selection.sample(1)
    before = place(selection)
    for index in snapshots:
        selection.replace(0, index, grown=True)
        assert place(selection) == before
    assert len(selection.shown) == 900 and shown(selection)[0] == "p899"


def test_ids_that_clash_only_later_rename_the_prompts_and_move_nothing(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows = rows_of({f"{n}": "+-" for n in range(300)}, source="a")
    rows += rows_of({"7": "+"}, source="b")
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    snapshots = files.snapshots(path)
    selection = Selection([next(snapshots)])
    selection.jump("7")
    for index in snapshots:
        selection.replace(0, index, grown=True)
    assert place(selection) == ("a/7", [0]) and "b/7" in selection.names


def test_another_evaluation_keeps_the_prompt_and_the_sample(index):
    selection = Selection([index(rows_of(A))])
    selection.jump("p10"), selection.sample(1)
    selection.replace(0, index(rows_of(B), "b.jsonl"))
    assert place(selection) == ("p10", [1])
    selection.replace(0, index(rows_of({"q": "+"}), "c.jsonl"))
    assert place(selection) == ("q", [0])


def test_names_sort_by_their_numbers():
    names = ["p10", "p9", "a", "p009", "10", "9", "p9b2"]
    assert sorted(names, key=natural) == ["9", "10", "a", "p9", "p009", "p9b2", "p10"]
