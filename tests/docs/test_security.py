"""The page on security names tests that there are."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()


def test_every_test_that_the_page_names_is_there():
    defined = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert len(named) > 10 and named <= defined, named - defined


def test_every_file_that_the_page_names_is_there():
    named = re.findall(r"`(tests/[\w/.]+)`", PAGE)
    assert len(named) > 5
    assert all((ROOT / name).is_file() for name in named), named
