"""Progress where there is no terminal: a line now and then, whatever is done by then."""

import pytest

from rlvr_cli.terminal import console


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that progress is measured in; a test sets its one element."""
    now = [0.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])
    return now


def test_the_first_rows_may_take_longer_than_a_report(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    parts = console.Parts("score", 2, rows=100)
    clock[0] = 20.0
    parts.advance(0)  # one question of many is answered: less than a row
    assert capsys.readouterr().err == ""
    clock[0] = 25.0
    parts.advance(50)
    assert "score: 50 of 100 rows, 2/s, 25 s left" in capsys.readouterr().err


def test_parts_that_were_kept_count_in_no_rate(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    parts = console.Parts("rollout", 4)
    parts(0, "kept")
    clock[0] = 20.0
    parts(1, "written")
    assert "rollout: 2 of 4 parts, 0.05 parts/s" in capsys.readouterr().err
