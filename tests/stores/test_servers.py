"""Directories that go to other stores than S3 and back, over real servers on the loopback.

Run one by its name, as in `pytest -k azure`; those whose server is not installed are skipped.
"""

import importlib.util
import os
import runpy
import shutil
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from rlvr_cli.errors import DataError, UsageError, UserError
from rlvr_cli.stores import azure, pull, push
from rlvr_cli.stores.store import Store, at

KINDS = ["gcs", "azure", "sftp", "sftp-paramiko", "webdav"]
PACKAGES = {
    "gcs": ("gcsfs", "gcp_storage_emulator"),
    "azure": ("adlfs",),
    "sftp": ("sshfs",),
    "sftp-paramiko": ("asyncssh", "paramiko"),
    "webdav": ("webdav4", "wsgidav", "cheroot"),
    "http": (),
}


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """Starts the server of a kind, once; a skip if it is not installed."""
    made = runpy.run_path(str(Path(__file__).parents[1] / "store_servers.py"))
    running = {}

    def start(kind):
        for package in PACKAGES[kind]:
            if importlib.util.find_spec(package) is None:
                pytest.skip(f"{kind}: pip install {package}")
        if kind == "azure" and shutil.which("azurite-blob") is None:
            pytest.skip("azure: npm install azurite, and put its azurite-blob on the PATH")
        if kind not in running:
            server = made[kind.partition("-")[0].capitalize()]
            running[kind] = server(tmp_path_factory.mktemp(kind))
        return running[kind]

    yield start
    for server in running.values():
        server.stop()


@pytest.fixture
def place(servers, monkeypatch, tmp_path, request):
    """The server of a kind, as the environment names it."""
    server = servers(request.param)
    named(monkeypatch, server.environment)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    if request.param.startswith("sftp"):
        _take("paramiko" if "paramiko" in request.param else "sshfs")
    return server


def named(monkeypatch, environment):
    """Sets variables as for a process that begins: fsspec reads them when it is imported."""
    import fsspec.config
    from fsspec.registry import registry

    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("fsspec.config.conf", {})
    fsspec.config.set_conf_env(fsspec.config.conf)
    for kind in registry.values():
        kind.clear_instance_cache()


def _take(package):
    """Has fsspec open sftp:// with one of the two packages, whichever are installed."""
    from fsspec.registry import register_implementation

    name = {
        "paramiko": "fsspec.implementations.sftp.SFTPFileSystem",
        "sshfs": "sshfs.spec.SSHFileSystem",
    }
    register_implementation("sftp", name[package], clobber=True)


def each(*kinds):
    return pytest.mark.parametrize("place", kinds or KINDS, indirect=True)


@pytest.fixture
def tree(tmp_path):
    """Twelve files, some with names that a URL would have quoted."""
    for name in (*"abc", "a b", "ü", "plus+"):
        for folder in ("", "deep/er"):
            path = tmp_path / "tree" / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{folder}/{name}")
    return tmp_path / "tree"


def send(folder, url, **options):
    return push.push(push.read(folder), at(url), **options)


def fetch(url, target):
    return pull.pull(pull.look(at(url)), target)


