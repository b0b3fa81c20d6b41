"""Who may import whom: a room is a folder or a module of rlvr_cli."""

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
BASE = {"errors"}
DATA = BASE | {"files", "schema", "shards", "protocols", "lookup", "seeds"}
MAY_IMPORT = {
    "errors": set(),
    "seeds": set(),
    "protocols": set(),
    "plot": set(),
    "schema": BASE,
    "files": BASE,
    "lookup": BASE,
    "foreign": BASE,
    "columnar": BASE | {"foreign"},
    "verdicts": BASE,
    "generations": BASE | {"columnar", "foreign", "lookup", "verdicts"},
    "formats": BASE | {"formats"},
    "config": BASE,
    "options": BASE | {"shards", "world"},
    "reporting": {"plot"},
    "console": {"reporting"},
    "plain": set(),
    "family": BASE | {"shards"},
    "report": BASE
    | {"family", "files", "metrics", "plain", "report", "reporting", "shards"}
    | {"stages"},
    "viewer": BASE | {"family", "plain", "policy", "shards", "viewer"},
    "app": BASE | {"console", "world", "__version__"},
    "shards": BASE | {"files", "schema"},
    "spool": {"files", "protocols"},
    "fill": BASE | {"files", "shards", "spool"},
    "schedule": BASE | {"config"},
    "adapters": BASE | {"config", "files", "seeds"},
    "world": BASE,
    "heads": set(),
    "models": {"errors", "heads"},
    "policy": BASE | {"adapters", "device", "models", "shards", "world"},
    "remembering": BASE | {"config", "policy", "shards"},
    "recalled": {"config", "policy", "protocols", "shards", "stages"},
    "forward": {"errors", "heads", "kernels", "protocols"},
    "groups": set(),
    "resources": set(),
    "device": BASE | {"world"},
    "shape": BASE | {"adapters", "config", "device", "kernels", "models", "policy"},
    "memory": BASE | {"config", "device", "lookup", "policy", "shape"},
    "doctor": DATA
    | {"config", "device", "doctor", "memory", "objective", "policy", "shape"}
    | {"stages"},
    "kernels": {"kernels"},
    "objective": BASE | {"groups", "lookup"},
    "parts": BASE | {"objective", "groups", "parts"},
    "objectives": {"objective", "parts"},
    "modifiers": BASE | {"objective", "parts"},
    "answers": BASE | {"answers"},
    "sandbox": BASE | {"sandbox"},
    "isolation": BASE | {"lookup", "protocols", "isolation"},
    "scoring": DATA | {"isolation", "scoring"},
    "verifiers": BASE | {"protocols", "answers", "sandbox"},
    "tasks": BASE,
    "metrics": BASE | {"metrics"},
    "similarities": BASE | {"metrics"},
    "rollout": DATA | {"device", "policy", "kernels", "forward", "heads", "rollout", "world"},
    "training": DATA
    | {"adapters", "config", "policy", "kernels", "forward", "memory", "objective", "training"}
    | {"world"},
    "stages": DATA
    | {"config", "fill", "foreign", "forward", "groups", "metrics", "objective", "policy"}
    | {"adapters", "generations", "spool", "rollout", "schedule", "training", "stages", "verdicts"}
    | {"device", "isolation", "memory", "remembering", "resources", "sandbox", "scoring", "shape"}
    | {"world"},
    "lab": DATA | {"console", "fill", "groups", "lab", "objective", "parts", "plot"},
    "run_folder": DATA | {"config", "policy", "recalled"},
    "run_checks": BASE
    | {"config", "device", "lookup", "memory", "policy", "shape", "shards", "stages"},
    "clock": set(),
    "trained": {"config", "policy", "protocols", "stages"},
    "sampler": DATA | {"clock", "config", "policy", "recalled", "stages", "trained", "world"},
    "pipeline": DATA
    | {"clock", "config", "objective", "policy", "recalled", "remembering", "run_checks"}
    | {"run_folder", "sampler", "scoring", "stages", "trained", "world"},
    "live": {
        "world",
        "config",
        "console",
        "errors",
        "objective",
        "pipeline",
        "reporting",
        "stages",
    },
    "commands": {"config", "console", "doctor", "errors", "files", "foreign", "generations", "lab"}
    | {"live", "lookup", "objective", "options", "pipeline", "policy", "report", "reporting"}
    | {"remembering", "resources", "shards", "stages", "viewer", "world"},
    "fixtures": {"tasks", "verifiers"},
}


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


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_a_module_imports_only_the_rooms_below_it(path):
    rooms = {name.split(".")[1] for name in imports_of(path) if name.startswith("rlvr_cli.")}
    assert rooms <= MAY_IMPORT[room_of(path)]


@pytest.mark.parametrize("room", ["commands", "objectives", "modifiers", "verifiers"])
def test_files_of_a_listing_do_not_import_one_another(room):
    assert room not in MAY_IMPORT[room]


def test_kernels_import_torch_and_triton_alone():
    for path in modules():
        if room_of(path) == "kernels":
            allowed = {"torch", "triton", "rlvr_cli"} | set(sys.stdlib_module_names)
            assert names_outside(path) <= allowed


@pytest.mark.parametrize(
    ("name", "home"),
    [
        ("vllm", "rollout/vllm.py"),
        ("deepspeed", "training/deepspeed.py"),
        ("peft", "adapters.py"),
        ("matplotlib", "report/figures.py lab/picture.py"),
        ("jinja2", "report/page.py"),
        ("textual", "viewer/app.py viewer/keys.py viewer/panes.py"),
        ("gguf", "stages/convert.py"),
    ],
)
def test_an_optional_package_is_imported_in_its_own_file_alone(name, home):
    users = {str(p.relative_to(ROOT)) for p in modules() if name in names_outside(p)}
    assert users <= set(home.split())


def test_no_module_touches_the_import_path():
    for path in modules():
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
        if room_of(path) in ("verifiers", "metrics", "tasks")
    ]
    code = f"import importlib, json, sys\nfor name in {names}: importlib.import_module(name)\n"
    code += "print(json.dumps([n for n in ('torch', 'transformers') if n in sys.modules]))"
    words = [sys.executable, "-c", code]
    ran = subprocess.run(words, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert json.loads(ran.stdout) == []
