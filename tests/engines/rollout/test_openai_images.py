"""Prompts with images at servers: as data URLs in messages, or refused beside token ids."""

import base64
import runpy
from pathlib import Path

import pyarrow.parquet as pq
import pytest

TESTS = Path(__file__).parents[2]
_server = runpy.run_path(str(TESTS / "completions_server.py"))
pictured = runpy.run_path(str(TESTS / "pictured.py"))
MODEL = _server["MODEL"]


@pytest.fixture
def server():
    with _server["running"](str, "vllm") as server:
        server.say = lambda content: f"It has {len(content)} parts."
        yield server


@pytest.fixture
def images():
    return [pictured["stored"](pictured["drawn"](count, format=kind))
            for count, kind in ((2, "PNG"), (3, "JPEG"), (4, "WEBP"))]  # fmt: skip


@pytest.fixture
def prompts(images, tmp_path):
    png, jpeg, webp = images
    rows = [
        pictured["asked"]("two", png, "Which of these", webp, "is it?"),
        pictured["asked"]("one", "How many?", jpeg),
        pictured["asked"]("text", "How many are two?"),
    ]
    return pictured["directory"](tmp_path / "prompts", rows).path


def test_a_hosted_model_gets_images_as_data_urls_at_their_places(
    rlvr, server, prompts, images, tmp_path
):
    words = ["--engine", f"openai:url={server.url},model={MODEL},retries=0", "-n", 1]
    ran = rlvr("rollout", prompts, *words, "--max-new-tokens", 8, "--out", tmp_path / "r")
    assert ran.code == 0, ran.err
    said = dict(zip(*(pq.read_table(tmp_path / "r")[name].to_pylist()
                      for name in ("prompt_id", "completion")), strict=True))  # fmt: skip
    assert said == {"two": "It has 4 parts.", "one": "It has 2 parts.", "text": "It has 17 parts."}
    contents = [body["messages"][0]["content"] for body in server.seen]
    (two,) = [parts for parts in contents if len(parts) == 4]
    (one,) = [parts for parts in contents if len(parts) == 2]
    assert "How many are two?" in contents
    assert [part["type"] for part in two] == ["image_url", "text", "image_url", "text"]
    assert one[0] == {"type": "text", "text": "How many?"}
    png, jpeg, webp = images
    for part, kind, image in ((two[0], "png", png), (one[1], "jpeg", jpeg), (two[2], "webp", webp)):
        head, _, data = part["image_url"]["url"].partition(",")
        assert head == f"data:image/{kind};base64"
        assert base64.b64decode(data) == image.read()


def test_token_ids_with_images_are_refused_by_servers_that_do_not_take_them(
    rlvr, server, prompts, vision, tmp_path
):
    words = ["--engine", f"openai:url={server.url},model={MODEL},retries=0,check=false", "-n", 1]
    words += ["--model", vision.policy("qwen2_vl"), "--max-new-tokens", 8]
    ran = rlvr("rollout", prompts, *words, "--out", tmp_path / "r")
    assert ran.code == 2
    assert "is sent token ids, with which it takes no images" in ran.err
    assert "start a server with `rlvr serve`" in ran.err
    assert not any("images" in body for body in server.seen)
