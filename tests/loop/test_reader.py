import shutil
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from rlvr_cli.loop import published
from rlvr_cli.loop.reader import Reader
from rlvr_cli.models import policy as policies
from rlvr_cli.models.policy import Policy
from rlvr_cli.protocols import Row

ROW = [Row([5, 6, 7], [8, 9])]


def scaled(out: Path, by: float) -> Policy:
    """The built-in policy with its weights times a number."""
    shutil.copytree(policies.resolve("builtin").path, out)
    weights = load_file(out / "model.safetensors")
    changed = {name: value * by for name, value in weights.items()}
    save_file(changed, out / "model.safetensors", {"format": "pt"})
    return Policy(out, str(out), f"times {by}")


def test_each_policy_is_read_into_the_model_that_is_there(tmp_path):
    reader = Reader(policies.resolve("builtin"))
    model = reader.loaded.model
    first = {name: value.clone() for name, value in reader.weights()}
    before = reader.logp(ROW, 1.0)[0]
    assert before.shape == (2,) and np.isfinite(before).all()
    reader.aim(scaled(tmp_path / "half", 0.5))
    assert reader.loaded.model is model
    assert all(torch.equal(value, first[name] * 0.5) for name, value in reader.weights())
    assert not np.array_equal(reader.logp(ROW, 1.0)[0], before)
    reader.aim(scaled(tmp_path / "one", 1.0))
    assert np.array_equal(reader.logp(ROW, 1.0)[0], before)


def test_a_policy_is_read_when_it_is_asked_for(tmp_path):
    reader = Reader(policies.resolve("builtin"))
    reader.aim(Policy(tmp_path / "gone", "gone", "gone"))
    reader.aim(scaled(tmp_path / "there", 0.5))
    assert reader.policy.digest == "times 0.5" and reader.logp(ROW, 1.0)[0].shape == (2,)


def test_the_newest_policy_is_found_behind_steps_that_published_none(tmp_path):
    newest = published.Newest(tmp_path)
    assert newest.step() == 0
    for step in (1, 2, 3):
        published.folder(tmp_path, step).mkdir(parents=True)
    (published.folder(tmp_path, 2) / published.MANIFEST).write_text("{}")
    assert newest.step() == 2
    (published.folder(tmp_path, 3) / published.MANIFEST).write_text("{}")
    assert newest.step() == 3
