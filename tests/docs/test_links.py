"""Docs refer to what the repository holds: pages, links, paths, commands and targets of make."""

import importlib.util
import re
from pathlib import Path

import pytest

from rlvr_cli.cli import app

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "examples/*.md", "tests/stored/*.md")
    for path in ROOT.glob(pattern)
)
MADE = ("build", "dist", "runs")
TOP = tuple(f"{path.name}/" for path in ROOT.iterdir() if path.is_dir() and path.name not in MADE)
OUTSIDE = ("algorithms.md", "papers/", "../shared")
every_page = pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(ROOT)))


def anchors(path: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    titles = re.findall(r"^#+ (.*)$", path.read_text(), re.M)
    plain = (re.sub(r"[^\w\- ]", "", title.lower()) for title in titles)
    return {title.replace(" ", "-") for title in plain}


def test_every_page_is_in_the_index_once():
    listed = re.findall(r"^- \[(\S+\.md)\]\(\1\): ", (DOCS / "README.md").read_text(), re.M)
    pages = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    assert sorted(listed) == sorted(pages - {"README.md"})


@every_page
def test_a_relative_link_leads_to_a_file_and_a_heading(path):
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        page = (path.parent / name).resolve() if name else path
        assert page.exists(), target
        assert not anchor or anchor in anchors(page) or f'id="{anchor}"' in page.read_text(), target


@every_page
def test_a_path_that_a_page_names_exists(path):
    quoted = re.findall(r"`([^`\s]+)`", path.read_text())
    typed = re.findall(r"python (?:-P )?(\S+\.py)", path.read_text())
    for name in [name for name in quoted if name.startswith(TOP)] + typed:
        if not re.search(r"[*A-Z]{2}|[*{<]", name):  # NAME and patterns stand for several
            assert (ROOT / name.partition(":")[0]).exists(), name


@every_page
def test_a_command_that_a_page_types_exists(path):
    typed = set(re.findall(r"(?:^ {4}|\| |`|srun )rlvr ([a-z][a-z-]*)", path.read_text(), re.M))
    assert typed <= set(app.command_names())


@every_page
def test_a_target_of_make_exists(path):
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"(?:^ *|`)make ([a-z]+)", path.read_text(), re.M):
        assert f"\n{target}:" in makefile, target


def test_no_page_and_no_module_refers_to_files_outside():
    folders = ("rlvr_cli", "commands", "kernels", "fixtures", "benchmarks", "tests", "examples")
    sources = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    for path in {*PAGES, *sources} - {Path(__file__)}:
        text = path.read_text()
        assert not any(name in text for name in OUTSIDE), path


def test_the_pictures_are_drawn_by_their_script():
    spec = importlib.util.spec_from_file_location("draw", DOCS / "draw.py")
    assert spec and spec.loader
    draw = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(draw)
    for name, content in draw.pictures().items():
        assert (DOCS / name).read_text() == content, "run `python -P docs/draw.py`"


def test_every_example_is_in_its_index_and_says_what_it_does():
    index = (ROOT / "examples" / "README.md").read_text()
    scripts = sorted((ROOT / "examples").glob("*.sh"))
    assert [f"{name}.sh" for name in sorted(re.findall(r"^\| \[(\w+)\.sh\]", index, re.M))] == [
        path.name for path in scripts
    ]
    for path in scripts:
        first, *comment, strict = path.read_text().splitlines()[:5]
        assert first == "#!/usr/bin/env bash" and strict == "set -euo pipefail", path
        assert all(line.startswith("# ") for line in comment), path
        assert path.stat().st_mode & 0o111, path
