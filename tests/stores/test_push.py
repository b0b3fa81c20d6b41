"""Directories that go to a store, whole or visibly not, over a real S3 server."""

import contextlib
import os
import signal
import subprocess
import sys
import threading

import pytest

from rlvr_cli.errors import DataError, UsageError, UserError
from rlvr_cli.stores import pull, push
from rlvr_cli.stores.listing import PUSHED, PUSHING
from rlvr_cli.stores.store import Store, at


@pytest.fixture
def tree(tmp_path):
    """Three files, one of them deeper."""
    for name in ("a.txt", "b.txt", "deep/c.txt"):
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"this is {name}")
    return tmp_path / "tree"


def send(folder, url, **options):
    return push.push(push.read(folder), at(url), **options)


def test_all_files_go_and_what_says_so_goes_last(bucket, tree):
    sent = send(tree, bucket.url("tree"))
    assert (sent.files, sent.kept) == (3, 0)
    order = bucket.sent()
    assert order[0] == f"tree/{PUSHING}" and order[-1] == f"tree/{PUSHED}"
    assert bucket.names() == [f"tree/{PUSHED}", "tree/a.txt", "tree/b.txt", "tree/deep/c.txt"]


def test_manifests_go_after_all_parts(bucket, chain):
    send(chain, bucket.url("chain"))
    order = [name.rpartition("/")[2] for name in bucket.sent()][1:-1]
    assert order.index("_manifest.json") == sum(name.startswith("part-") for name in order)


def test_what_is_there_is_not_sent_again(bucket, tree):
    send(tree, bucket.url("tree"))
    bucket.sent()
    assert send(tree, bucket.url("tree/")).files == 0
    assert bucket.sent() == []


def test_a_server_that_ends_in_the_middle_costs_only_what_did_not_arrive(bucket, tree, tmp_path):
    s3, url = bucket.server, bucket.url("tree")
    ending = threading.Thread(target=s3.stop)

    def end(method, path):
        if method != "PUT" or not path.endswith("b.txt"):
            return None
        with contextlib.suppress(RuntimeError):  # it is asked again before it has ended
            ending.start()
        return "cut"

    s3.fault = end
    with pytest.raises(UserError, match=r"`s3://.*` cannot be written") as error:
        send(tree, url)
    assert "same command again" in error.value.hint
    s3.fault = lambda method, path: None
    ending.join()
    s3.start()
    assert f"tree/{PUSHED}" not in bucket.names()
    for place in (url, f"{url}/deep"):
        with pytest.raises(DataError, match="is incomplete"):
            pull.look(at(place))
    there = {name for name in bucket.names() if name.endswith(".txt")}
    bucket.sent()
    send(tree, url)
    assert not there & set(bucket.sent())
    pull.pull(pull.look(at(url)), tmp_path / "back")
    assert (tmp_path / "back" / "deep" / "c.txt").read_text() == "this is deep/c.txt"


@pytest.mark.slow
def test_a_push_that_is_killed_leaves_nothing_that_looks_whole_and_goes_on(bucket, tree):
    reached, killed = threading.Event(), threading.Event()

    def stall(method, path):
        if method == "PUT" and path.endswith("c.txt"):
            while "tree/a.txt" not in bucket.names():
                pass
            reached.set()
            killed.wait(120)

    bucket.server.fault = stall
    code = "import sys; from rlvr_cli.cli.app import main; sys.exit(main())"
    words = [sys.executable, "-P", "-c", code, "push", str(tree), bucket.url("tree")]
    running = subprocess.Popen(words, env=os.environ, stderr=subprocess.DEVNULL)
    assert reached.wait(120)
    running.send_signal(signal.SIGKILL)
    running.wait()
    killed.set()
    assert f"tree/{PUSHED}" not in bucket.names() and f"tree/{PUSHING}" in bucket.names()
    with pytest.raises(DataError, match="is incomplete"):
        pull.look(at(bucket.url("tree")))
    bucket.server.fault = lambda method, path: None
    bucket.sent()
    send(tree, bucket.url("tree"))
    assert "tree/a.txt" not in bucket.sent()
    assert pull.look(at(bucket.url("tree"))).pushed


def test_a_busy_store_is_asked_again(bucket, tree):
    left = [2]

    def busy(method, path):
        if path.endswith("a.txt") and left[0]:
            left[0] -= 1
            return "busy"
        return None

    bucket.server.fault = busy
    assert send(tree, bucket.url("tree")).files == 3
    assert not left[0]


def test_another_content_is_refused_and_replaced_only_if_asked(bucket, tree):
    url = bucket.url("tree")
    send(tree, url)
    (tree / "a.txt").write_text("changed")
    (tree / "b.txt").unlink()
    with pytest.raises(UsageError, match=r"holds something else than .*: a\.txt, b\.txt") as error:
        send(tree, url)
    assert "the same command with `--update`" in error.value.hint
    assert bucket.read("tree/a.txt") == b"this is a.txt"
    bucket.sent()
    assert send(tree, url, update=True).kept == 1
    assert "tree/deep/c.txt" not in bucket.sent()
    assert bucket.read("tree/a.txt") == b"changed" and "tree/b.txt" not in bucket.names()


