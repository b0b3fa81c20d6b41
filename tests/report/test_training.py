from pathlib import Path

from rlvr_cli.report import figures, training
from rlvr_cli.report.figures import Line
from rlvr_cli.report.sources import RunLog


def curve(*cells: list[float | None]) -> training.Curve:
    records = [{"step": i, "eval": {"kl": cell}} for i, cell in enumerate(cells)]
    (made,) = training.curves(RunLog(Path("run"), {}, records, 0, {}), "kl_start", ("kl",))
    return made


def test_a_step_without_an_interval_leaves_a_gap_in_the_band():
    made = curve([0.0, None, None], [0.2, 0.1, 0.3], [0.4, 0.3, 0.5])
    assert (made.low, made.high) == ([None, 0.1, 0.3], [None, 0.3, 0.5])
    banded = Line(made.step, made.value, 0, made.low, made.high)
    with_band = figures.lines([banded], x_label="step", percent=False)
    without = figures.lines([Line(made.step, made.value, 0)], x_label="step", percent=False)
    assert with_band.count("<path") > without.count("<path") and "nan" not in with_band.lower()


def test_a_curve_without_any_interval_has_no_band():
    assert curve([0.0, None, None], [0.2, None, None]).low is None
