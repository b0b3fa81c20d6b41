"""The page of benchmarks names layouts, options and verifiers that exist."""

import re
import shlex
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from rlvr_cli import benchmarks, config, registry
from rlvr_cli.errors import DataError, UserError
from rlvr_cli.verification.scoring import rewards

PAGE = (Path(__file__).parents[2] / "docs/benchmarks.md").read_text()
LINES = re.findall(r"`(rlvr prompts [^`]*)`", PAGE)
MISSING = ("is not installed", "rlvr[", "holds no SQLite database", "is not available")


def test_every_data_set_has_a_line():
    rows = [line for line in PAGE.splitlines() if line.startswith("| ")]
    assert len(LINES) == len(rows) - 1 > 15


@pytest.mark.parametrize("line", LINES)
def test_a_line_has_options_that_exist(rlvr, line):
    assert rlvr(*shlex.split(line)[1:], "--help").code == 0


@pytest.mark.parametrize("line", LINES)
def test_the_verifier_of_a_line_can_be_built(line):
    words = shlex.split(line)
    if "--verifier" in words:
        text = words[words.index("--verifier") + 1]
        try:
            rewards.build(text)
        except (UserError, DataError) as error:
            assert any(words in f"{error} {error.hint}" for words in MISSING), error


def test_the_options_that_are_named_are_those_of_the_verifier():
    for row in PAGE.splitlines():
        cells = row.split(" | ")
        name = re.match(r"`([a-z-]+)", cells[1]) if len(cells) == 5 else None
        for option in re.findall(r"`([a-z_]+)=", cells[2]) if name else ():
            assert option in registry.options("verifiers", name[1]), (name[1], option)


def test_every_benchmark_is_on_the_page():
    first_cells = " ".join(line.split(" | ")[0] for line in PAGE.splitlines())
    assert [name for name in benchmarks.names() if f"`{name}`" not in first_cells] == []


def test_the_definition_on_the_page_is_one(tmp_path):
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert set(tomllib.loads(text)["rollout"]) <= {f.name for f in fields(config.RolloutOptions)}
    (tmp_path / "my.toml").write_text(text)
    definition = benchmarks.load(str(tmp_path / "my.toml"))
    assert definition.prompts == (120,) and definition.data.path == str(tmp_path / "rows.jsonl")
