"""The rows of completions that trackers get."""

import pytest

from rlvr_cli.tracking import samples
from tests import pictured
from tests.pictured import asked, drawn, stored


def test_a_prompt_with_images_has_a_note_for_each(tmp_path):
    pytest.importorskip("PIL")
    image = stored(drawn(3))
    rows = [asked("a", "How many are in", image, "this?"), asked("b", "What is 1?")]
    prompts = pictured.directory(tmp_path / "prompts", rows)
    pictured.answered(prompts, tmp_path / "eval" / "000000")
    a, b = samples.of_evaluation(tmp_path, 0, 2)
    assert a["prompt"] == f"user: How many are in\n[image {image.sha256[:12]}]\nthis?"
    assert b["prompt"] == "user: What is 1?"
    [(name, [own])] = samples.images_of(tmp_path, 0, ["a", "b"]).items()
    assert (name, own.read()) == ("a", image.read())
