"""docs/first-hour.md: its table is counted, and the commands that it shows are those that run."""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from rlvr_cli.models import policy as policies

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "benchmarks" / "first_hour"
SMALL = ("--steps=1", "--prompts-per-step=2", "-n2", "--max-new-tokens=8")


def commands():
    lines = (SCRIPTS / "rlvr" / "run.sh").read_text().splitlines()
    return [line for line in lines if not line.startswith("#")]


def test_the_table_is_made_from_the_scripts(up_to_date):
    up_to_date("first-hour.md")


def test_the_page_shows_the_commands_that_are_counted():
    shown = "".join(f"    {line}\n" for line in commands())
    assert shown in (ROOT / "docs" / "first-hour.md").read_text()


@pytest.mark.slow
def test_the_commands_train_the_model_beside_them(rlvr, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(policies.resolve("builtin").path, "model")
    shutil.copy(ROOT / "examples" / "data" / "gsm8k_12.jsonl", "gsm8k.jsonl")
    assert len(commands()) == 2
    for line in commands():
        words = shlex.split(line)[1:]
        ran = rlvr(*words, *(SMALL if words[0] == "train" else ()))
        assert ran.code == 0, ran.err
    assert policies.resolve("run/steps/000001/update").digest


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*/*.sh")), ids=lambda p: p.parent.name)
def test_the_shell_reads_every_script_that_is_counted(path):
    subprocess.run(["bash", "-n", path], check=True)
