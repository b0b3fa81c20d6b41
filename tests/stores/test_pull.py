"""What is fetched from a store is whole and as it was sent, or it is not there."""

import json
import threading

import pytest

from rlvr_cli.errors import DataError, UsageError, UserError
from rlvr_cli.stores import pull, push
from rlvr_cli.stores.store import at


@pytest.fixture
def pushed(bucket, chain):
    """The chain, pushed to `chain` of the bucket."""
    push.push(push.read(chain), at(bucket.url("chain")))
    return bucket


def fetch(url, target, **options):
    return pull.pull(pull.look(at(url)), target, **options)


def same(one, other):
    names = [p.relative_to(one) for p in one.rglob("*") if p.is_file()]
    others = [p.relative_to(other) for p in other.rglob("*") if p.is_file()]
    assert sorted(names) == sorted(others)
    return all((one / name).read_bytes() == (other / name).read_bytes() for name in names)


def test_what_was_pushed_comes_back_with_equal_bytes_and_nothing_else(pushed, chain, tmp_path):
    target = tmp_path / "back"
    assert fetch(pushed.url("chain"), target).files > 8
    assert same(chain, target)
    assert [path.name for path in tmp_path.iterdir() if "back" in path.name] == ["back"]
    assert fetch(pushed.url("chain"), target).files == 0


def test_a_neighbour_whose_name_begins_alike_is_left_out(bucket, tmp_path):
    for name in ("run-1/a", "run-10/b", "run-1.txt"):
        bucket.write(name, b"x")
    fetch(bucket.url("run-1"), tmp_path / "run")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["a"]


def test_what_lies_within_a_push_is_compared_too(pushed, tmp_path):
    pushed.flip("chain/rollouts/_manifest.json")
    with pytest.raises(DataError, match="is not as it was pushed"):
        fetch(pushed.url("chain/rollouts"), tmp_path / "rollouts")
    fetch(pushed.url("chain/scores"), tmp_path / "scores")


def test_a_byte_that_flipped_there_is_found_and_the_hint_mends_it(pushed, chain, rlvr, tmp_path):
    pushed.flip("chain/prompts/part-00000.parquet")
    ran = rlvr("pull", pushed.url("chain"), tmp_path / "back")
    assert ran.code == 3 and "is not as it was pushed" in ran.err and "--verify" in ran.err
    assert not (tmp_path / "back").exists()
    assert rlvr("push", chain, pushed.url("chain"), "--verify").code == 0
    assert rlvr("pull", pushed.url("chain"), tmp_path / "back").code == 0
    assert same(chain, tmp_path / "back")


def test_a_part_that_is_gone_there_is_named(pushed, tmp_path):
    pushed.remove("chain/prompts/part-00000.parquet")
    with pytest.raises(UserError, match=r"chain.* cannot be read"):
        fetch(pushed.url("chain"), tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_parts_of_a_directory_that_another_tool_copied_are_compared(bucket, chain, tmp_path):
    for path in (chain / "rollouts").iterdir():
        bucket.write(f"copied/{path.name}", path.read_bytes())
    fetch(bucket.url("copied"), tmp_path / "whole")
    assert same(chain / "rollouts", tmp_path / "whole")
    bucket.flip("copied/part-00000.parquet")
    with pytest.raises(DataError, match="part-00000"):
        fetch(bucket.url("copied"), tmp_path / "back")


def test_a_server_that_fails_in_the_middle_leaves_nothing_that_looks_whole(pushed, chain, tmp_path):
    pushed.server.fault = lambda method, path: "cut" if "part-00001" in path else None
    with pytest.raises(UserError, match="cannot be read"):
        fetch(pushed.url("chain"), tmp_path / "back")
    assert not (tmp_path / "back").exists()
    pushed.server.fault = lambda method, path: None
    sent = fetch(pushed.url("chain"), tmp_path / "back")
    assert sent.kept and same(chain, tmp_path / "back")


def test_another_content_here_is_kept(pushed, tmp_path):
    (tmp_path / "back").mkdir()
    (tmp_path / "back" / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="holds something else"):
        fetch(pushed.url("chain"), tmp_path / "back")
    assert (tmp_path / "back" / "mine.txt").read_text() == "mine"


def test_processes_that_fetch_the_same_share_one_download(pushed, chain, tmp_path):
    remote = pull.look(at(pushed.url("chain")))
    pushed.server.requests.clear()
    fetched = []
    work = [
        threading.Thread(
            target=lambda: fetched.append(pull.pull(remote, tmp_path / "back", waits=True))
        )
        for _ in range(4)
    ]
    for one in work:
        one.start()
    for one in work:
        one.join()
    assert sorted(sent.files for sent in fetched)[:3] == [0, 0, 0]
    assert same(chain, tmp_path / "back")


@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil", "a//b", "a\0b", ".", ""])
def test_a_listing_that_leaves_its_folder_is_refused(bucket, tmp_path, name):
    content = {"format": 1, "files": {name: [1, "0" * 64]}}
    from rlvr_cli.storage import manifest

    bucket.write("x/_pushed.json", manifest.seal(content))
    with pytest.raises(DataError):
        fetch(bucket.url("x"), tmp_path / "inner" / "back")
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"sha256": 1}', b"\xff"])
def test_a_listing_that_no_push_wrote_is_refused(bucket, tmp_path, content):
    bucket.write("x/_pushed.json", content or b" ")
    with pytest.raises(DataError, match="not a listing of this rlvr"):
        fetch(bucket.url("x"), tmp_path / "back")


def test_keys_that_are_no_names_of_files_are_refused(bucket, tmp_path):
    bucket.write("x/a", b"1")
    bucket.write("x/a/b", b"2")
    with pytest.raises(DataError, match="a file and a folder"):
        fetch(bucket.url("x"), tmp_path / "back")


def test_a_marker_of_a_folder_is_no_file(bucket, tmp_path):
    bucket.write("x/", b"")
    bucket.write("x/a", b"1")
    fetch(bucket.url("x/"), tmp_path / "back")
    assert [path.name for path in (tmp_path / "back").iterdir()] == ["a"]


def test_a_run_is_pulled_whole_and_pushed_again_once_it_went_on(bucket, rlvr, trained, tmp_path):
    assert rlvr("push", trained, bucket.url("run")).out == f"{bucket.url('run')}\n"
    ran = rlvr("pull", bucket.url("run"), tmp_path / "run", "--json")
    assert json.loads(ran.out)["kept"] == 0 and same(trained, tmp_path / "run")
    with open(tmp_path / "run" / "metrics.jsonl", "a") as metrics:
        metrics.write("{}\n")
    assert rlvr("push", tmp_path / "run", bucket.url("run")).code == 2
    again = rlvr("push", tmp_path / "run", bucket.url("run"), "--update", "--json")
    assert json.loads(again.out)["files"] == 1
