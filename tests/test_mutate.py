"""The tests against mutants of the equations."""

import subprocess
import sys
from pathlib import Path

import pytest

LOOP = """
import ast, mutate
path = mutate.SOURCE / "terms" / "ratio.py"
print(mutate.verdict(path, ast.parse("while True: pass"), limit_s=3))
"""


@pytest.mark.slow
def test_a_mutant_that_loops_is_killed():
    ran = subprocess.run(
        [sys.executable, "-c", LOOP], cwd=Path(__file__).parent, capture_output=True, text=True,
        timeout=600,
    )  # fmt: skip
    assert ran.stdout == "timed out\n", ran.stderr
