"""URLs of stores, and what is said where one cannot be opened, read or written."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rlvr_cli.errors import DataError, UsageError, UserError
from rlvr_cli.stores import pull, push
from rlvr_cli.stores.store import Store, at, url_of


@pytest.mark.parametrize(
    ("word", "url"),
    [
        ("s3://b/x", "s3://b/x"),
        ("s3://b/x/", "s3://b/x"),
        (Path("s3://b/x"), "s3://b/x"),  # which is s3:/b/x
        ("gs:/b/x", "gs://b/x"),
        (Path("file:///a/b"), "file:///a/b"),
        (
            "hf://datasets/u/x@refs%2Fconvert%2Fparquet",
            "hf://datasets/u/x@refs%2Fconvert%2Fparquet",
        ),
        ("simplecache::s3://b/x", "simplecache::s3://b/x"),
        ("s3", None),
        ("./s3/x", None),
        ("a:/b", None),
        ("nothing:/b", None),
        ("judge:url=http://localhost:8000", None),
        ("gsm8k:main", None),
        ("/a/s3://b", None),
    ],
)
def test_a_word_is_a_url_or_a_path(word, url):
    assert url_of(word) == url


def test_what_is_no_store_is_refused():
    for url, message in (
        ("nothing://b/x", "no store that fsspec knows"),
        ("s3://bucket", "is a bucket"),
        ("s3://", "names no bucket"),
        ("simplecache::s3://b/x", "chains file systems"),
        ("data/x", "not the URL of a store"),
    ):
        with pytest.raises(UsageError, match=message):
            at(url)


def test_a_store_of_commits_is_not_pushed_to(tmp_path):
    (tmp_path / "a").write_text("a")
    with pytest.raises(UsageError, match="one by one") as error:
        push.push(push.read(tmp_path), at("hf://user/model"))
    assert "hf upload" in error.value.hint


def test_a_package_that_is_missing_is_named_with_its_command():
    for url, extra in (("gs://b/x", "gcs"), ("abfs://b/x", "azure")):
        pytest.importorskip("fsspec")
        try:
            Store(url)
        except UserError as error:
            is_known = "not installed" in str(error) and f"rlvr[{extra}]" in error.hint
            assert is_known or "credentials" in str(error)


@pytest.mark.parametrize("scheme", ["memory", "file"])
def test_other_stores_are_pushed_to_and_pulled_from(tmp_path, scheme):
    (tmp_path / "tree" / "deep").mkdir(parents=True)
    for name in ("a", "deep/b"):
        (tmp_path / "tree" / name).write_text(name)
    url = f"{scheme}://{tmp_path}/there" if scheme == "file" else f"memory://{tmp_path.name}/there"
    assert push.push(push.read(tmp_path / "tree"), at(url)).files == 2
    assert push.push(push.read(tmp_path / "tree"), at(url)).files == 0
    assert pull.pull(pull.look(at(url)), tmp_path / "back").files == 2
    assert (tmp_path / "back" / "deep" / "b").read_text() == "deep/b"
    assert pull.pull(pull.look(at(f"{url}/deep")), tmp_path / "deep").files == 1


def test_a_bucket_that_does_not_exist_is_named(bucket, tmp_path):
    (tmp_path / "a").write_text("a")
    for act in (
        lambda store: pull.look(store),
        lambda store: push.push(push.read(tmp_path / "a"), store),
    ):
        with pytest.raises(DataError, match="the bucket of `s3://no-such-bucket/x` does not exist"):
            act(at("s3://no-such-bucket/x"))


def test_wrong_credentials_and_none_are_said_without_them(bucket, monkeypatch):
    bucket.forget_connections()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "wrong-key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong-secret")
    with pytest.raises(UserError, match="with these credentials") as error:
        pull.look(at(bucket.url("x")))
    assert "wrong-secret" not in str(error.value) and "AWS_PROFILE" in error.value.hint
    bucket.forget_connections()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    with pytest.raises(UserError, match="with these credentials"):
        pull.look(at(bucket.url("x")))
    bucket.forget_connections()


def test_a_bucket_of_another_region_says_what_to_set(bucket):
    bucket.server.fault = lambda method, path: "elsewhere"
    with pytest.raises(UserError, match=r"in another region: .*'eu-west-1'") as caught:
        at(bucket.url("x")).files()
    assert "set AWS_DEFAULT_REGION" in caught.value.hint


@pytest.mark.parametrize(
    ("url", "without"),
    [("s3://bucket//a/b", "s3://bucket/a/b"), ("gs://bucket/a//b", "gs://bucket/a/b"),
     ("s3://bucket/../a", "s3://bucket/a"), ("S3://bucket/./a", "s3://bucket/a")],
)  # fmt: skip
def test_parts_that_stores_read_in_different_ways_are_refused(url, without):
    with pytest.raises(UsageError, match="has a part") as caught:
        at(url)
    assert caught.value.hint.endswith(f"as in {without}")


@pytest.mark.parametrize(
    "environment",
    [
        {"AZURE_STORAGE_ACCOUNT_NAME": "an-account-of-nobody"},
        {"AZURE_STORAGE_CONNECTION_STRING": "AccountName=a;AccountKey=a2V5;"
         "BlobEndpoint=http://127.0.0.1:9/a"},
    ],
)  # fmt: skip
def test_azure_refuses_before_a_user_gives_up(monkeypatch, environment, slept):
    pytest.importorskip("adlfs").AzureBlobFileSystem.clear_instance_cache()
    for name in ("NAME", "KEY"):
        monkeypatch.delenv(f"AZURE_STORAGE_ACCOUNT_{name}", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UserError):
        at("az://box/runs").files()
    assert sum(slept) < 60  # libraries alone wait two minutes


@pytest.fixture
def slept(monkeypatch):
    """The seconds that are waited between tries: asked for, and not waited."""
    asked, sleep = [], asyncio.sleep

    async def at_once(seconds, *result):
        asked.append(seconds)
        return await sleep(0, *result)

    monkeypatch.setattr(asyncio, "sleep", at_once)
    return asked


def test_what_another_process_writes_is_seen_at_once(bucket):
    store = at(bucket.url("x"))
    assert store.files() == {} and store.file() is None
    bucket.write("x/a", b"1")
    assert [*store.files()] == ["a"]
    bucket.write("x/a", b"22")
    assert store.files()["a"].size == 2 and store.read("a") == b"22"
    bucket.remove("x/a")
    assert store.files() == {} and store.read("a") is None


def test_a_file_is_created_once(bucket):
    store = at(bucket.url("x"))
    assert store.create("a", b"1") and not store.create("a", b"2")
    assert bucket.read("x/a") == b"1"


def test_processes_that_are_forked_after_a_look_read_for_themselves(bucket):
    bucket.write("x/a", b"1")
    assert at(bucket.url("x")).read("a") == b"1"
    if (child := os.fork()) == 0:
        os._exit(0 if at(bucket.url("x")).read("a") == b"1" else 1)
    deadline = time.monotonic() + 120
    while not (ended := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < deadline:
        time.sleep(0.01)
    assert ended == (child, 0)


@pytest.mark.slow
def test_a_model_of_the_hub_is_pulled_at_a_revision_whose_name_has_slashes(tmp_path):
    model = tmp_path / "hub" / "user" / "tiny"
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    hub = Path(__file__).parents[1] / "hub.py"
    words = [sys.executable, "-P", hub, tmp_path / "port", tmp_path / "log", tmp_path / "hub"]
    with subprocess.Popen(list(map(str, words))) as server:
        while not (tmp_path / "port").exists() or not (tmp_path / "port").read_text():
            time.sleep(0.01)
        address = f"http://127.0.0.1:{(tmp_path / 'port').read_text()}"
        own = {"HF_ENDPOINT": address, "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "0"}
        code = "import sys; from rlvr_cli.cli.app import main; sys.exit(main())"
        url = "hf://user/tiny@refs%2Fpr%2F1"
        words = [sys.executable, "-P", "-c", code, "pull", url, str(tmp_path / "tiny")]
        ran = subprocess.run(words, env={**os.environ, **own}, capture_output=True, text=True)
        server.kill()
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "tiny" / "config.json").read_text() == "{}"


def test_a_path_of_a_disk_is_answered_with_its_url(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="not the URL of a store") as caught:
        at("../x y")
    url = caught.value.hint.partition(", or ")[2].split()[0]
    assert url == (tmp_path.parent / "x y").as_uri() and at(url)
