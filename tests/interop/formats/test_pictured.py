"""Prompts with images, written for other tools."""

import base64
import json

import pyarrow.parquet as pq
import pytest

from rlvr_cli.errors import DataError
from rlvr_cli.models import policy as policies, tokenizers
from rlvr_cli.stages import exchange
from rlvr_cli.storage.shards import Shards
from tests import pictured
from tests.pictured import asked, drawn, stored

pytest.importorskip("PIL")
ONE, OTHER = stored(drawn(3)), stored(drawn(5, format="JPEG"))


@pytest.fixture(scope="module")
def scores(tmp_path_factory):
    """Completions of a prompt with two images and of one without."""
    root = tmp_path_factory.mktemp("pictured")
    rows = [asked("a", "Is ", ONE, "as many as ", OTHER), asked("b", "What is 1?")]
    prompts = pictured.directory(root / "prompts", rows)
    return Shards.open(pictured.answered(prompts, root / "done") / "scores")


def rows_of(path):
    return pq.read_table(path).to_pylist()


def test_verl_has_a_placeholder_in_the_text_for_each_image(scores, tmp_path):
    sent = exchange.send_out(scores, tmp_path / "x.parquet", "verl")
    a, b = rows_of(tmp_path / "x.parquet")
    assert a["prompt"] == [{"role": "user", "content": "Is <image>as many as <image>"}]
    assert [image["bytes"] for image in a["images"]] == [ONE.read(), OTHER.read()]
    assert (b["prompt"][0]["content"], b["images"]) == ("What is 1?", [])
    assert (sent.rows, sent.remarks) == (2, ())


def test_trl_has_parts_and_a_column_of_images(scores, tmp_path):
    exchange.send_out(scores, tmp_path / "x.parquet", "trl")
    a, *_, b = rows_of(tmp_path / "x.parquet")
    assert [(p["type"], p["text"]) for p in a["prompt"][0]["content"]] == [
        ("text", "Is "), ("image", None), ("text", "as many as "), ("image", None)
    ]  # fmt: skip
    assert [image["bytes"] for image in a["images"]] == [ONE.read(), OTHER.read()]
    assert b["prompt"][0]["content"] == [{"type": "text", "text": "What is 1?"}]


@pytest.mark.slow
@pytest.mark.parametrize("format", ["verl", "trl"])
def test_datasets_reads_the_column_as_images(scores, tmp_path, format):
    datasets = pytest.importorskip("datasets")
    exchange.send_out(scores, tmp_path / "x.parquet", format)
    row = datasets.Dataset.from_parquet(str(tmp_path / "x.parquet"), cache_dir=str(tmp_path))[0]
    assert [(image.format, image.size) for image in row["images"]] == [
        ("PNG", (32, 32)), ("JPEG", (32, 32))
    ]  # fmt: skip


def test_json_lines_hold_the_images_as_openais_parts(scores, tmp_path):
    exchange.send_out(scores.parent("prompts"), tmp_path / "x.jsonl", "jsonl")
    a, b = map(json.loads, (tmp_path / "x.jsonl").read_text().splitlines())
    kinds = [part["type"] for part in a["messages"][0]["content"]]
    assert kinds == ["text", "image_url", "text", "image_url"] and "images" not in a
    url = a["messages"][0]["content"][3]["image_url"]["url"]
    assert url == f"data:image/jpeg;base64,{base64.b64encode(OTHER.read()).decode()}"
    assert b["messages"][0]["content"] == "What is 1?"


@pytest.mark.parametrize("format", ["lm-eval", "lighteval", "evalplus"])
def test_a_format_without_images_says_how_many_it_leaves_out(scores, tmp_path, format):
    sent = exchange.send_out(scores, tmp_path / "x", format)
    [remark] = sent.remarks
    assert remark.startswith(f"`{format}` cannot hold images: 2 images of 1 prompt left out")


def test_a_text_that_would_be_taken_for_an_image_is_refused(tmp_path):
    rows = [asked("a", "What is `<image>`?", ONE)]
    prompts = pictured.directory(tmp_path / "prompts", rows)
    with pytest.raises(DataError, match="prompt `a` has `<image>` in its text") as error:
        exchange.send_out(prompts, tmp_path / "x.parquet", "verl")
    assert "--format jsonl" in error.value.hint and not (tmp_path / "x.parquet").exists()


@pytest.mark.parametrize(("format", "suffix"), [("verl", "parquet"), ("trl", "parquet"),
                                                ("jsonl", "jsonl")])  # fmt: skip
def test_an_export_is_imported_with_the_same_images(scores, rlvr, tmp_path, format, suffix):
    file = tmp_path / f"x.{suffix}"
    exchange.send_out(scores, file, format)
    assert rlvr("import", file, "--out", tmp_path / "i").code == 0
    made = Shards.open(tmp_path / "i" / "prompts").table()
    given = scores.parent("prompts").table()
    assert made["images"].to_pylist() == given["images"].to_pylist()
    assert made["messages"].to_pylist()[0] == given["messages"].to_pylist()[0]
    assert not any("bytes" in (extra or "") for extra in made["extra"].to_pylist())


def test_completions_of_a_prompt_whose_image_is_not_there_are_refused(jsonl, rlvr, tmp_path):
    file = jsonl({"id": "a", "prompt": "<image> 1?", "image": "no.png", "answer": "1",
                  "completion": "1", "correct": True})  # fmt: skip
    ran = rlvr("import", file, "--out", tmp_path / "i")
    assert ran.code == 3 and "prompt `a` cannot be read: its image" in ran.err
    assert rlvr("import", file, "--out", tmp_path / "i", "--prompt-column", "none").code == 0


def test_imported_prompts_have_the_tokens_of_their_images(scores, rlvr, tmp_path, vision):
    exchange.send_out(scores, tmp_path / "x.parquet", "verl")
    policy = vision.policy("qwen2_vl")
    ran = rlvr("import", tmp_path / "x.parquet", "--model", policy, "--out", tmp_path / "i")
    assert ran.code == 0, ran.err
    rows = Shards.open(tmp_path / "i" / "rollouts").table().to_pylist()
    loaded = tokenizers.load_processor(policies.resolve(str(policy)))
    counts = [row["prompt_token_ids"].count(loaded.image_token_id) for row in rows]
    assert counts == [8] * 4 + [0] * 4
