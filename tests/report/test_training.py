from pathlib import Path

from rlvr_cli.report import figures, training
from rlvr_cli.report.drawing import SERIES
from rlvr_cli.report.figures import Line, Mark
from rlvr_cli.report.sources import RunLog


def curve(*cells: list[float | None]) -> training.Curve:
    records = [{"step": i, "eval": {"kl": cell}} for i, cell in enumerate(cells)]
    (made,) = training.curves(RunLog(Path("run"), {}, records, 0, {}), "kl_start", ("kl",))
    return made


def test_a_step_without_an_interval_leaves_a_gap_in_the_band():
    made = curve([0.0, None, None], [0.2, 0.1, 0.3], [0.4, 0.3, 0.5])
    assert (made.low, made.high) == ([None, 0.1, 0.3], [None, 0.3, 0.5])
    labels = [f"{value:g}" for value in made.value]

    def svg(*ends: list[float | None] | None) -> str:
        line = Line("kl", made.step, made.value, Mark(SERIES[0]), labels, *ends)
        return figures.lines([line], x_label="step", x_word="step").svg

    with_band = svg(made.low, made.high)
    assert with_band.count("<path") > svg().count("<path") and "nan" not in with_band.lower()


def test_a_curve_without_any_interval_has_no_band():
    assert curve([0.0, None, None], [0.2, None, None]).low is None
