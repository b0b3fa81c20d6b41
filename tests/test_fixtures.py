"""The scripts that train the policies which ship with rlvr."""

import sys
from pathlib import Path

import pytest

from rlvr_cli import fixtures
from rlvr_cli.fixtures import make_policy, make_vision_policy

SHIPPED = Path(fixtures.__file__).parent
SCRIPTS = {"policy": make_policy, "vision_policy": make_vision_policy}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_writes_the_files_that_ship_into_the_folder_that_is_named(
    tmp_path, monkeypatch, name
):
    for constant, value in {"STEPS": 1, "EXPRESSIONS": 20_000, "SAMPLES": 1}.items():
        monkeypatch.setattr(SCRIPTS[name], constant, value)
    before = {path: path.stat().st_mtime_ns for path in (SHIPPED / name).iterdir()}
    run(monkeypatch, SCRIPTS[name], "--out", tmp_path / "new" / "policy")
    assert {path: path.stat().st_mtime_ns for path in (SHIPPED / name).iterdir()} == before
    written = {path.name for path in (tmp_path / "new" / "policy").iterdir()}
    assert written == {path.name for path in before}


@pytest.mark.parametrize("script", SCRIPTS.values())
@pytest.mark.parametrize("words", [[], ["--out", str(SHIPPED / "policy")]])
def test_a_script_overwrites_no_folder(monkeypatch, capsys, script, words):
    with pytest.raises(SystemExit, match="2"):
        run(monkeypatch, script, *words)
    reason = "is already there: name another folder" if words else "required: --out"
    assert capsys.readouterr().err.endswith(f"{reason}\n")


def run(monkeypatch, script, *words):
    monkeypatch.setattr(sys, "argv", [script.__name__, *map(str, words)])
    script.main()
