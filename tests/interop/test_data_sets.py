"""Data sets as they lie on a disk, and as the Hub gives them."""

import hashlib
import http.server
import json
import os
import subprocess
import sys
import threading

import datasets
import pytest

from rlvr_cli.errors import Advice, UserError
from rlvr_cli.interop import data_sets, readers

ROWS = [{"question": "1 + 1?", "answer": "2"}, {"question": "2 + 2?", "answer": "4"}]


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def folder(tmp_path):
    """Writes files below a folder; the folder."""

    def write(files):
        for name, text in files.items():
            path = tmp_path / "set" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return str(tmp_path / "set")

    return write


@pytest.fixture
def saved(tmp_path):
    """What `save_to_disk` writes: a data set, and one with two splits."""
    one = datasets.Dataset.from_list(ROWS)
    two = datasets.DatasetDict(train=one, test=one.select([1]))
    one.save_to_disk(tmp_path / "one")
    two.save_to_disk(tmp_path / "two")
    return tmp_path


def test_one_split_is_taken_and_of_several_one_is_to_be_named(folder):
    path = folder({"data/train.jsonl": lines(*ROWS)})
    assert data_sets.read(path) == data_sets.read(path, "train")
    assert data_sets.read(path).rows == ROWS and data_sets.read(path).name == "set"
    folder({"data/test.jsonl": lines(ROWS[1])})
    with pytest.raises(UserError, match="has the splits test, train"):
        data_sets.read(path)
    assert data_sets.read(path, "test") == data_sets.DataSet("set-test", [ROWS[1]])


def test_numbered_files_that_are_absent_are_named(folder):
    files = {f"data/train-{n:05d}-of-00004.jsonl": lines(ROWS[n % 2]) for n in (0, 2)}
    path = folder(files)
    absent = "`data/train-00001-of-00004.jsonl`, `data/train-00003-of-00004.jsonl`"
    with pytest.warns(Advice, match=f"set` lacks {absent}$"):
        assert len(data_sets.read(path).rows) == 2


@pytest.mark.filterwarnings("error::rlvr_cli.errors.Advice")
def test_of_numbered_files_that_are_all_there_nothing_is_said(folder):
    names = [f"{split}-{n:05d}-of-00002.jsonl" for split in ("train", "test") for n in (0, 1)]
    assert len(data_sets.read(folder(dict.fromkeys(names, lines(*ROWS))), "train").rows) == 4


def test_nested_files_are_read(folder):
    path = folder({"a/1.jsonl": lines(ROWS[0]), "a/b/2.jsonl": lines(ROWS[1])})
    assert data_sets.read(path).rows == ROWS


def test_a_configuration_is_named_after_a_colon(folder):
    path = folder({f"{c}/train.jsonl": lines({"c": c}) for c in ("main", "socratic")})
    with pytest.raises(UserError, match="main, socratic"):
        data_sets.read(path)
    assert data_sets.read(f"{path}:socratic").rows == [{"c": "socratic"}]


def test_a_pattern_names_files(folder):
    path = folder({"1.jsonl": lines(ROWS[0]), "2.jsonl": lines(ROWS[1]), "x.csv": "a\n1\n"})
    assert data_sets.read(f"{path}/*.jsonl").rows == ROWS


def test_a_file_has_no_splits(folder):
    path = folder({"train.jsonl": lines(*ROWS)})
    with pytest.raises(UserError, match="is a file") as caught:
        data_sets.read(f"{path}/train.jsonl", "train")
    assert caught.value.hint == "leave --split out"


def test_what_save_to_disk_wrote_is_read_with_a_split_and_without(saved):
    assert data_sets.read(str(saved / "one")) == data_sets.DataSet("one", ROWS)
    assert data_sets.read(str(saved / "one"), "train").rows == ROWS
    with pytest.raises(UserError, match="has no split `test`; it has train"):
        data_sets.read(str(saved / "one"), "test")
    with pytest.raises(UserError, match="has the splits train, test"):
        data_sets.read(str(saved / "two"))
    assert data_sets.read(str(saved / "two"), "test").rows == [ROWS[1]]
    assert data_sets.read(str(saved / "two" / "test")).rows == [ROWS[1]]


def test_a_damaged_saved_data_set_is_named(saved):
    (saved / "one" / "data-00000-of-00001.arrow").unlink()
    with pytest.raises(UserError, match="one` is not a complete data set"):
        data_sets.read(str(saved / "one"))


def test_a_folder_of_directories_of_rlvr_is_no_data_set(chain):
    with pytest.raises(UserError, match="holds directories of rlvr"):
        data_sets.read(str(chain))


