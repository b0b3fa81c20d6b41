import re

from rlvr_cli.report import drawing
from rlvr_cli.report.palette import Palette


def test_a_name_keeps_its_mark_and_no_two_names_share_one():
    palette = Palette([], [])
    names = [f"line {n}" for n in range(4 * len(drawing.SERIES))]
    marks = [palette.line(name) for name in names]
    assert [palette.line(name) for name in names] == marks
    assert len({(mark.colour, mark.dash) for mark in marks}) == len(marks)
    assert len({mark.colour for mark in marks[: len(drawing.SERIES)]}) == len(drawing.SERIES)


def test_a_run_and_a_source_of_the_same_name_differ():
    palette = Palette([], [])
    assert palette.run("math") != palette.line("math")


def test_a_line_keeps_its_colour_in_all_plots_of_a_page(of_run):
    """By the legends: no name has two colours, and no colour two names with the same dash."""
    marks: dict[str, set[tuple[str, str]]] = {}
    for legend in re.findall(r'<ul class="legend">(.*?)</ul>', of_run.html, re.S):
        for colour, dash, name in re.findall(
            r'stroke="var\(--(s\d)\)".*?dasharray="(.*?)"/></svg>(.*?)</li>', legend, re.S
        ):
            # Pass@1 and UCC@1 are lines of the same k.
            name = re.sub(r"^(Pass|UCC)(?=@)", "", name)
            marks.setdefault(name, set()).add((colour, dash))
    assert {"step 0", "step 2", "@1", "@2"} <= set(marks)
    assert all(len(found) == 1 for found in marks.values()), marks
    assert len({next(iter(found)) for found in marks.values()}) == len(marks)
