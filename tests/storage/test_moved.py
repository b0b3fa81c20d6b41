"""Directories whose parents moved: which flag says where they are, and that it works."""

import shlex
import shutil

import pytest

from rlvr_cli.storage.shards import Shards

READERS = ("ucc", "diversity", "report", "export", "doctor")


@pytest.fixture
def apart(copy, monkeypatch):
    """The chain with each directory in a folder of its own, under another name."""
    (copy / "far").mkdir()
    for kind in ("prompts", "rollouts", "scores"):
        shutil.move(copy / kind, copy / "far" / f"the-{kind}")
    monkeypatch.chdir(copy)
    return copy


@pytest.mark.parametrize("command", READERS)
def test_a_reader_names_the_flag_for_a_parent_that_moved_and_takes_it(
    apart, rlvr, refused, command
):
    words = [command, "far/the-scores", *(["--out", "o"] if command != "doctor" else [])]
    said = refused(3, *words)
    assert "`far/rollouts`, which `far/the-scores` was made from, is not there" in said
    assert "say where it is now: `--rollouts DIR`" in said
    places = ["--rollouts", "far/the-rollouts", "--prompts", "far/the-prompts"]
    assert rlvr(*words, *places).code in ((0, 3) if command == "doctor" else (0,))


def test_train_step_takes_rollouts_and_scores_that_moved(apart, rlvr, refused):
    words = ["train-step", "advantages", "--out", "u", "--rollouts", "far/the-rollouts"]
    assert "`--scores DIR`" in refused(3, *words)
    assert rlvr(*words, "--scores", "far/the-scores").code == 0


def test_the_hint_has_the_parent_where_it_lies_in_a_folder_above(copy, rlvr, refused, tmp_path):
    (copy / "a b").mkdir()
    shutil.move(copy / "rollouts", copy / "a b" / "rollouts")
    said = refused(3, "score", copy / "a b" / "rollouts", "--out", tmp_path / "s")
    where = shlex.quote(str(copy / "prompts"))
    assert f"hint: say where it is now: `--prompts {where}`" in said
    ran = rlvr("score", copy / "a b" / "rollouts", "--out", tmp_path / "s", "--prompts",
               copy / "prompts")  # fmt: skip
    assert ran.code == 0


def test_another_directory_than_the_parent_is_refused_or_said_to_be_of_no_use(
    apart, chain, known, rlvr, refused
):
    words = ["score", "far/the-rollouts", "--out", "s", "--prompts", known / "prompts"]
    assert "is not the directory that `far/the-rollouts` was made from" in refused(3, *words)
    ran = rlvr("eval-passk", "far/the-scores", "--prompts", known / "prompts")
    assert f"no directory that was read was made from `{known / 'prompts'}`" in ran.err


def test_parents_are_found_through_a_link_to_a_directory_elsewhere(copy, rlvr, tmp_path):
    (tmp_path / "links" / "deep").mkdir(parents=True)
    (tmp_path / "links" / "deep" / "r").symlink_to(copy / "rollouts")
    assert Shards.open(tmp_path / "links" / "deep" / "r").parent("prompts").rows == 6
