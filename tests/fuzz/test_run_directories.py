"""A few cases of damage; run_directories.py does thousands by hand."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CASES = 40


@pytest.mark.slow
def test_damage_to_any_file_of_a_run_is_mended_or_refused_in_one_line():
    script = Path(__file__).with_name("run_directories.py")
    words = [sys.executable, str(script), "--cases", str(CASES), "--seed", "3"]
    words += ["--runs", "plain"]
    environment = {name: value for name, value in os.environ.items() if name != "RLVR_DEBUG"}
    ran = subprocess.run(words, capture_output=True, text=True, env=environment, cwd="/")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{CASES} cases, 0 failed" in ran.stdout
