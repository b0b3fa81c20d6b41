import numpy as np

from rlvr_cli.report.answers import Completion, grouped
from rlvr_cli.report.rows import RIGHT, UNKNOWN, WRONG


def one(verdict, extracted=None, reason=None, status="ok"):
    return Completion("text", verdict, extracted, reason, status, False, 4)


def told(completions, clusters=()):
    groups = grouped(completions, np.array(clusters, dtype=np.int64))
    return [(g.verdict, g.answer, g.reason, g.members) for g in groups]


def test_wrong_completions_are_together_by_what_was_read_in_them():
    completions = [
        one(WRONG, "7"),
        one(RIGHT, "42"),
        one(WRONG, "8"),
        one(WRONG, " 7"),
        one(WRONG, "7"),
    ]
    assert told(completions, [0]) == [
        (RIGHT, "42", None, [1]), (WRONG, "7", None, [0, 3, 4]), (WRONG, "8", None, [2]),
    ]  # fmt: skip


def test_right_ones_are_together_by_their_cluster_the_largest_first():
    completions = [one(RIGHT, "1"), one(RIGHT, "2"), one(WRONG, "3"), one(RIGHT, "2.0")]
    assert told(completions, [0, 1, 1])[:2] == [
        (RIGHT, None, None, [1, 3]), (RIGHT, "1", None, [0]),
    ]  # fmt: skip


def test_without_an_answer_the_reason_tells_them_apart():
    completions = [
        one(WRONG, None, "no box", "no_answer"), one(WRONG, None, None, "no_answer"),
        one(WRONG, None, "no box", "no_answer"), one(UNKNOWN, None, None, "timeout"),
        one(UNKNOWN, "9", "it failed", "error"),
    ]  # fmt: skip
    assert told(completions) == [
        (WRONG, None, "no box", [0, 2]), (WRONG, None, "no_answer", [1]),
        (UNKNOWN, None, "timeout", [3]), (UNKNOWN, "9", "it failed", [4]),
    ]  # fmt: skip


def test_a_whole_program_is_no_name_of_an_answer():
    programs = [one(WRONG, f"def f():\n    return {n}", "assert failed") for n in range(3)]
    assert told([*programs, one(WRONG, "x" * 81)]) == [
        (WRONG, None, "assert failed", [0, 1, 2]), (WRONG, None, None, [3]),
    ]  # fmt: skip


def test_an_answer_cannot_hide_control_characters():
    assert told([one(WRONG, "\u202e7")]) == [(WRONG, "⟨U+202E⟩7", None, [0])]
