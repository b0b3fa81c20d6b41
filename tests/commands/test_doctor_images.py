"""What `doctor` says of prompts with images, and of policies that read them or do not."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests import pictured
from tests.pictured import asked, drawn, stored

pytest.importorskip("PIL")
SMALL, LARGE = stored(drawn(3)), stored(drawn(5, side=64, format="JPEG"))


@pytest.fixture(scope="module")
def prompts(tmp_path_factory):
    rows = [asked(f"p{n}", "Is ", SMALL, f"as many as {n} in ", LARGE) for n in range(3)]
    rows += [asked("one", SMALL, "How many?"), asked("none", "What is 1?")]
    return pictured.directory(tmp_path_factory.mktemp("pictured") / "prompts", rows).path


def findings(ran):
    return {(f["subject"], f["level"]): f for f in json.loads(ran.out)["findings"]}


def test_images_are_counted_with_their_bytes_sizes_and_formats(rlvr, prompts):
    ran = rlvr("doctor", prompts, "--json")
    size = SMALL.size + LARGE.size
    assert ran.code == 0 and findings(ran)["images", "ok"]["text"].startswith(
        f"7 images of 4 prompts, 2 different; 1 without; {size / 1000:.1f} kB, "
        "32 × 32 to 64 × 64 pixels, 1 PNG, 1 JPEG"
    )


def test_the_tokens_of_images_are_those_of_the_policys_processor(rlvr, prompts, vision):
    ran = rlvr("doctor", prompts, "--model", vision.policy("qwen2_vl"), "--json",
               "--max-new-tokens", 16)  # fmt: skip
    found = findings(ran)
    assert found["image tokens", "ok"]["text"] == ("20 a prompt with images (median), 20 at most")
    assert "Qwen2VLProcessor" in found["processor", "ok"]["text"]


def test_a_policy_that_reads_text_alone_is_a_problem_that_names_the_prompts(rlvr, prompts):
    ran = rlvr("doctor", prompts, "--model", "builtin", "--json")
    found = findings(ran)["images", "problem"]
    assert ran.code == 3
    assert found["text"].startswith("`builtin` does not read those of 4 of 4 prompts: `p0`, `p1`")
    assert "--model" in found["hint"]


def test_a_placeholder_in_a_text_where_no_image_stands_is_a_problem(rlvr, tmp_path):
    rows = [asked("a", SMALL, "Is <image> a cat?"), asked("b", SMALL, "?")]
    prompts = pictured.directory(tmp_path / "prompts", rows).path
    found = findings(rlvr("doctor", prompts, "--json"))["placeholders", "problem"]
    assert "1 prompt with `<image>` in the text, but no image for it: `a`" in found["text"]


def test_rows_of_a_file_whose_placeholders_and_images_differ_are_named(rlvr, tmp_path):
    file = tmp_path / "x.parquet"
    image = {"bytes": SMALL.read(), "path": None}
    row = {"prompt": "<image> and <image>?", "images": [image], "answer": "1"}
    pq.write_table(pa.Table.from_pylist([row]), file)
    ran = rlvr("doctor", file, "--verifier", "number")
    assert ran.code == 3 and "it has 2 places for images and 1 in `images`" in ran.err


def test_an_image_whose_bytes_have_changed_is_a_problem(rlvr, prompts, tmp_path):
    import shutil

    copy = tmp_path / "prompts"
    shutil.copytree(prompts, copy)
    part = copy / "__images" / "part-00000.parquet"
    part.write_bytes(part.read_bytes().replace(b"\x89PNG", b"\x89PNX"))
    ran = rlvr("doctor", copy)
    assert ran.code == 3 and "checksum" in ran.out + ran.err


def test_the_preview_has_each_image_as_one_with_its_tokens(rlvr, prompts, vision):
    policy = vision.policy("qwen2_vl")
    ran = rlvr("rollout", prompts, "--model", policy, "--dry-run", "--max-new-tokens", 4)
    assert (
        ran.code == 0
        and (
            "Is <|vision_start|><image: 4 tokens><|vision_end|>as many as 0 in "
            "<|vision_start|><image: 16 tokens><|vision_end|><|im_end|>"
        )
        in ran.err + ran.out
    )
