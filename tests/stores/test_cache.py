"""What commands read of a store is fetched once, and again if it changed there."""

import json
import shutil

import pytest

from rlvr_cli.errors import DataError
from rlvr_cli.storage import fetched
from rlvr_cli.stores import cache, push
from rlvr_cli.stores.store import at


@pytest.fixture
def rows(bucket):
    bucket.write("rows.jsonl", b'{"prompt": "1+1", "answer": "2"}\n')
    return bucket.url("rows.jsonl")


def test_a_file_is_fetched_once_and_again_when_it_changed(bucket, rows):
    path, sent = cache.local(rows)
    assert sent.files == 1 and path.name == "rows.jsonl"
    assert cache.local(rows) == (path, None)
    bucket.write("rows.jsonl", b'{"prompt": "1+2", "answer": "3"}\n')  # as long as before
    other, sent = cache.local(rows)
    assert sent.files == 1 and b"1+2" in other.read_bytes() and b"1+1" in path.read_bytes()


def test_what_was_cut_in_the_cache_is_fetched_again(rows):
    path, _ = cache.local(rows)
    path.write_bytes(b"{")
    assert cache.local(rows)[1].files == 1


def test_the_cache_may_be_removed(rows):
    path, _ = cache.local(rows)
    shutil.rmtree(fetched.folder())
    assert cache.local(rows)[0] == path and path.exists()


def test_equal_content_at_two_places_is_kept_once(bucket, chain):
    for name in ("one", "other"):
        push.push(push.read(chain / "prompts"), at(bucket.url(f"{name}/prompts")))
    one, other = (cache.local(bucket.url(f"{name}/prompts")) for name in ("one", "other"))
    assert one[0] == other[0] and other[1] is None


def test_weights_are_left_out_where_they_are_not_read(bucket, tmp_path):
    for name in ("update/_manifest.json", "update/_checkpoint/model.safetensors"):
        bucket.write(f"run/{name}", b"{}")
    light, _ = cache.local(bucket.url("run"), weights=False)
    whole, _ = cache.local(bucket.url("run"))
    assert not (light / "update" / "_checkpoint").exists()
    assert (whole / "update" / "_checkpoint").exists()
    with pytest.raises(DataError, match="holds only checkpoints"):
        bucket.write("bare/_checkpoint/model.safetensors", b"{}")
        cache.local(bucket.url("bare"), weights=False)


def test_an_origin_is_kept_without_the_secrets_of_its_url(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    entry = fetched.folder() / "key"
    entry.mkdir(parents=True)
    fetched.keep(entry, "sftp://me:secret@host/x/rollouts", "0" * 64)
    (entry / "rollouts").mkdir()
    assert json.loads((entry / fetched.ORIGIN).read_text())["url"] == "sftp://***@host/x/rollouts"
    assert fetched.recorded(entry / "rollouts" / "deep") == "sftp://***@host/x/rollouts/deep"
    assert fetched.relative_url(entry / "rollouts", "../prompts") == "sftp://***@host/x/prompts"
    assert fetched.relative_url(entry / "rollouts", "../../../../etc") is None
    assert list(fetched.with_digest("0" * 64)) == [entry / "rollouts"]
