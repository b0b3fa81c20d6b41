"""What is said of the sides of a comparison below its tables."""

from rlvr_cli.terminal import tables


def test_what_holds_for_all_sides_is_said_once_and_the_rest_with_a_name():
    said = {"a": ["correct by `acc`", "no answers"], "b": ["correct by `score`", "no answers", ""]}
    assert tables.notes(said) == ["`a`: correct by `acc`", "no answers", "`b`: correct by `score`"]


def test_what_holds_for_two_of_three_is_said_once_with_both_names():
    assert tables.notes({"a": ["x"], "b": [], "c": ["x"]}) == ["`a`, `c`: x"]


def test_where_there_is_no_interval_the_reason_is_said():
    assert tables.methods({"ucr": "none"}) == "95% intervals: none: too few prompts differ"
    assert tables.methods({"pass@1": "Gaffke", "ucr": "none"}) == (
        "95% intervals: Gaffke (pass@1), none: too few prompts differ (ucr)"
    )
