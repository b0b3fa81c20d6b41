"""What a stored directory or run means does not change: options, defaults and behaviour.

options.json of a version holds every option that it had, with its default.
"""

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from rlvr_cli import config, registry

FOLDERS = sorted(path.parent for path in Path(__file__).parent.glob("*/options.json"))


@pytest.fixture
def stored(tmp_path, monkeypatch):
    folder = shutil.copytree(FOLDERS[0], tmp_path / "stored")
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_an_option_of_a_run_that_was_added_says_what_earlier_versions_did(folder):
    before = json.loads((folder / "options.json").read_text())["config"]
    for table in dataclasses.fields(config.RunConfig):
        options = {f.name for f in dataclasses.fields(type(table.default))}
        stated = config.earlier(type(table.default))
        assert options - before.get(table.name, {}).keys() <= stated.keys(), table.name


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_an_option_of_a_spec_that_was_added_or_changed_says_what_earlier_versions_did(folder):
    before = json.loads((folder / "options.json").read_text())["specs"]
    for kind, named in before.items():
        for name, defaults in named.items():
            empty = {key: None for key, value in defaults.items() if value is None}
            spec = name + ":" * bool(empty) + ",".join(f"{key}=x" for key in empty)
            meant = registry.parse(kind, spec, name)[1] if not empty else {}
            for key, value in meant.items():
                assert key not in defaults or value == defaults[key], f"{kind} {name}:{key}"
                stated = getattr(registry.module(kind, name), "EARLIER", {})
                assert key in defaults or key in stated, f"EARLIER of {name} does not say {key}"


def test_a_half_made_directory_is_not_finished_by_another_version_of_a_verifier(
    rlvr, refused, stored, monkeypatch
):
    words = ["score", "whole/rollouts", "--out", "half/scores"]
    listing = json.loads(next(Path("half/scores").glob("_partial*.json")).read_text())
    prompts = json.loads(Path("whole/prompts/_manifest.json").read_text())
    name = prompts["params"].get("verifier") or "expression"
    monkeypatch.setattr(registry.module("verifiers", name), "VERSION", 2, raising=False)
    err = refused(2, *words)
    assert f"the version of verifier `{name}` was 1, is 2" in err
    assert "behaviour" not in listing
    made = rlvr("score", "whole/rollouts", "--out", "new/scores")
    assert made.code == 0, made.err
    manifest = json.loads(Path("new/scores/_manifest.json").read_text())
    assert manifest["behaviour"] == {f"verifier `{name}`": 2}


def test_a_complete_directory_of_another_version_of_a_verifier_is_left_as_it_is(
    rlvr, stored, monkeypatch
):
    before = Path("whole/scores/_manifest.json").read_bytes()
    monkeypatch.setattr(registry.module("verifiers", "expression"), "VERSION", 2, raising=False)
    ran = rlvr("score", "whole/rollouts", "--out", "whole/scores")
    assert ran.code == 0 and "nothing left to do" in ran.err, ran.err
    assert Path("whole/scores/_manifest.json").read_bytes() == before


@pytest.mark.parametrize(
    ("folder", "name", "directory"),
    [("rollout", "transformers", "half/rollouts"), ("objectives", "grpo", "half/advantages")],
)
def test_engines_and_objectives_have_versions_too(
    refused, stored, monkeypatch, folder, name, directory
):
    entries = json.loads(Path("commands.json").read_text())
    words = next(entry["command"] for entry in entries if entry["directory"] == directory)
    assert list(Path(directory).glob("_partial*.json"))
    monkeypatch.setattr(registry.module(folder, name), "VERSION", 2, raising=False)
    assert "the version of" in refused(2, *words)


def test_what_was_begun_with_other_values_than_todays_defaults_is_said(rlvr, stored):
    ran = rlvr("rollout", "whole/prompts", "--model", "policy", "--out", "half/rollouts")
    assert ran.code == 0, ran.err
    assert "was begun with" in ran.err and "num_generations 4" in ran.err
    params = json.loads(Path("half/rollouts/_manifest.json").read_text())["params"]
    assert params["num_generations"] == 4
