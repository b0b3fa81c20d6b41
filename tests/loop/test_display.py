"""The live line of `train` on a terminal."""

import os
import subprocess
import sys

import pytest

SHOWN = """
import io, sys
from rlvr_cli.loop import display

class Terminal(io.StringIO):
    def isatty(self):
        return True

sys.stderr = terminal = Terminal()
record = {"step": 2, "reward": 0.25, "entropy": 1.24, "kl": 0.0, "tokens": 900,
          "seconds": {"rollout": 1.0}}
with display._display(3) as show:
    show(record)
print(terminal.getvalue().rpartition("\\r")[2])
"""


@pytest.mark.parametrize(("width", "has_bar"), [(50, False), (60, False), (120, True)])
def test_the_step_and_every_figure_fit_the_terminal(width, has_bar):
    variables = {"COLUMNS": str(width), "TERM": "xterm", "NO_COLOR": "1", "PYTHONUTF8": "1"}
    command = [sys.executable, "-P", "-c", SHOWN]
    ran = subprocess.run(
        command, env=os.environ | variables, capture_output=True, text=True, encoding="utf-8"
    )
    assert ran.returncode == 0, ran.stderr
    for shown in ("2/3", "reward", "0.250", "entropy", "1.24", "kl", "0.0000", "900", "tok/s"):
        assert shown in ran.stdout, ran.stdout
    assert ("━" in ran.stdout) == has_bar
