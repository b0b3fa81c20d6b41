"""The script that makes the reference pages, as a module."""

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="session")
def reference():
    """docs/make.py."""
    found = importlib.util.spec_from_file_location("make", DOCS / "make.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def up_to_date(reference):
    """Whether a page is what the script makes of it now."""

    def check(name: str) -> None:
        message = f"docs/{name} is out of date: run `python -P docs/make.py`"
        assert (DOCS / name).read_text() == reference.page(name), message

    return check
