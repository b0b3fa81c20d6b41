"""Who may import whom: a package imports those on the lines below its own, and no others."""

import ast
import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import rlvr_cli

ROOT = Path(rlvr_cli.__file__).parent
# cli/app.py lists the folder of commands and imports one when it runs: that is no import here.
LAYERS = """
    __main__
    commands
    benchmarks
    init loop report
    doctor evaluation
    engines layouts stages
    fixtures lab memory_estimate viewer
    algorithms cli interop models tracking verification
    run_config stores
    config registry runtime storage
    specs tasks
    terminal
    __version__ errors kernels protocols templates
"""
LINES = [line.split() for line in LAYERS.strip().splitlines()]
HEIGHT = {package: -number for number, line in enumerate(LINES) for package in line}
LISTINGS = ("commands", "algorithms/objectives", "algorithms/modifiers", "engines/rollout",
            "engines/training", "verification/verifiers", "tasks", "layouts",
            "tracking/trackers")  # fmt: skip


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@functools.cache
def modules() -> list[Path]:
    found = [
        Path(folder) / name
        for folder, _, names in os.walk(ROOT, followlinks=True)
        for name in names
        if name.endswith(".py") and name != "__init__.py"
    ]
    return sorted(found)


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports_of(path: Path) -> Iterator[str]:
    """The dotted names that a file imports, at its top or inside a function."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} has a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def names_outside(path: Path) -> set[str]:
    return {name.partition(".")[0] for name in imports_of(path)}


@pytest.mark.slow
@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_a_module_imports_only_packages_on_lower_lines(path):
    ours = {name.split(".")[1] for name in imports_of(path) if name.startswith("rlvr_cli.")}
    others = ours - {room_of(path)}
    assert all(HEIGHT[other] < HEIGHT[room_of(path)] for other in others), others


@pytest.mark.parametrize("folder", LISTINGS)
def test_files_of_a_listing_do_not_import_one_another(folder):
    package = "rlvr_cli." + folder.replace("/", ".")
    public = [path for path in (ROOT / folder).glob("*.py") if not path.stem.startswith("_")]
    assert public
    for path in public:
        inside = {name for name in imports_of(path) if name.startswith(package + ".")}
        siblings = {name for name in inside if not name[len(package) + 1 :].startswith("_")}
        assert not siblings, path


def test_kernels_import_torch_and_triton_alone():
    for path in modules():
        if room_of(path) == "kernels":
            allowed = {"torch", "triton", "rlvr_cli"} | set(sys.stdlib_module_names)
            assert names_outside(path) <= allowed


@pytest.mark.parametrize(
    ("name", "home"),
    [
        (
            "vllm",
            "engines/rollout/vllm.py engines/rollout/_vllm_install.py "
            "engines/rollout/_vllm_images.py engines/rollout/_vllm_weights.py "
            "engines/serving/images.py",
        ),
        ("deepspeed", "engines/training/deepspeed.py"),
        ("peft", "models/lora.py"),
        ("reasoning_gym", "tasks/_reasoning_gym.py"),
        ("latex2mathml", "report/typeset.py"),
        ("markdown_it", "report/typeset.py"),
        ("matplotlib", "report/drawing.py lab/picture.py"),
        ("jinja2", "report/page.py models/prompt_options.py"),
        ("pygments", "report/code.py"),
        ("pint", "verification/mathematics/units.py"),
        (
            "PIL",
            "fixtures/make_vision_policy.py interop/image_files.py models/images.py "
            "models/processors.py report/thumbnails.py tracking/pictures.py viewer/graphics.py",
        ),
        ("textual", "viewer/app.py viewer/keys.py viewer/panes.py"),
        ("gguf", "stages/convert.py"),
        ("mlflow", "tracking/trackers/mlflow.py"),
        ("tensorboard", "tracking/trackers/tensorboard.py"),
        ("trackio", "tracking/trackers/trackio.py"),
        ("wandb", "tracking/trackers/wandb.py"),
        ("jsonschema", "verification/verifiers/json.py"),
        ("referencing", "verification/verifiers/json.py"),
        ("lm_eval", "verification/verifiers/ifeval.py"),
        ("langdetect", "verification/verifiers/ifeval.py"),
        ("nltk", "verification/verifiers/ifeval.py"),
    ],
)
def test_an_optional_package_is_imported_in_its_own_file_alone(name, home):
    users = {str(p.relative_to(ROOT)) for p in modules() if name in names_outside(p)}
    assert users <= set(home.split())


def test_no_module_touches_the_import_path_but_for_what_lies_beside_a_users_file():
    for path in modules():
        if path == ROOT / "verification/verifiers/custom.py":
            continue
        for node in ast.walk(tree_of(path)):
            reads = isinstance(node, ast.Attribute) and node.attr == "path"
            assert not (reads and isinstance(node.value, ast.Name) and node.value.id == "sys"), path
        assert "sys.path" not in set(imports_of(path)), path


def test_commands_import_nothing_heavy_before_they_run():
    for path in modules():
        if room_of(path) == "commands":
            tree = tree_of(path)
            top = {n.name for s in tree.body if isinstance(s, ast.Import) for n in s.names}
            top |= {str(s.module) for s in tree.body if isinstance(s, ast.ImportFrom)}
            ours = {name for name in top if name.startswith("rlvr_cli")}
            assert top - ours <= {"typer", "pathlib", "typing"}, path


def test_verifiers_and_metrics_load_no_torch(tmp_path):
    names = [
        ".".join(["rlvr_cli", *path.relative_to(ROOT).with_suffix("").parts])
        for path in modules()
        if path.is_relative_to(ROOT / "verification" / "verifiers")
        or path.is_relative_to(ROOT / "evaluation" / "metrics")
        or room_of(path) == "tasks"
    ]
    code = f"import importlib, json, sys\nfor name in {names}: importlib.import_module(name)\n"
    code += "print(json.dumps([n for n in ('torch', 'transformers') if n in sys.modules]))"
    words = [sys.executable, "-c", code]
    ran = subprocess.run(words, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert json.loads(ran.stdout) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["train", "--dry-run", "--out", "{tmp}/run"],
        ["train", "--recipe=dapo-iac-dlc", "--engine=graph", "--prompts={known}/prompts",
         "--heldout={known}/prompts", "--allow-overlap", "--model=builtin",
         "--verifier=expression", "--prompts-per-step=2", "--dry-run", "--out", "{tmp}/run"],
        ["prompts", "task:expression", "--out", "{tmp}/prompts"],
        ["score", "{known}/rollouts", "--verifier=0.9*expression+0.1*format", "--out", "{tmp}/s"],
        ["list", "objectives"],
        ["check", "{known}/scores"],
        ["doctor", "--help"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_command_without_a_model_imports_neither_torch_nor_transformers(known, tmp_path, words):
    words = [word.format(tmp=tmp_path, known=known) for word in words]
    heavy = ("torch", "transformers", "datasets", "sklearn", "PIL")
    code = f"import json, sys\nfrom rlvr_cli.cli import app\ncode = app.run({words})\n"
    code += f"print(json.dumps([code, [n for n in {heavy} if n in sys.modules]]))"
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert json.loads(ran.stdout.splitlines()[-1]) == [0, []], ran.stderr


@pytest.mark.slow
def test_loading_a_model_imports_no_package_that_only_other_models_need(tmp_path):
    code = "import sys\nfrom rlvr_cli.models import policy as p\np.load(p.resolve('builtin'))\n"
    code += "print([n for n in ('datasets', 'scipy.optimize', 'sklearn') if n in sys.modules])"
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert ran.stdout.splitlines()[-1] == "[]"
