"""The package in a checkout, in an editable install and in a wheel."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rlvr_cli

REPOSITORY = Path(__file__).parents[1]
INSTALLED = {name: importlib.util.find_spec(name) for name in ("build", "setuptools", "kernels")}

needs_hub_kernels = pytest.mark.skipif(
    INSTALLED["kernels"] is None, reason="Hugging Face's package `kernels` is not installed"
)

CHECK = """
import transformers, transformers.integrations.hub_kernels
import kernels, rlvr_cli, rlvr_cli.kernels.reference
assert "site-packages" in kernels.__file__, kernels.__file__
print(rlvr_cli.__file__)
"""


def run(*words: object, cwd: Path, path: Path | None = None) -> str:
    """A process that sees `path` before what is installed; its stdout."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("PYTHONPATH", None)
    if path:
        environment["PYTHONPATH"] = str(path)
    ran = subprocess.run(
        [str(word) for word in words], cwd=cwd, env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """A folder with the wheel of the repository's files installed, without what it depends on."""
    if not (INSTALLED["build"] and INSTALLED["setuptools"]):
        pytest.skip("`build` and `setuptools` are not installed")
    if not (REPOSITORY / ".git").exists() or not shutil.which("git"):
        pytest.skip("this is no git checkout")
    root = tmp_path_factory.mktemp("wheel")
    words = ("git", "-C", REPOSITORY, "ls-files", "-co", "--exclude-standard", "-z")
    for name in filter(None, run(*words, cwd=root).split("\0")):
        target = root / "copy" / name
        if (REPOSITORY / name).exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, target, follow_symlinks=False)
    build = ("-m", "build", "--wheel", "--no-isolation", "--outdir", root / "dist", root / "copy")
    run(sys.executable, *build, cwd=root)
    (made,) = (root / "dist").glob("*.whl")
    target = root / "installed"
    pip = ("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile")
    run(sys.executable, *pip, "--target", target, made, cwd=root)
    return target


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_nothing_beside_it(wheel):
    names = {path.name for path in wheel.iterdir() if not path.name.endswith(".dist-info")}
    assert names == {"rlvr_cli", "bin"}


@pytest.mark.slow
def test_the_wheel_holds_the_same_modules_and_data_as_the_checkout(wheel):
    def files(root: Path) -> set[str]:
        found = (
            os.path.relpath(os.path.join(folder, name), root)
            for folder, _, names in os.walk(root, followlinks=True)
            for name in names
            if "__pycache__" not in folder
        )
        return {
            name
            for name in found
            if name.endswith((".py", ".toml", ".css", ".html", ".js")) or "policy/" in name
        }

    assert files(wheel / "rlvr_cli") == files(Path(rlvr_cli.__file__).parent)


@pytest.mark.slow
def test_the_wheels_command_lists_what_it_holds(wheel, tmp_path):
    made = json.loads(run(wheel / "bin" / "rlvr", "list", "--json", cwd=tmp_path, path=wheel))
    lists = made["lists"]
    assert {"grpo", "quatro"} <= set(lists["objectives"]) and lists["verifiers"]


@pytest.mark.slow
def test_the_wheels_policy_and_recipe_are_found(wheel, tmp_path):
    code = (
        "from rlvr_cli import run_config; from rlvr_cli.models import policy;"
        " made = policy.resolve('builtin');"
        "print(made.path, run_config.load([], {}).train.steps, sep='\\n')"
    )
    path, steps = run(sys.executable, "-c", code, cwd=tmp_path, path=wheel).split()
    assert Path(path).is_relative_to(wheel) and (Path(path) / "model.safetensors").exists()
    assert int(steps) > 0


@pytest.mark.slow
@needs_hub_kernels
def test_our_kernels_and_those_of_the_hub_live_side_by_side_in_a_wheel(wheel, tmp_path):
    loaded = run(sys.executable, "-c", CHECK, cwd=tmp_path, path=wheel).strip()
    assert Path(loaded).is_relative_to(wheel)


@pytest.mark.slow
@needs_hub_kernels
def test_our_kernels_and_those_of_the_hub_live_side_by_side_in_a_checkout(tmp_path):
    (tmp_path / "rlvr_cli").symlink_to(REPOSITORY / "rlvr_cli")
    loaded = run(sys.executable, "-c", CHECK, cwd=tmp_path.parent, path=tmp_path).strip()
    assert Path(loaded).is_relative_to(tmp_path)


@needs_hub_kernels
def test_our_kernels_and_those_of_the_hub_live_side_by_side_as_installed_here(capsys):
    exec(CHECK, {})
    assert Path(capsys.readouterr().out.strip()) == Path(rlvr_cli.__file__)


@pytest.mark.slow
def test_python_m_pytest_collects_beside_the_kernels_of_the_hub(tmp_path):
    """It puts the checkout on the path, whose folder of the same name must not hide the package."""
    pytest_words = ("-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider")
    out = run(sys.executable, *pytest_words, "tests/kernels/test_dispatch.py", cwd=REPOSITORY)
    assert "tests collected" in out


@pytest.fixture
def linkless(tmp_path):
    """A clone that git made where it makes no symbolic links."""
    if not (REPOSITORY / ".git").exists() or not shutil.which("git"):
        pytest.skip("this is no git checkout")
    target = tmp_path / "a clone"
    clone = ("git", "clone", "-q", "-c", "core.symlinks=false", REPOSITORY, target)
    run(*clone, cwd=tmp_path)
    shutil.copytree(REPOSITORY / "rlvr_cli" / "cli", target / "rlvr_cli/cli", dirs_exist_ok=True)
    return target


def _rlvr(*words: str, path: Path) -> subprocess.CompletedProcess:
    code = "from rlvr_cli.cli.app import main; main()"
    return subprocess.run(
        [sys.executable, "-P", "-c", code, *words],
        cwd=path.parent,
        env={**os.environ, "PYTHONPATH": str(path)},
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
def test_a_clone_without_symbolic_links_says_what_is_missing_and_the_hint_helps(linkless):
    ran = _rlvr("list", path=linkless)
    error, hint = ran.stderr.splitlines()
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "lacks `rlvr_cli/commands`, `rlvr_cli/kernels`, `rlvr_cli/fixtures`" in error
    run("sh", "-ec", "\n".join(re.findall("`(.*?)`", hint)), cwd=linkless.parent)
    assert "grpo" in _rlvr("list", path=linkless).stdout


@pytest.mark.slow
def test_an_installation_without_the_linked_folders_says_where_to_mend_it(linkless):
    shutil.rmtree(linkless / ".git")
    ran = _rlvr("train", "--steps=1", path=linkless)
    error, hint = ran.stderr.splitlines()
    assert ran.returncode == 1 and error.startswith("error: this installation lacks")
    assert "install it again" in hint
