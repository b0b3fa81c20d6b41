"""Listings of what is pushed: which files, and under which names."""

import pytest

from rlvr_cli.errors import DataError, UserError
from rlvr_cli.stores import listing
from rlvr_cli.stores.listing import File, Listing


def test_links_to_files_are_followed_as_in_the_cache_of_the_hub(tmp_path):
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / "0a").write_text("{}")
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "snapshot" / "config.json").symlink_to("../blobs/0a")
    tree = listing.of_folder(tmp_path / "snapshot")
    assert tree.listing.files["config.json"].size == 2


def test_what_only_a_writer_needs_stays_behind(tmp_path):
    for name in ("_tmp-x/a", "_lock", "_lease-1.0", "_plan.json", "_writer-1.jsonl", "a", ".b"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    kept = listing.of_folder(tmp_path).listing.files
    assert sorted(kept) == [".b", "_plan.json", "_writer-1.jsonl", "a"]


def test_a_pipe_and_a_link_to_nothing_are_named(tmp_path):
    (tmp_path / "a").symlink_to("nothing")
    with pytest.raises(UserError, match="is no file"):
        listing.of_folder(tmp_path)


def test_the_digest_is_of_names_and_contents_alone():
    one = Listing({"a": File(1, "0" * 64)})
    assert one.digest != Listing({"b": File(1, "0" * 64)}).digest
    assert one.digest == Listing(one.files, before={"c": File(2, "")}).digest
    assert listing.parse(one.sealed(), "x") == one


def test_files_below_a_folder_are_not_those_of_a_neighbour():
    files = {name: File(1, "0" * 64) for name in ("run-1/a", "run-10/b", "run-1.txt")}
    assert list(Listing(files).under("run-1")) == ["a"]
    assert list(Listing(files).under("")) == list(files)


@pytest.mark.parametrize(
    "files",
    [
        {"a": [-1, ""]},
        {"a": [True, ""]},
        {"a": [1, "no sha256"]},
        {"a": [1]},
        {"a": None},
        {"../a": [1, ""]},
        {"a": [1, ""], "a/b": [1, ""]},
        [],
        None,
    ],
)
def test_a_listing_of_another_shape_is_refused(files):
    from rlvr_cli.storage import manifest

    with pytest.raises(DataError):
        listing.parse(manifest.seal({"format": 1, "files": files}), "x")
