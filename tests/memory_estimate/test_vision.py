"""The memory that images are said to take, against what torch allocates."""

import runpy
from pathlib import Path

import pytest
import torch

from rlvr_cli.algorithms import objective
from rlvr_cli.algorithms.objective import Totals
from rlvr_cli.config import UpdateOptions
from rlvr_cli.engines.training.local import LocalEngine
from rlvr_cli.memory_estimate import model_size, phases
from rlvr_cli.memory_estimate.model_size import PaddedRows
from rlvr_cli.memory_estimate.vision import tower_of
from rlvr_cli.models import images, logprobs, policy as policies
from rlvr_cli.protocols import Row
from rlvr_cli.runtime.device import Device

ROOM = Device("cpu", 1 << 40, 1 << 40)
ROWS = 12


@pytest.fixture(scope="module")
def allocated():
    return runpy.run_path(str(Path(__file__).with_name("test_phases.py")))["allocated"]


@pytest.fixture(scope="module")
def policy(vision):
    return policies.resolve(str(vision.policy("qwen2_vl")))


def rows_of(loaded, vision):
    """Completions of prompts with six images each, which are nearly all of them."""
    rows = []
    for number in range(ROWS):
        own = tuple(vision.picture((255, number, level), size=(64, 64)) for level in range(6))
        place = f"a{loaded.processor.image_token}"
        prompt = images.expanded(loaded.processor, place * len(own), own)
        rows.append(Row(prompt, [5, 6, 7], advantage=(-1.0) ** number, images=own))
    return rows


def test_a_pass_takes_no_more_than_is_said(allocated, policy, vision):
    loaded = policies.load(policy)
    rows = rows_of(loaded, vision)
    with torch.no_grad(), allocated() as took:
        logprobs.completion_stats(loaded.model, rows, temperature=1.0)
    size = rows[0].size
    shape = model_size.shape_of(policy, images=True)
    estimate = phases.evaluation(shape, ROOM, PaddedRows(ROWS * size, size))
    said = estimate.total - estimate.parts["weights"]
    assert took.peak <= said <= 2 * took.peak


@pytest.mark.parametrize("train_vision", [False, True])
def test_an_update_takes_no_more_than_is_said(allocated, policy, vision, train_vision):
    loaded = policies.load(policy)
    rows, options = rows_of(loaded, vision), UpdateOptions(train_vision=train_vision)
    engine, totals = LocalEngine(loaded, options), Totals(3 * ROWS, ROWS, 3)
    algo = objective.build("reinforce")
    engine.accumulate(rows, algo, totals, 1.0)
    engine.update(1e-4)
    with allocated() as took:
        engine.accumulate(rows, algo, totals, 1.0)
    shape = model_size.shape_of(policy, options, images=True)
    parts = phases.training(
        shape, options, ROOM, phases.UpdateSize(ROWS, rows[0].size, 3)
    ).parts  # fmt: skip
    names = ("gradients", "activations", "temporaries", "images")
    said = sum(parts[name] for name in names)
    assert took.peak <= said <= 2 * took.peak


def test_prompts_without_images_take_nothing_of_a_tower(policy):
    shape = model_size.shape_of(policy)
    assert "images" not in phases.evaluation(shape, ROOM, PaddedRows(100, 100)).parts


@pytest.mark.parametrize(
    ("kind", "patches"),
    [("qwen2_5_vl", 4), ("gemma3", 4), ("smolvlm", 4), ("llava", 1), ("internvl", 4)],
)
def test_a_token_is_as_many_patches_as_the_kind_of_model_makes_one_of(vision, kind, patches):
    tower = tower_of(policies.resolve(str(vision.policy(kind))))
    assert (tower.patches, tower.layers) == (patches, 2)
    assert tower.numbers == 3 * 8 * 8 * (2 if kind == "qwen2_5_vl" else 1)
