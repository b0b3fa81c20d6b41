"""Manifests whose checksum is right and that no writer wrote, and things in the place of files."""

import copy
import os
import re
import shutil

import pytest

from rlvr_cli.errors import DataError
from rlvr_cli.storage import manifest
from rlvr_cli.storage.begun import begun_with
from rlvr_cli.storage.shards import MANIFEST, Shards, read_sealed, seal


@pytest.fixture(scope="module")
def honest(known):
    """The manifest of rollouts."""
    return read_sealed(known / "rollouts" / MANIFEST)


@pytest.fixture
def rollouts(known, tmp_path):
    """A copy of the same rollouts, beside a link to their prompts."""
    (tmp_path / "prompts").symlink_to(known / "prompts")
    return shutil.copytree(known / "rollouts", tmp_path / "rollouts")


def lie(folder, honest, change):
    """Writes a manifest that was changed, under the checksum of what it says now."""
    changed = copy.deepcopy(honest)
    change(changed)
    (folder / MANIFEST).write_bytes(seal(changed))


def set_part(name, value):
    return lambda m: m["parts"][0].update({name: value})


LIES = {
    "parts in a table": lambda m: m.update(parts={"0": m["parts"][0]}),
    "params in a list": lambda m: m.update(params=[]),
    "no params": lambda m: m.pop("params"),
    "a number for a parent": lambda m: m.update(parents={"prompts": 7}),
    "a parent without a digest": lambda m: m["parents"]["prompts"].pop("digest"),
    "a parent's path with a NUL": lambda m: m["parents"]["prompts"].update(path="a\0b"),
    "no summary": lambda m: m.pop("summary"),
    "negative rows": set_part("rows", -3),
    "rows that are true": set_part("rows", True),
    "half a row": set_part("rows", 0.5),
    "no checksum of a part": set_part("sha256", None),
    "a part above the folder": set_part("name", "../part-00000.parquet"),
    "a part at an absolute path": set_part("name", "/part-00000.parquet"),
    "a part in a folder": set_part("name", "inner/part-00000.parquet"),
    "a part that ends with a new line": set_part("name", "part-00000.parquet\n"),
    "a part twice": lambda m: m.update(parts=m["parts"] * 2, planned_parts=2 * m["planned_parts"]),
    "fewer parts than planned": lambda m: m.update(planned_parts=m["planned_parts"] + 1),
    "another digest": lambda m: m.update(digest="0" * 64),
    "a fingerprint of letters": lambda m: m.update(fingerprint="z" * 64),
    "a version of behaviour in words": lambda m: m.update(behaviour={"engine": "new"}),
}


@pytest.mark.parametrize("name", LIES)
def test_a_manifest_that_no_writer_wrote_is_refused_in_one_line(rollouts, honest, refused, name):
    lie(rollouts, honest, LIES[name])
    assert "is not a manifest of rlvr" in refused(3, "check", rollouts)
    with pytest.raises(DataError, match="is not a manifest of rlvr"):
        begun_with(rollouts)


def test_rows_that_differ_from_those_of_the_part_are_refused(rollouts, honest, refused):
    lie(rollouts, honest, set_part("rows", honest["parts"][0]["rows"] + 1))
    assert "its _manifest.json says" in refused(3, "check", rollouts)


def test_a_summary_without_what_a_reader_needs_is_a_plain_error(rollouts, honest):
    lie(rollouts, honest, lambda m: m.update(summary={}))
    with pytest.raises(DataError, match="has no `tokens` in its summary"):
        Shards.open(rollouts).summary["tokens"]
    assert Shards.open(rollouts).summary.get("tokens") is None


def test_parents_in_a_circle_are_refused(rollouts, honest, refused):
    digest = honest["digest"]
    circle = {"rollouts": {"path": "../rollouts", "digest": digest}}
    lie(rollouts, honest, lambda m: m.update(parents=circle))
    with pytest.raises(DataError, match="is its own ancestor"):
        Shards.open(rollouts).parent("prompts")


@pytest.mark.parametrize("name", [MANIFEST, "part-00000.parquet"])
@pytest.mark.parametrize("kind", ["pipe", "folder", "link to itself", "device"])
def test_what_is_no_file_is_refused_and_nothing_waits(rollouts, refused, name, kind):
    path = rollouts / name
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.symlink_to(name)
    assert str(rollouts) in refused(3, "check", rollouts)


def test_deep_json_in_the_place_of_a_manifest_is_refused(rollouts, refused):
    (rollouts / MANIFEST).write_text("[" * 100_000)
    assert "was cut or changed" in refused(3, "check", rollouts)


def test_every_cut_and_every_flipped_byte_of_a_sealed_file_is_noticed(tmp_path):
    path = tmp_path / "sealed.json"
    sealed = manifest.seal({"a": [1, {"b": None}], "c": "text"})
    for place in range(len(sealed)):
        path.write_bytes(sealed[:place] + bytes([sealed[place] ^ 4]) + sealed[place + 1 :])
        with pytest.raises(DataError, match="cut or changed"):
            manifest.unsealed(path)
    path.write_bytes(sealed[: len(sealed) // 2])
    with pytest.raises(DataError, match="cut or changed"):
        manifest.unsealed(path)


def test_the_hint_for_a_damaged_directory_loses_nothing_and_works(rlvr, known, tmp_path):
    prompts = tmp_path / "prompts"
    words = ["prompts", "task:expression", "--limit", 4, "--out", prompts]
    assert rlvr(*words).code == 0
    whole = (prompts / MANIFEST).read_bytes()
    (prompts / MANIFEST).write_bytes(whole[:-9])
    ran = rlvr(*words)
    moved = re.search(r"move `([^`]+)` away and run the command that made it again", ran.err)
    os.rename(moved[1], tmp_path / "away")
    assert rlvr(*words).code == 0
    assert (prompts / MANIFEST).read_bytes() == whole
    assert (tmp_path / "away" / "part-00000.parquet").exists()


def test_hints_are_commands_that_a_shell_reads_as_meant(tmp_path):
    run = tmp_path / "my run"
    (run / "steps" / "000001" / "update").mkdir(parents=True)
    (run / "inputs.json").touch()
    command = f"`rlvr train --out '{run}'`"
    update = run / "steps" / "000001" / "update"
    assert command in manifest.remake_hint(update)
    assert command in manifest.remake_part_hint(update / "part-00000.parquet")
    assert command in manifest.remake_checkpoint_hint(update)
