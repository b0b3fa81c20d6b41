"""docs/objectives.md: the tables of files, and the file that it shows."""

import re
from pathlib import Path

import pytest

from rlvr_cli import registry

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "objectives.md").read_text()
ALGORITHMS = "rlvr_cli/algorithms"


def test_the_tables_are_made_from_the_code(up_to_date):
    up_to_date("objectives.md")


@pytest.mark.parametrize("folder", ["objectives", "modifiers", "terms"])
def test_each_file_of_an_equation_is_linked(folder):
    linked = re.findall(rf"^\| \[`.*?`\]\(\.\./{ALGORITHMS}/{folder}/(.*?)\)", PAGE, re.M)
    assert linked == sorted(p.name for p in (ROOT / ALGORITHMS / folder).glob("[a-z]*.py"))


ROWS = {
    cells[0].split("`")[1]: cells
    for line in PAGE.splitlines()
    if line.startswith("| [`")
    and len(cells := re.split(r" (?<!\\)\| ", line.removeprefix("| ").removesuffix(" |"))) == 7
}


@pytest.mark.parametrize(
    ("folder", "name"), [(f, n) for f in ("objectives", "modifiers") for n in registry.names(f)]
)
def test_the_table_has_every_objective_and_modifier_with_its_options(folder, name):
    _, what, equation, _, options, elsewhere, use = ROWS[name]
    spec = registry.canonical(folder, name).partition(":")[2]
    assert options.strip("`").replace(", ", ",") == spec
    missing = f"the docstring of {name}'s file needs lines `Elsewhere: ...` and `Use: ...`"
    assert what and equation and elsewhere and use, missing


def test_the_objective_that_the_page_shows_is_the_file():
    source = (ROOT / ALGORITHMS / "objectives" / "grpo.py").read_text()
    assert f"```python\n{source}```" in PAGE
