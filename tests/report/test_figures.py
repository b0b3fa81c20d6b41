import re

import pytest

from rlvr_cli.report import drawing, figures
from rlvr_cli.report.figures import Line, Mark, Stack


def line(x, y, name="a", colour="s0", **more):
    return Line(name, x, y, Mark(colour), [f"{value:g}" for value in y], **more)


def test_a_plot_takes_its_colours_and_fonts_from_the_page():
    made = figures.lines(
        [line([1, 2], [0.1, 0.2], low=[0, 0.1], high=[0.2, 0.3])],
        x_label="k", x_word="k =", percent=True, log_x=True,
    )  # fmt: skip
    assert "var(--s0)" in made.svg
    assert not re.search(r"#[0-9a-f]{6}\b", made.svg) and "font-family" not in made.svg


def test_two_plots_on_a_page_share_no_id():
    svg = figures.lines([line([1, 2], [0.1, 0.2])], x_label="step", x_word="step").svg
    a, b = (set(re.findall(r'id="([^"]+)"', drawing.unique(svg, p))) for p in ("a", "b"))
    assert a and not a & b


def test_constant_and_single_values_can_be_drawn():
    for drawn in (line([1], [0.0]), line([0, 1], [0.0, 0.0])):
        for options in ({"percent": True}, {"log_x": True}, {"log_y": True}, {"zero": False}):
            made = figures.lines([drawn], x_label="step", x_word="step", **options)
            assert made.svg.startswith("<svg") and made.series[0]["labels"][0] == "0"


def test_a_plot_tells_each_value_where_it_is_drawn():
    made = figures.lines(
        [line([1, 2, 4], [0.0, 0.5, 1.0]), line([2], [0.5], "b", "s1")],
        x_label="k", x_word="k =", percent=True, log_x=True,
    )  # fmt: skip
    assert made.heads == ["k = 1", "k = 2", "k = 4"]
    assert [s["name"] for s in made.series] == ["a", "b"] and made.series[1]["colour"] == "s1"
    assert made.series[0]["labels"] == ["0", "0.5", "1"] and made.series[1]["labels"] == [
        "",
        "0.5",
        "",
    ]
    low, middle, high = made.series[0]["y"]  # thousandths from the top
    assert low > middle > high > 0 and made.series[1]["y"] == [None, middle, None]
    # On the logarithmic axis 2 lies half way between 1 and 4.
    assert made.x[1] == pytest.approx((made.x[0] + made.x[2]) / 2, abs=1)


def test_a_gap_in_a_line_has_no_dot():
    made = figures.lines([line([0, 1], [0.5, float("nan")])], x_label="x", x_word="x")
    assert made.series[0]["y"][1] is None and made.series[0]["y"][0] is not None


def test_a_band_has_a_gap_where_there_is_no_interval():
    drawn = line([1, 2, 4, 8], [0.1, 0.2, 0.3, 0.4], low=[0, 0.1, None, 0], high=[1, 1, None, 1])
    banded = figures.lines([drawn], x_label="k", x_word="k =").svg
    assert banded.count("fill: var(--s0)") and "nan" not in banded.lower()


def test_of_many_steps_the_last_tells_its_value_too():
    steps = list(range(5001))
    made = figures.lines([line(steps, [float(s) for s in steps])], x_label="step", x_word="step")
    assert len(made.x) <= figures._MOST_LABELS + 2 and made.heads[-1] == "step 5000"
    assert made.series[0]["labels"][-1] == "5000"


def test_bars_and_areas_tell_all_stacks_of_a_place():
    stacks = [
        Stack("right", [1, 2], "right", ["1", "2"]),
        Stack("wrong", [3, 0], "wrong", ["3", "0"]),
    ]
    bars = figures.bars([0, 1, 2], stacks, x_label="length", heads=["0", "1"])
    assert [s["labels"] for s in bars.series] == [["1", "2"], ["3", "0"]] and bars.heads == [
        "0",
        "1",
    ]
    assert "var(--right)" in bars.svg and "var(--wrong)" in bars.svg
    areas = figures.areas([3, 4], [Stack("both", [1, 1], "mixed", ["100%", "100%"])], "step")
    assert areas.heads == ["step 3", "step 4"] and areas.x[0] < areas.x[1]
