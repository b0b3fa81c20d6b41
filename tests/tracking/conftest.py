"""A tracker of the user's own, which keeps what it gets in a file, and runs to follow."""

import json
import shutil

import pytest

OWN = '''
"""A tracker that keeps each step as a line of JSON."""

import json, os
from pathlib import Path

from rlvr_cli.protocols import Tracked


def build(*, to: str):
    """It fails at the step that the file `down` beside its own names."""
    return Own(Path(to))


class Own:
    def __init__(self, path):
        self.path, self.down = path, path.with_name("down")

    def start(self, run):
        self.write({"start": run.name, "key": run.key, "pid": os.getpid(),
                    "algo": run.config["train"]["algo"]})
        return Tracked(run.key or f"key of {run.name}")

    def log(self, step, figures, samples):
        if self.down.exists() and self.down.read_text() == str(step):
            raise OSError("the line is down")
        self.write({"step": step, "figures": figures, "samples": samples})

    def finish(self):
        self.write({"finish": True})

    def write(self, entry):
        with open(self.path, "a") as file:
            file.write(json.dumps(entry) + "\\n")
'''


@pytest.fixture
def own(tmp_path):
    """The spec of a tracker in a file; options may be added to it."""
    (tmp_path / "own.py").write_text(OWN)
    return f"{tmp_path}/own.py:build:to={tmp_path}/kept.jsonl"


@pytest.fixture
def kept(tmp_path):
    """What that tracker was given, by kind of entry: `start`, `step` or `finish`."""

    def read(kind):
        lines = (tmp_path / "kept.jsonl").read_text().splitlines()
        return [entry for line in lines if kind in (entry := json.loads(line))]

    return read


@pytest.fixture
def run(trained, tmp_path):
    """A finished run of two steps, evaluated at each, to be changed."""
    return shutil.copytree(trained, tmp_path / "run")