def test_an_update_that_is_cut_does_not_take_old_content_for_new(bucket, tree):
    url = bucket.url("tree")
    send(tree, url)
    for name in ("a.txt", "b.txt"):  # as long as before
        (tree / name).write_text((tree / name).read_text().upper())
    bucket.server.fault = lambda method, path: "cut" if path.endswith("b.txt") else None
    with pytest.raises(UserError):
        send(tree, url, update=True)
    with pytest.raises(DataError, match="is incomplete"):
        pull.look(at(url))
    bucket.server.fault = lambda method, path: None
    send(tree, url)
    assert bucket.read("tree/a.txt") == b"THIS IS A.TXT"
    assert bucket.read("tree/b.txt") == b"THIS IS B.TXT"


def test_what_no_push_put_there_is_refused(bucket, tree):
    bucket.write("tree/a.txt", b"THIS IS A.TXT")
    with pytest.raises(UsageError, match=r"something else than .*: a\.txt"):
        send(tree, bucket.url("tree"))
    send(tree, bucket.url("tree"), update=True)
    assert bucket.read("tree/a.txt") == b"this is a.txt"


def test_a_part_that_was_removed_there_is_sent_again(bucket, tree):
    send(tree, bucket.url("tree"))
    bucket.remove("tree/a.txt")
    assert send(tree, bucket.url("tree")).files == 1
    assert pull.look(at(bucket.url("tree"))).pushed


def test_a_file_that_was_damaged_there_is_found_and_sent_again(bucket, tree):
    send(tree, bucket.url("tree"))
    bucket.flip("tree/a.txt")
    assert send(tree, bucket.url("tree"), verify=True).files == 1
    assert bucket.read("tree/a.txt") == b"this is a.txt"


def test_a_file_that_the_store_does_not_list_as_it_was_sent_is_named(bucket, tree, monkeypatch):
    """As of WebDAV and Azure, which take some characters of a name for others."""
    listed = Store.files
    monkeypatch.setattr(
        Store, "files", lambda self: {n: f for n, f in listed(self).items() if n != "deep/c.txt"}
    )
    with pytest.raises(UserError, match=r"does not have `deep/c\.txt` as sent") as error:
        send(tree, bucket.url("tree"))
    assert "rename it and add `--update`" in error.value.hint
    assert f"tree/{PUSHED}" not in bucket.names()


def test_a_second_process_that_pushes_something_else_is_noticed(bucket, tree):
    store = Store(bucket.url("tree"))

    def another(method, path):
        if method == "PUT" and path.endswith("a.txt"):
            bucket.server.fault = lambda method, path: None
            bucket.write(f"tree/{PUSHING}", push.Listing({}).sealed())

    bucket.server.fault = another
    with pytest.raises(UserError, match="another process writes to"):
        push.push(push.read(tree), store)
    assert f"tree/{PUSHED}" not in bucket.names()


def test_what_is_half_made_or_being_written_is_refused(tree, tmp_path, chain):
    from rlvr_cli.storage import locks

    with locks.locked(tree / "_lock"), pytest.raises(UserError, match="another process is writing"):
        push.read(tree)
    half = tmp_path / "half"
    half.mkdir()
    (half / "_plan.json").write_bytes((chain / "rollouts" / "_manifest.json").read_bytes())
    with pytest.raises(DataError, match="is not complete"):
        push.read(half)
    for name in ("nothing", "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        with pytest.raises(UserError):
            push.read(tmp_path / name)
    (tree / "link").symlink_to(tmp_path)
    with pytest.raises(UserError, match="is a link to a folder"):
        push.read(tree)


def test_a_file_that_changes_while_it_is_sent_is_named(bucket, tree):
    read = push.read(tree)
    (tree / "a.txt").write_text("longer than it was")
    with pytest.raises(UserError, match=r"a\.txt` has changed since it was read"):
        push.push(read, at(bucket.url("tree")))


def test_a_file_of_several_pieces_arrives_whole(bucket, tmp_path):
    big = tmp_path / "big"
    big.mkdir()
    (big / "weights.bin").write_bytes(os.urandom(1 << 20) * 17)
    send(big, bucket.url("big"))
    assert ("POST", f"/{bucket.name}/big/weights.bin") in bucket.server.requests  # multipart
    pull.pull(pull.look(at(bucket.url("big"))), tmp_path / "back")
    assert (tmp_path / "back/weights.bin").read_bytes() == (big / "weights.bin").read_bytes()


def test_an_answer_that_is_lost_once_all_pieces_are_one_file_costs_nothing(bucket, tmp_path):
    lost = []

    def lose(method, path):
        posts = [one for one in bucket.server.requests if one[0] == "POST"]
        if method != "POST" or len(posts) < 2:  # the first began the upload
            return None
        lost.append(path)
        return "lost" if len(lost) == 1 else "gone"

    (tmp_path / "weights.bin").write_bytes(os.urandom(1 << 20) * 17)
    bucket.server.fault = lose
    assert send(tmp_path / "weights.bin", bucket.url("weights.bin")).files == 1
    assert len(lost) > 1
    assert bucket.read("weights.bin") == (tmp_path / "weights.bin").read_bytes()


def test_a_file_alone_is_sent_and_another_one_refused(bucket, tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text("{}")
    url = bucket.url("x.jsonl")
    assert (send(path, url).files, send(path, url).files) == (1, 0)
    path.write_text("[]")
    with pytest.raises(UsageError, match="something else"):
        send(path, url)
    send(path, url, update=True)
    assert bucket.read("x.jsonl") == b"[]"
