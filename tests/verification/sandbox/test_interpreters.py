"""Programs are judged alike by every version of Python that rlvr runs on, where it is here.

The sandbox needs the standard library alone, so that these interpreters need no package.
"""

import json
import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from rlvr_cli.verification.sandbox import launch

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAME = "Programming Language :: Python :: "
VERSIONS = [line.removeprefix(NAME) for line in PROJECT["classifiers"] if line.startswith(NAME)]
JUDGE = """
import json, runpy, sys
sys.path.insert(0, sys.argv[1])
from rlvr_cli.verification.sandbox import launch
kind = next((kind for kind in launch.KINDS[:-1] if launch.works(kind)), "none")
different = {}
for name, program, tests, entry, expected in runpy.run_path(sys.argv[2])["CASES"]:
    job = {"program": program, "style": "tests"}
    given = {"tests": tests, "prompt": "", "entry_point": entry}
    outcome = launch.run(kind, job, given, seconds=60.0, memory_bytes=1 << 30)
    if outcome.get("passed", outcome.get("status")) != expected:
        different[name] = outcome
print(json.dumps([kind, different]))
"""


def interpreter(version):
    """A Python of this version; None where there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = [shutil.which(f"python{version}"), *pyenv.glob(f"versions/{version}.*/bin/python")]
    tried = ["-c", "import sys; print('{}.{}'.format(*sys.version_info))"]
    for path in filter(None, found):
        ran = subprocess.run([path, *tried], capture_output=True, text=True, check=False)
        if ran.stdout.strip() == version:
            return path
    return None


@pytest.mark.slow
@pytest.mark.parametrize("version", [v for v in VERSIONS if v[0].isdigit() and "." in v])
def test_programs_have_the_same_verdicts(version):
    here = next((kind for kind in launch.KINDS[:-1] if launch.works(kind)), None)
    if here is None:
        pytest.skip("no sandbox works here")
    python = interpreter(version)
    if python is None:
        pytest.skip(f"there is no Python {version} here")
    styles = Path(__file__).with_name("styles.py")
    ran = subprocess.run(
        [python, "-P", "-c", JUDGE, ROOT, styles], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == [here, {}]
