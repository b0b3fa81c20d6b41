"""Models from and to a hub; one on the loopback, which another process is, as is each command."""

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from safetensors.torch import load_file

from rlvr_cli.models import policy

pytestmark = pytest.mark.slow
BUILTIN = policy.resolve("builtin").path
SERVER = Path(__file__).parents[1] / "hub.py"
TOKEN = "hf_of_a_test"


@dataclass(frozen=True)
class Hub:
    """A hub that runs; `models` are its folders by name."""

    root: Path
    address: str

    @property
    def models(self):
        return self.root / "models"

    def requests(self):
        log = self.root / "log"
        return log.read_text().splitlines() if log.exists() else []

    def rlvr(self, *words, token=TOKEN):
        environment = {
            "HF_ENDPOINT": self.address,
            "HF_HOME": str(self.root / "home"),
            "HF_HUB_DISABLE_XET": "1",
            "HF_TOKEN": token,
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DOWNLOAD_TIMEOUT": "120",
            "HF_HUB_ETAG_TIMEOUT": "120",
        }
        command = [str(Path(sys.executable).parent / "rlvr"), *map(str, words)]
        return subprocess.run(
            command, env=os.environ | environment, capture_output=True, text=True, cwd=self.root
        )

    def downloaded(self, name):
        """The files in the snapshot of a model."""
        (place,) = (self.root / "home" / "hub").glob(f"models--{name.replace('/', '--')}")
        (snapshot,) = (place / "snapshots").iterdir()
        return sorted(str(p.relative_to(snapshot)) for p in snapshot.rglob("*") if p.is_file())


@pytest.fixture
def hub(tmp_path):
    (tmp_path / "models").mkdir()
    words = [tmp_path / "port", tmp_path / "log", tmp_path / "models"]
    server = subprocess.Popen([sys.executable, "-P", str(SERVER), *map(str, words)])
    try:
        end = time.monotonic() + 60
        while not ((tmp_path / "port").exists() and (tmp_path / "port").read_text()):
            assert time.monotonic() < end and server.poll() is None
            time.sleep(0.05)
        yield Hub(tmp_path, f"http://127.0.0.1:{(tmp_path / 'port').read_text()}")
    finally:
        server.kill()
        server.wait()


def with_other_formats(folder):
    """What models on the hub have beside the weights that are wanted."""
    for name in ("onnx/model.onnx", "onnx/config.json", "original/consolidated.00.pth",
                 "original/params.json", "model-q4.gguf", "consolidated.safetensors",
                 "training_args.bin", "tf_model.h5", "README.md"):  # fmt: skip
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"{}")
    return folder


def sample(hub, name):
    words = ["--limit", 1, "-n", 1, "--max-new-tokens", 4, "--out", "rollouts", "--json"]
    assert hub.rlvr("prompts", "task:expression", "--limit", 2, "--out", "prompts").returncode == 0
    return hub.rlvr("rollout", "prompts", "--model", name, *words)


def test_one_kind_of_weights_is_downloaded(hub):
    both = with_other_formats(shutil.copytree(BUILTIN, hub.models / "user" / "both"))
    (both / "pytorch_model.bin").write_bytes(b"the same weights once more")
    ran = sample(hub, "user/both")
    assert ran.returncode == 0, ran.stderr
    assert hub.downloaded("user/both") == sorted(path.name for path in BUILTIN.iterdir())


def test_weights_of_the_older_kind_are_downloaded_where_there_are_no_others(hub):
    import torch

    older = with_other_formats(shutil.copytree(BUILTIN, hub.models / "user" / "older"))
    torch.save(load_file(older / "model.safetensors"), older / "pytorch_model.bin")
    (older / "model.safetensors").unlink()
    ran = sample(hub, "user/older")
    assert ran.returncode == 0, ran.stderr
    names = {path.name for path in BUILTIN.iterdir()} - {"model.safetensors"}
    assert hub.downloaded("user/older") == sorted(names | {"pytorch_model.bin"})


def test_a_model_that_the_hub_has_not_is_one_line(hub):
    ran = sample(hub, "user/none")
    assert ran.returncode == 3
    assert "error: there is no directory `user/none`, and the hub gave no model" in ran.stderr


def test_a_model_is_written_and_uploaded(hub):
    ran = hub.rlvr("convert", "builtin", "--out", "made", "--push", "user/new", "--json")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["pushed"] == f"{hub.address}/user/new"
    written = {path.name: path.read_bytes() for path in (hub.root / "made").iterdir()}
    assert {p.name: p.read_bytes() for p in (hub.models / "user/new").iterdir()} == written
    assert json.loads((hub.models / "user" / "new.private").read_text()) is False
    again = hub.rlvr("convert", "builtin", "--out", "own", "--push", "user/own", "--private")
    assert again.returncode == 0, again.stderr
    assert f"uploaded to {hub.address}/user/own" in again.stderr
    assert json.loads((hub.models / "user" / "own.private").read_text()) is True


@pytest.mark.parametrize(
    ("repo", "token", "message"),
    [
        ("user/new", "hf_of_another", "the hub does not let you upload"),
        ("user/a/b", TOKEN, "`user/a/b` cannot be the name of a repository"),
    ],
)
def test_what_cannot_be_uploaded_is_refused_before_anything_is_written(hub, repo, token, message):
    ran = hub.rlvr("convert", "builtin", "--out", "made", "--push", repo, token=token)
    assert ran.returncode == 1 and message in ran.stderr, ran.stderr
    assert ran.stderr.count("error:") == 1 and "Traceback" not in ran.stderr
    assert not (hub.root / "made").exists()
    assert not any(line.startswith("POST") for line in hub.requests())


def test_a_hub_that_fails_leaves_the_folder_and_says_how_to_go_on(hub):
    (hub.models / "user").write_text("in the way: no repository can be made")
    ran = hub.rlvr("convert", "builtin", "--out", "made", "--push", "user/new")
    assert ran.returncode == 1 and "error: the hub did not take `made`" in ran.stderr, ran.stderr
    assert "upload it with `hf upload user/new made`" in ran.stderr
    assert (hub.root / "made" / "model.safetensors").exists()
