"""Directories that reports are made of."""

import json
from pathlib import Path

import pytest

from rlvr_cli.report import page as pages, sources
from tests.report import browser

HOSTILE = (
    "</script></pre><script>window.pwned = 1</script><img src=x onerror='window.pwned = 2'>"
    "{{ 12345 * 54321 }} $x_1$ &amp; \x1b[31m \x00 \u202e ]]> <!-- "
)


@pytest.fixture(scope="session")
def of_run(trained):
    """The report of a run."""
    return pages.make(sources.open_all([trained]))


@pytest.fixture
def imported(jsonl, rlvr, tmp_path):
    """Imports completions of prompts; the folder with their directories."""

    def make(texts: dict[str, list], name: str = "imported", **columns: object):
        rows = [
            {"id": prompt_id, "prompt": f"{prompt_id}?", "answer": "1", "completion": text,
             "correct": correct, **columns}
            for prompt_id, found in texts.items() for text, correct in found
        ]  # fmt: skip
        out = tmp_path / name
        assert rlvr("import", jsonl(*rows, name=f"{name}.jsonl"), "--out", out).code == 0
        return out

    return make


@pytest.fixture
def report():
    """Makes a report of paths in memory."""
    return lambda *paths, **options: pages.make(sources.open_all(list(paths)), **options)


@pytest.fixture
def hostile(imported):
    """Completions, prompts and names that attack the page."""
    texts = [(HOSTILE, True), (HOSTILE + "2", False), ("x" * 5000, True)]
    return imported({HOSTILE: texts, "b": texts}, "<b>hostile", source=json.dumps(HOSTILE))


@pytest.fixture(scope="session")
def page(tmp_path_factory):
    """A browser's page."""
    if browser.CHROMIUM is None:
        pytest.skip("chromium is not installed (apt-get install chromium)")
    with browser.opened(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="session")
def file(tmp_path_factory, of_run) -> Path:
    """The report of a run as a file."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(of_run.html)
    return path


@pytest.fixture
def fresh(page, file):
    """The page as it is opened on a desk, in the light."""
    page.size(1200, 900)
    page.media(scheme="light")
    page.open(file)
    page.run("localStorage.clear()")
    return page
