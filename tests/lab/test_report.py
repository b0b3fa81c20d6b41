import math

from rlvr_cli.lab import check, report
from rlvr_cli.storage.shards import Shards


def test_checks_are_kept_as_shards_and_shown(tmp_path, capsys):
    made = {
        "a": [check.exact("an error", 1e-12, below=1e-9)],
        "b": [check.mean("a difference", [1.0, 2.0], above=0.0), check.mean("one", [1.0])],
    }
    shown = report.checks(tmp_path, made)
    assert [row["state"] for row in shown] == ["holds", "open", "open"]
    table = Shards.open(tmp_path / "checks", "checks").table()
    assert table["about"].to_pylist() == ["a", "b", "b"] and table["n"].to_pylist() == [1, 2, 1]
    assert table["low"].to_pylist()[0] == 1e-12 and table["low"].to_pylist()[2] == -math.inf
    assert "a difference" in capsys.readouterr().err
