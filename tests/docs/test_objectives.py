"""docs/objectives.md: the tables of files, and the file that it shows whole."""

import ast
import re
from pathlib import Path

import pytest

from rlvr_cli import registry

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "objectives.md").read_text()
ALGORITHMS = "rlvr_cli/algorithms"


def row(folder: str, name: str) -> str:
    source = ROOT / ALGORITHMS / folder / f"{name.replace('-', '_')}.py"
    summary = (ast.get_docstring(ast.parse(source.read_text())) or "").partition("\n")[0]
    summary = summary.partition(" Shapes:")[0]
    return f"| [`{name}`](../{ALGORITHMS}/{folder}/{source.name}) | {summary} |"


@pytest.mark.parametrize("folder", ["objectives", "modifiers", "terms"])
def test_each_file_of_an_equation_is_in_the_table(folder):
    if folder == "terms":
        paths = sorted((ROOT / ALGORITHMS / folder).glob("[a-z]*.py"))
        rows = [row(folder, path.stem) for path in paths]
    else:
        rows = [row(folder, name) for name in registry.names(folder)]
    found = re.findall(rf"^\| \[`.*/{folder}/.*$", PAGE, re.M)
    assert found == rows, "paste this into docs/objectives.md:\n" + "\n".join(rows)


def test_the_objective_that_the_page_shows_is_the_file():
    source = (ROOT / ALGORITHMS / "objectives" / "grpo.py").read_text()
    assert f"```python\n{source}```" in PAGE