def content(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@each()
def test_a_directory_goes_there_and_comes_back(place, tree, tmp_path):
    url = place.url("some/where/tree")
    assert send(tree, url).files == 12
    assert send(tree, url).files == 0
    assert fetch(url, tmp_path / "back").files == 12
    assert content(tmp_path / "back") == content(tree)
    assert fetch(f"{url}/deep", tmp_path / "deep").files == 6
    place.write("some/where/tree/a", b"/z")
    assert send(tree, url, verify=True).files == 1
    (tree / "a").write_text("longer")
    with pytest.raises(UsageError, match="holds something else"):
        send(tree, url)
    assert send(tree, url, update=True).files == 1
    assert place.read("some/where/tree/a") == b"longer"


@each("gcs", "azure", "sftp", "sftp-paramiko")  # webdav4 asks for other names than these
def test_names_that_mean_something_in_a_url_stay(place, tmp_path):
    (tmp_path / "odd").mkdir()
    for name in ("x#y", "p%20q", "w?z"):
        (tmp_path / "odd" / name).write_text(name)
    send(tmp_path / "odd", place.url("odd"))
    fetch(place.url("odd"), tmp_path / "back")
    assert content(tmp_path / "back") == content(tmp_path / "odd")


@each()
def test_a_push_that_was_cut_is_not_whole_and_goes_on(place, tree, tmp_path):
    url, read = place.url("cut"), push.read(tree)
    state = os.stat(tree / "c")
    (tree / "c").write_text("changed while it is sent")
    with pytest.raises(UserError, match="has changed"):
        push.push(read, at(url))
    assert "cut/_pushed.json" not in place.names()
    for inner in (url, f"{url}/deep"):
        with pytest.raises(DataError, match="is incomplete"):
            pull.look(at(inner))
    (tree / "c").write_text("/c")
    os.utime(tree / "c", ns=(state.st_atime_ns, state.st_mtime_ns))
    assert send(tree, url).files
    assert fetch(url, tmp_path / "back").files == 12


@each()
def test_a_file_is_created_once(place):
    store = at(place.url("once"))
    assert store.create("a", b"1") and not store.create("a", b"2")
    assert place.read("once/a") == b"1"
    store.write("a", b"22")
    assert store.read("a") == b"22" and store.files()["a"].size == 2
    store.remove("a")
    assert store.read("a") is None and store.files() == {} and store.file() is None


@each("azure")
def test_a_file_that_came_at_the_same_moment_is_not_written_over(place, monkeypatch):
    store = at(place.url("raced"))
    assert store.create("a", b"1")
    monkeypatch.setattr(Store, "read", lambda self, name: None)
    assert not store.create("a", b"2")
    assert place.read("raced/a") == b"1"


@each()
def test_a_file_of_several_pieces_arrives_whole(place, tmp_path):
    (tmp_path / "big").mkdir()
    (tmp_path / "big" / "weights.bin").write_bytes(os.urandom(1 << 20) * 17)
    send(tmp_path / "big", place.url("big"))
    fetch(place.url("big"), tmp_path / "back")
    assert content(tmp_path / "back") == content(tmp_path / "big")


@each("azure")
def test_a_blob_gets_no_more_pieces_than_it_has_room_for(place, tmp_path, monkeypatch):
    from azure.storage.blob import BlobServiceClient

    monkeypatch.setattr(azure, "MOST_PIECES", 10)  # of 68 MB, which else has 17
    (tmp_path / "file").write_bytes(os.urandom(1 << 20) * 68)
    send(tmp_path / "file", place.url("file"))
    service = BlobServiceClient.from_connection_string(place.connection)
    sent, waiting = service.get_blob_client(place.bucket, "file").get_block_list()
    assert len(sent) == 10 and not waiting
    fetch(place.url("file"), tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == (tmp_path / "file").read_bytes()


@each()
def test_a_process_that_is_forked_reads_for_itself(place):
    place.write("forked/a", b"1")
    assert at(place.url("forked")).read("a") == b"1"
    if (child := os.fork()) == 0:
        os._exit(0 if at(place.url("forked")).read("a") == b"1" else 1)
    deadline = time.monotonic() + 120
    while not (ended := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < deadline:
        time.sleep(0.01)
    assert ended == (child, 0)


@each()
def test_commands_read_from_it(place, chain, rlvr, refused, tmp_path):
    url = place.url("chain")
    assert rlvr("push", chain, url).code == 0
    assert rlvr("check", f"{url}/rollouts").code == 0
    words = [f"{url}/rollouts", "--prompts", f"{url}/prompts", "--out", tmp_path / "scores"]
    assert rlvr("score", *words).code == 0
    part = "part-00000.parquet"
    assert (tmp_path / "scores" / part).read_bytes() == (chain / "scores" / part).read_bytes()
    assert "there is nothing at" in refused(3, "check", place.url("nothing"))


@each("gcs", "azure")
def test_a_bucket_that_does_not_exist_is_named(place, tree):
    url = place.url("x").replace(place.bucket, "no-such-bucket")
    with pytest.raises(DataError, match=r"there is nothing at|does not exist"):
        pull.look(at(url))
    with pytest.raises(DataError, match=r"the bucket of `.*no-such-bucket/x` does not exist"):
        send(tree, url)


@each("azure")
def test_a_wrong_key_of_azure_is_said_and_not_shown(place, monkeypatch):
    for wrong in (place.connection.replace("Eby8", "AAAA"), "nonsense"):
        named(monkeypatch, {"AZURE_STORAGE_CONNECTION_STRING": wrong})
        with pytest.raises(UserError, match="with these credentials") as error:
            pull.look(at(place.url("x")))
        assert "AAAA" not in str(error.value) and "CONNECTION_STRING" in error.value.hint


@each("sftp", "sftp-paramiko", "webdav")
def test_a_wrong_password_is_said_and_not_shown(place, monkeypatch):
    wrong = {name: value.replace("secret", "wrong") for name, value in place.environment.items()}
    named(monkeypatch, wrong)
    with pytest.raises(UserError, match="with these credentials") as error:
        pull.look(at(place.url("x").replace("secret", "wrong")))
    assert "wrong-of-a-test" not in str(error.value)


@each("webdav")
def test_what_a_file_system_lacks_is_named_with_the_variable_that_gives_it(place, monkeypatch):
    monkeypatch.delenv("FSSPEC_WEBDAV_BASE_URL")
    named(monkeypatch, {})
    with pytest.raises(UsageError, match="needs a `base_url`") as error:
        at("webdav://x")
    assert error.value.hint == "set FSSPEC_WEBDAV_BASE_URL"


class _Refusing(BaseHTTPRequestHandler):
    """Answers as Google does whoever is not logged in."""

    def do_GET(self):
        said = b'{"error": {"code": 401, "message": "Anonymous caller has no access."}}'
        self.send_response(401)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said if self.command != "HEAD" else b"")

    do_HEAD = do_GET

    def log_message(self, *words):
        pass


@pytest.fixture
def refusing():
    with ThreadingHTTPServer(("127.0.0.1", 0), _Refusing) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_who_is_not_logged_in_at_google_is_told_how_to(refusing, monkeypatch, capfd):
    if importlib.util.find_spec("gcsfs") is None:
        pytest.skip("gcs: pip install gcsfs")
    named(monkeypatch, {"STORAGE_EMULATOR_HOST": refusing, "FSSPEC_GS_TOKEN": "anon"})
    with pytest.raises(UserError, match="with these credentials") as error:
        pull.look(at("gs://bucket/x"))
    assert "gcloud auth" in error.value.hint and "FSSPEC_GS_TOKEN=anon" in error.value.hint
    assert capfd.readouterr().err == ""


@each("http")
def test_a_file_of_the_web_is_read_whatever_its_url_ends_in(place, tmp_path, rlvr):
    pytest.importorskip("aiohttp")
    place.write("rows.jsonl", b'{"prompt": "1+1", "answer": "2"}\n')
    url = place.url("rows.jsonl?X-Amz-Signature=abc&response=1")  # as presigned URLs do
    assert fetch(url, tmp_path / "rows.jsonl").files == 1
    ran = rlvr("prompts", place.url("rows.jsonl"), "--out", tmp_path / "prompts")
    assert ran.code == 0


@each("http")
def test_what_is_no_file_of_the_web_is_said(place, tmp_path, refusing):
    place.write("folder/a.jsonl", b"{}")
    for url, message in (
        (place.url("folder"), "is a web page, not a file"),
        (place.url("nothing"), "there is nothing at"),
        (f"{refusing}/x", "with these credentials"),
        ("http://127.0.0.1:1/x", "cannot be read: ClientConnectorError"),
    ):
        with pytest.raises(UserError, match=message):
            pull.look(at(url))
    (tmp_path / "a").write_text("a")
    with pytest.raises(UsageError, match="is only read from"):
        send(tmp_path / "a", place.url("a"))
