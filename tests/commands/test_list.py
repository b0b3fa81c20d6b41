import json

import pytest

FOLDERS = ("objectives", "modifiers", "verifiers", "rollout", "training", "tasks")


def test_every_folder_is_listed(rlvr):
    ran = rlvr("list")
    assert ran.code == 0 and ran.err == ""
    assert [line for line in ran.out.splitlines() if line in FOLDERS] == [*FOLDERS]


def test_one_folder_shows_the_options_with_their_defaults(rlvr):
    out = rlvr("list", "objectives").out
    assert "quatro:delta=0.1,ratio=sequence,max_gap=20.0" in out
    assert out.splitlines()[0] == "objectives" and "verifiers" not in out


def test_json_is_one_object_of_names_and_what_they_are(rlvr):
    made = json.loads(rlvr("list", "--json").out)
    assert tuple(made) == FOLDERS
    assert made["objectives"]["grpo"].startswith("GRPO")
    assert all(text for entries in made.values() for text in entries.values())


def test_an_entry_stays_on_one_line(rlvr, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    lines = rlvr("list", "verifiers").out.splitlines()
    assert lines[0] == "verifiers"
    assert all(line.startswith("  ") for line in lines[1:]), lines


@pytest.mark.parametrize("folder", ["recipes", "objective"])
def test_an_unknown_list_is_answered_with_those_there_are(refused, folder):
    err = refused(2, "list", folder)
    assert f"no list of `{folder}`" in err and "objectives, modifiers, verifiers" in err
