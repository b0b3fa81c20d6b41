import io
import math
import re

from hypothesis import given, settings, strategies as st

from rlvr_cli.terminal.braille_plot import line_plot, wants_colour

RISING = [(0.0, 0.0), (1.0, 1.0)]
POINTS = st.lists(st.tuples(st.floats(), st.floats()), max_size=8)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def dots_of(line: str) -> int:
    return sum((ord(c) - 0x2800).bit_count() for c in line if 0x2800 <= ord(c) <= 0x28FF)


def test_a_rising_line_goes_from_the_lower_left_to_the_upper_right():
    assert line_plot({"reward": RISING}, title="train", width=40, height=7).splitlines() == [
        "                 train",
        "     1┤                         ⣀⣀⡠⠤⠔⠒⠊⠉",
        "      │                ⢀⣀⡠⠤⠤⠒⠒⠉⠉",
        "0.3667┤        ⣀⣀⠤⠤⠒⠒⠊⠉⠁",
        "     0┤⣀⡠⠤⠔⠒⠊⠉⠉",
        "       0                               1",
        "⠤⠤⠤⠤ reward 1",
    ]


@settings(max_examples=60)
@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=8), POINTS, max_size=4),
    st.integers(0, 120),
    st.integers(0, 40),
)
def test_no_point_crashes_the_plot_or_leaves_its_width(series, width, height):
    plot = line_plot(series, title="train", width=width, height=height)
    assert max(map(len, plot.splitlines())) <= max(40, width)


def test_a_plot_has_the_asked_width_and_height():
    lines = line_plot({"reward": RISING, "entropy": RISING}, title="train").splitlines()
    assert len(lines) == 20 and max(map(len, lines)) == 80


def test_a_nan_leaves_a_gap():
    flat = [(float(x), 0.0) for x in range(9)]
    broken = [(x, math.nan if x == 4 else y) for x, y in flat]
    complete, gapped = (dots_of(line_plot({"kl": points})) for points in (flat, broken))
    assert 0.7 * complete < gapped < 0.8 * complete


def test_one_point_is_one_dot():
    plot = line_plot({"kl": [(3.0, 0.5)]}, title="train").splitlines()
    assert sum(map(dots_of, plot[1:-1])) == 1


def test_nothing_to_plot_is_said():
    assert line_plot({}, title="train") == "train\nnothing to plot"
    assert line_plot({"kl": [(0.0, math.nan)]}) == "nothing to plot"


def test_lines_differ_without_colour():
    flat = [(0.0, 0.0), (9.0, 0.0)]
    below = [(0.0, -1.0), (9.0, -1.0)]
    lines = line_plot({"reward": flat, "kl": below}).splitlines()
    assert dots_of(lines[0]) > 1.4 * dots_of(lines[-3]) > 0
    assert "\x1b" not in "".join(lines)


def test_colour_paints_and_changes_nothing_else():
    series = {"reward": RISING, "kl": [(0.0, 1.0), (1.0, 0.0)]}
    painted = line_plot(series, colour=True)
    assert "\x1b[34m" in painted and "\x1b[33m" in painted
    plain = re.sub(r"\x1b\[\d+m", "", painted)
    assert plain == line_plot(series)


def test_the_legend_has_the_last_values_and_wraps():
    series = {f"metric {i}": [(0.0, 0.0), (1.0, i / 4)] for i in range(5)}
    plot = line_plot(series, width=40)
    assert plot.splitlines()[-3:] == [
        "⠤⠤⠤⠤ metric 0 0   ⠤⠤⠄⠀ metric 1 0.25",
        "⠄⠠⠀⠄ metric 2 0.5   ⠄⠀⠀⠄ metric 3 0.75",
        "⠤⠤⠤⠤ metric 4 1",
    ]


def test_colour_is_for_terminals_that_want_it(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert wants_colour(Terminal()) and not wants_colour(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "")
    assert wants_colour(Terminal())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not wants_colour(Terminal())
