import re
from pathlib import Path

from rlvr_cli.cli import app

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_the_table_of_commands_is_the_one_that_the_folder_gives():
    rows = [f"| `rlvr {name}` | {app.summary(name)} |" for name in app.command_names()]
    found = re.findall(r"^\| `rlvr .*$", README, re.M)
    assert found == rows, "run `python -P docs/make.py`"


def test_every_command_that_the_readme_types_exists():
    typed = set(re.findall(r"(?:^ {4}|\| |`)rlvr ([a-z-]+)", README, re.M))
    assert typed <= set(app.command_names())


def test_the_two_commands_are_targets_of_the_makefile():
    makefile = (ROOT / "Makefile").read_text()
    assert "\ndemo:" in makefile and "\ntest:" in makefile
    assert "    make demo" in README and "    make test" in README


def test_the_readme_is_a_page_and_a_half():
    table = re.findall(r"^(?:\||<!--).*$", README, re.M)
    assert len(README.splitlines()) - len(table) <= 75