README = """---
configs:
- config_name: main
  data_files: main/*
- config_name: hard
  data_files:
  - {split: test, path: hard/t*}
  - {split: dev, path: hard/d*}
---
"""
HUB = {
    "README.md": README,
    "main/rows.jsonl": lines(*ROWS),
    "hard/t.jsonl": lines(ROWS[0]),
    "hard/d.jsonl": lines(ROWS[1]),
}
COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(http.server.BaseHTTPRequestHandler):
    """The part of the Hub's interface that lists a data set and gives its files."""

    def do_HEAD(self):
        self._answer(send=False)

    def do_GET(self):
        self._answer(send=True)

    def _answer(self, *, send):
        path = self.path.partition("?")[0]
        if path.startswith("/api/datasets/someone/sums"):
            siblings = [{"rfilename": name} for name in HUB]
            found = {"id": "someone/sums", "sha": COMMIT, "siblings": siblings}
            if "/tree/" in path:
                found = [
                    {"type": "file", "path": n, "size": len(t), "oid": "0"} for n, t in HUB.items()
                ]
            return self._send(json.dumps(found).encode(), send=send)
        name = path.removeprefix(f"/datasets/someone/sums/resolve/{COMMIT}/")
        if name in HUB:
            return self._send(HUB[name].encode(), send=send)
        self.send_response(404)
        self.send_header("X-Error-Code", "RepoNotFound")
        self.send_header("Content-Length", "0")
        return self.end_headers()

    def _send(self, data, *, send):
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Content-Type", "application/json")
        self.send_header("ETag", f'"{hashlib.sha1(data).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if send:
            self.wfile.write(data)

    def log_message(self, *_):
        pass


@pytest.fixture
def of_hub(tmp_path):
    """Reads a data set in a process whose Hub is a server of ours; its name and rows, or errors."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        code = (
            "import json, sys; from rlvr_cli.interop import data_sets\n"
            "from rlvr_cli.errors import UserError\n"
            "try:\n"
            "    data = data_sets.read(sys.argv[1], sys.argv[2] or None)\n"
            "    assert data.is_downloaded and data.folder.is_dir()\n"
            "    found = {'name': data.name, 'rows': data.rows}\n"
            "except UserError as error:\n"
            "    found = [str(error), error.hint]\n"
            "print(json.dumps(found))\n"
        )
        environment = {**os.environ, "HF_ENDPOINT": address, "HF_HOME": str(tmp_path / "hf")}
        environment |= {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_OFFLINE": "0"}
        environment |= {"HF_HUB_DOWNLOAD_TIMEOUT": "120", "HF_HUB_ETAG_TIMEOUT": "120"}

        def read(source, split=""):
            words = [sys.executable, "-P", "-c", code, source, split]
            ran = subprocess.run(words, env=environment, capture_output=True, text=True)
            assert ran.returncode == 0, ran.stderr
            return json.loads(ran.stdout)

        yield read
        server.shutdown()


@pytest.mark.slow
def test_a_name_of_the_hub_is_read_with_its_configurations_and_splits(of_hub):
    assert of_hub("someone/sums:main") == {"name": "sums", "rows": ROWS}
    assert "has the configurations main, hard" in of_hub("someone/sums")[0]
    message, hint = of_hub("hf://datasets/someone/sums:hard")
    assert "has the splits test, dev" in message and "--split test" in hint
    assert of_hub("someone/sums:hard", "dev") == {"name": "sums-dev", "rows": [ROWS[1]]}


@pytest.mark.slow
def test_a_file_of_the_hub_is_read(of_hub):
    assert of_hub("hf://datasets/someone/sums/main/rows.jsonl") == {"name": "rows", "rows": ROWS}


@pytest.mark.slow
def test_a_data_set_that_the_hub_does_not_have_is_named(of_hub):
    assert "`someone/else` is not a file, and the Hub" in of_hub("someone/else")[0]


def test_settings_beside_the_rows_are_no_split(tmp_path):
    (tmp_path / "train.jsonl").write_text('{"question": "1+1?", "answer": "2"}\n')
    (tmp_path / "config.json").write_text('{"model": "m", "seed": 1}')
    with pytest.warns(Advice, match=r"`config\.json`"):
        found = data_sets.read(str(tmp_path))
    assert found.rows == [{"question": "1+1?", "answer": "2"}]


def test_one_object_a_file_is_one_prompt_each(tmp_path):  # as hendrycks/math has them
    for number in (1, 2):
        row = {"problem": f"{number}+1?", "level": "Level 1", "solution": f"{number + 1}"}
        (tmp_path / f"{number}.json").write_text(json.dumps(row))
    assert len(readers.read(tmp_path)) == 2
