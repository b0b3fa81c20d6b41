"""Prompts with images, in the layouts that tools and public data sets have."""

import base64
import io
import json
import random
import tracemalloc
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image as pictures

from rlvr_cli.config import ImageOptions
from rlvr_cli.interop.data_sets import DataSet
from rlvr_cli.loop.linking import Links
from rlvr_cli.protocols import Unusable
from rlvr_cli.stages import import_scan
from rlvr_cli.stages.prompt_images import RowImages
from rlvr_cli.storage.images import Images
from rlvr_cli.storage.shards import Shards


def picture(red):
    return pictures.new("RGB", (12, 8), (red, 0, 0))


def png(red):
    file = io.BytesIO()
    picture(red).save(file, "PNG")
    return file.getvalue()


def url(red):
    return f"data:image/png;base64,{base64.b64encode(png(red)).decode()}"


@pytest.fixture
def made(rlvr, tmp_path):
    """Makes prompts of a source; the ids with their messages, in which images are their reds."""

    def make(source, *words):
        out = tmp_path / "made"
        ran = rlvr("prompts", source, "--out", out, "--answer-column", "answer", *words)
        assert ran.code == 0, ran.err
        return read(out), ran.err

    return make


def read(out):
    prompts = Shards.open(out, "prompts")
    images = Images.of(prompts)
    found = []
    for row in prompts.table().to_pylist():
        prompt = json.loads(row["messages"])
        turns = [] if isinstance(prompt, str) else prompt
        own = [
            part for turn in turns if isinstance(turn["content"], list) for part in turn["content"]
        ]
        own = [part for part in own if part["type"] == "image"]
        assert [part["image"] for part in own] == (row.get("images") or [])
        for part in own:
            stored = pictures.open(io.BytesIO(images.bytes(part["image"])))
            part["image"] = stored.getpixel((0, 0))[0]
        found.append(prompt)
    return found


def user(*parts):
    """A user's turn; numbers are images of so much red."""
    content = [
        {"type": "image", "image": part}
        if isinstance(part, int)
        else {"type": "text", "text": part}
        for part in parts
    ]
    return [{"role": "user", "content": content}]


def parquet(tmp_path, rows, name="data.parquet"):
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / name)
    return tmp_path / name


def jsonl(tmp_path, *rows):
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / "data.jsonl"


def test_geometry3k_as_it_lies_on_the_hub(made, tmp_path):
    rows = [
        {"images": [{"bytes": png(i), "path": None}], "problem": "<image>Find x.", "answer": "3"}
        for i in (1, 2)
    ]
    found, said = made(parquet(tmp_path, rows))
    assert found == [user(1, "Find x."), user(2, "Find x.")]
    assert "2 images in 2 prompts, of the column `images`" in said


def test_verl_with_images_and_places_in_the_text(rlvr, tmp_path):
    row = {
        "data_source": "hiyouga/geometry3k",
        "prompt": [{"role": "user", "content": "See <image> and <image>. Which?"}],
        "images": [{"bytes": png(3)}, {"bytes": png(4)}],
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": "3"},
        "extra_info": {"index": 0, "split": "train"},
    }
    ran = rlvr("prompts", parquet(tmp_path, [row]), "--out", tmp_path / "made")
    assert ran.code == 0, ran.err
    assert "taken as verl" in ran.err
    assert read(tmp_path / "made") == [user("See ", 3, " and ", 4, ". Which?")]
    stored = Shards.open(tmp_path / "made").table().to_pylist()[0]
    assert "images" not in json.loads(stored["extra"]) and stored["answer"] == "3"


def test_trl_with_images_and_no_places(made, tmp_path):
    turns = [{"role": "system", "content": "Look."}, {"role": "user", "content": "What?"}]
    rows = [{"prompt": turns, "images": [{"bytes": png(5), "path": None}] * 2, "answer": "1"}]
    assert made(parquet(tmp_path, rows))[0] == [[turns[0], *user(5, 5, "What?")]]


def test_trl_with_one_image_and_places_as_parts(made, tmp_path):
    parts = [{"type": "image", "text": None}, {"type": "text", "text": "What?"}]
    row = {"prompt": [{"role": "user", "content": parts}], "image": {"bytes": png(6)}}
    assert made(parquet(tmp_path, [row | {"answer": "1"}]))[0] == [user(6, "What?")]


def test_images_of_a_feature_within_the_messages(made, tmp_path):
    nothing = {"bytes": None, "path": None}
    content = [{"type": "image", "text": None, "image": {"bytes": png(1), "path": None}},
               {"type": "text", "text": "and", "image": nothing},
               {"type": "image", "text": None, "image": nothing}]  # fmt: skip
    row = {"messages": [{"role": "user", "content": content}], "answer": "1"}
    source = parquet(tmp_path, [row | {"images": [{"bytes": png(2), "path": None}]}])
    assert made(source)[0] == [user(1, "and", 2)]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": url(7), "detail": "low"}},
        {"type": "image_url", "image_url": url(7)},
        {"type": "image_url", "value": "seven.png"},
        {"type": "input_image", "image_url": url(7)},
        {"type": "image", "image": url(7)},
        {"type": "image", "url": "seven.png"},
        {"type": "image", "path": "seven.png"},
        {"type": "image", "base64": base64.b64encode(png(7)).decode()},
        {"image": "seven.png"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png",
                                     "data": base64.b64encode(png(7)).decode()}},
    ],
)  # fmt: skip
def test_an_image_in_the_messages_is_read_as_each_tool_writes_it(made, tmp_path, part):
    (tmp_path / "seven.png").write_bytes(png(7))
    content = [{"type": "text", "text": "What is "}, part, {"type": "text", "text": "?"}]
    row = {"messages": [{"role": "user", "content": content}], "answer": "7"}
    assert made(jsonl(tmp_path, row))[0] == [user("What is ", 7, "?")]


def test_llama_factory_with_paths_and_places_in_several_turns(made, tmp_path):
    for red in (1, 2):
        (tmp_path / f"{red}.jpg").write_bytes(png(red))
    turns = [
        {"role": "user", "content": "<image>Who?"}, {"role": "assistant", "content": "Kane."},
        {"role": "user", "content": "And <image>?"},
    ]  # fmt: skip
    row = {"messages": turns, "images": ["1.jpg", "2.jpg"], "answer": "Gnabry"}
    assert made(jsonl(tmp_path, row))[0] == [[*user(1, "Who?"), turns[1], *user("And ", 2, "?")]]


def test_llava_with_one_path_and_sharegpts_turns(made, tmp_path):
    (tmp_path / "a.png").write_bytes(png(1))
    turns = [{"from": "human", "value": "<image>\nWhat?"}, {"from": "gpt", "value": "A cat."}]
    row = {"conversations": turns, "image": "a.png", "answer": "cat"}
    assert made(jsonl(tmp_path, row), "--drop-answer-turn")[0] == [user(1, "\nWhat?")]


def test_mmmu_with_numbered_columns_and_places(made, tmp_path):
    rows = [
        {"question": "In <image 2>, not <image 1>?", "answer": "B",
         "image_1": {"bytes": png(1)}, "image_2": {"bytes": png(2)}},
        {"question": "<image 1>?", "answer": "A", "image_1": {"bytes": png(3)}, "image_2": None},
    ]  # fmt: skip
    found, said = made(parquet(tmp_path, rows), "--image-column", "image_1,image_2")
    assert found == [user("In ", 2, ", not ", 1, "?"), user(3, "?")]
    assert "3 images in 2 prompts, of the columns `image_1` and `image_2`" in said


def test_a_column_of_images_within_another_column_is_named_with_a_dot(made, tmp_path):
    row = {"question": "Red?", "answer": "1", "more": {"shown": {"bytes": png(1)}, "kind": "x"}}
    assert made(parquet(tmp_path, [row]), "--image-column", "more.shown")[0] == [user(1, "Red?")]
    extra = Shards.open(tmp_path / "made").table()["extra"][0].as_py()
    assert json.loads(extra) == {"more": {"kind": "x"}}


def test_places_in_texts_without_a_column_of_images_are_said(made, tmp_path):
    row = {"question": "<image>Red?", "answer": "1", "picture": "a.png"}
    found, said = made(jsonl(tmp_path, row))
    assert found == ["<image>Red?"]
    assert "1 prompt with `<image>` in the text and no column of images: name it with" in said


def test_a_name_of_an_image_without_an_ending_is_none_of_a_container(made, refused, tmp_path):
    source = jsonl(tmp_path, {"question": "1?", "answer": "1", "image": "org/box:latest"})
    assert made(source)[0] == ["1?"]
    source = jsonl(tmp_path, {"question": "<image>?", "answer": "1", "image": "box/1"})
    assert "box/1` is not there" in refused(3, "prompts", source, "--out", tmp_path / "p")


def test_a_row_with_a_video_is_unusable(refused, tmp_path):
    row = {"question": "<video>?", "answer": "1", "videos": ["a.mp4"]}
    err = refused(3, "prompts", jsonl(tmp_path, row), "--out", tmp_path / "p")
    assert "row 1 cannot be a prompt: it has a video, and only images are read" in err


def test_a_row_with_a_sound_is_unusable(refused, tmp_path):
    turns = [{"role": "user", "content": "<audio>What is that?"}]
    row = {"messages": turns, "answer": "a bell", "audios": ["1.mp3"]}  # as of LLaMA-Factory
    err = refused(3, "prompts", jsonl(tmp_path, row), "--out", tmp_path / "p")
    assert "row 1 cannot be a prompt: it has a sound, and only images are read" in err


def test_a_row_with_a_part_of_another_kind_is_refused_or_left_out(refused, made, tmp_path):
    parts = [{"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}]
    rows = [{"messages": user("A?"), "answer": "1"},
            {"messages": [{"role": "user", "content": parts}], "answer": "2"}]  # fmt: skip
    source = jsonl(tmp_path, *rows)
    err = refused(3, "prompts", source, "--out", tmp_path / "no")
    assert "row 2 cannot be a prompt: it holds a part of type `input_audio`" in err
    assert len(made(source, "--drop-unusable")[0]) == 1


@pytest.mark.parametrize(
    ("column", "turns"),
    [
        ("conversations", [{"from": "human", "value": "<image>?"}, {"from": "gpt", "value": "2"}]),
        ("messages", [*user("<image>?"), {"role": "assistant",
                                          "content": [{"type": "text", "text": "2"}]}]),
    ],
)  # fmt: skip
def test_the_answer_of_a_conversation_is_its_last_turn(rlvr, refused, tmp_path, column, turns):
    """As of VLM-R1, whose rows have no other column with it."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.png").write_bytes(png(1))
    words = ["--images", tmp_path / "in", "--answer-column", column, "--drop-answer-turn"]
    source, out = jsonl(tmp_path, {column: turns, "image": "1.png"}), tmp_path / "made"
    ran = rlvr("prompts", source, *words, "--out", out)
    assert ran.code == 0, ran.err
    assert read(out) == [user(1, "?")] and Shards.open(out).table()["answer"].to_pylist() == ["2"]
    source = jsonl(tmp_path, {column: turns[:1], "image": "1.png"})
    err = refused(3, "prompts", source, *words, "--out", tmp_path / "no")
    assert "its answer is messages whose last turn is not the assistant's" in err


def test_images_that_no_prompt_has_are_said_and_not_kept_as_text(rlvr, made, tmp_path):
    """As of MMMU, whose columns are numbered."""
    row = {
        "question": "In <image 1>?",
        "answer": "B",
        "image_1": {"bytes": png(1)},
        "image_2": None,
    }
    found, said = made(parquet(tmp_path, [row, row | {"image_2": {"bytes": png(2)}}]))
    assert found == ["In <image 1>?"] * 2
    assert "no prompt has the images of `image_1` and `image_2`: take them with" in said
    assert "--image-column image_1,image_2, or say --image-column none" in said
    assert Shards.open(tmp_path / "made").table()["extra"].to_pylist() == [None] * 2


def test_many_missing_images_are_one_reason(refused, tmp_path):
    rows = [{"question": "?", "answer": "1", "image": f"{i}.png"} for i in range(9)]
    err = refused(3, "prompts", jsonl(tmp_path, *rows), "--out", tmp_path / "p")
    assert f"9 as its image `{tmp_path / '0.png'}` is not there or similar\n" in err


def test_a_missing_image_is_refused_with_what_else_may_be_meant(refused, tmp_path):
    """As of MathVista, which has a path in `image` and the bytes in `decoded_image`."""
    row = {"question": "Red?", "answer": "1", "image": "images/1.jpg"}
    words = ("--out", tmp_path / "p")
    err = refused(3, "prompts", parquet(tmp_path, [row]), *words)
    assert "hint: name the folder where its paths begin with --images, or leave such rows" in err
    row |= {"decoded_image": {"bytes": png(1), "path": None}}
    err = refused(3, "prompts", parquet(tmp_path, [row]), *words)
    assert "hint: take --image-column decoded_image, name the folder" in err


def test_a_layouts_own_words_for_a_missing_image_have_no_hint_of_folders(
    refused, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(LAYOUT)
    path = jsonl(tmp_path, {"question": "Red?", "answer": "1"})
    err = refused(3, "prompts", path, "--layout", "own.py:build", "--out", tmp_path / "p")
    assert "its image of the proof is not there\n" in err and "--images" not in err


LAYOUT = """
from rlvr_cli.protocols import Unusable

def build():
    def read(row):
        raise Unusable("its image of the proof is not there")
    return read
"""


def test_a_task_of_ones_own_has_images_in_parts_or_beside_its_text(rlvr, tmp_path):
    (tmp_path / "own.py").write_text(TASK)
    ran = rlvr("prompts", f"{tmp_path / 'own.py'}:rows", "--out", tmp_path / "made")
    assert ran.code == 0, ran.err
    assert read(tmp_path / "made") == [user(8, "Red?"), user(9, "Red?")]


TASK = """
import io
from PIL import Image

def rows():
    file = io.BytesIO()
    Image.new("RGB", (2, 2), (8, 0, 0)).save(file, "PNG")
    parts = [{"type": "image", "image": file.getvalue()}, {"type": "text", "text": "Red?"}]
    rest = {"answer": "1", "verifier": "math", "source": "own", "extra": {}}
    beside = {"prompt": "Red?", "images": [Image.new("RGB", (2, 2), (9, 0, 0))]}
    return [{"prompt_id": "a", "prompt": [{"role": "user", "content": parts}], **rest},
            {"prompt_id": "b", **beside, **rest}]
"""


@pytest.mark.parametrize("several", [False, True])
def test_a_data_set_that_was_saved_with_images(made, tmp_path, several):
    feature = datasets.Image()
    features = {"question": datasets.Value("string"), "answer": datasets.Value("string")}
    name = "images" if several else "image"
    features[name] = datasets.Sequence(feature) if several else feature
    values = [[picture(1), picture(2)], [picture(3)]] if several else [picture(1), picture(3)]
    rows = {"question": ["A?", "B?"], "answer": ["1", "2"], name: values}
    saved = datasets.Dataset.from_dict(rows, features=datasets.Features(features))
    saved.save_to_disk(tmp_path / "saved")
    first = [1, 2] if several else [1]
    assert made(tmp_path / "saved")[0] == [user(*first, "A?"), user(3, "B?")]


def test_paths_begin_in_the_folder_of_the_file_or_where_it_is_said(made, tmp_path):
    source = jsonl(tmp_path, {"question": "A?", "answer": "1", "picture": "a.png"})
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "a.png").write_bytes(png(9))
    words = ("--image-column", "picture", "--images", tmp_path / "there")
    assert made(source, *words)[0] == [user(9, "A?")]


def test_the_images_of_a_csv_are_files_beside_it(made, tmp_path):
    (tmp_path / "a.png").write_bytes(png(9))
    (tmp_path / "data.csv").write_text("question,answer,image\nA?,1,a.png\n2+2=,4,\n")
    assert made(tmp_path / "data.csv")[0] == [user(9, "A?"), "2+2="]


def test_prompts_made_of_prompts_keep_the_images_they_need(made, rlvr, tmp_path):
    rows = [{"images": [{"bytes": png(i)}], "question": f"{i}?", "answer": "3"} for i in range(4)]
    made(parquet(tmp_path, rows))
    rlvr("prompts", "task:expression", "--limit", 2, "--out", tmp_path / "texts")
    for words, numbers in {
        ("made", "--limit", 2): [0, 1], ("made", "--skip", 3): [3], ("made", "texts"): range(4),
    }.items():  # fmt: skip
        sources = [tmp_path / word if word in ("made", "texts") else word for word in words]
        assert rlvr("prompts", *sources, "--out", tmp_path / "again").code == 0
        found = [prompt for prompt in read(tmp_path / "again") if not isinstance(prompt, str)]
        assert found == [user(i, f"{i}?") for i in numbers]
        assert rlvr("check", tmp_path / "again").code == 0
        (tmp_path / "again").rename(tmp_path / f"-{len(list(tmp_path.iterdir()))}")


def test_prompts_that_differ_in_their_images_alone_are_not_the_same(made, tmp_path):
    rows = [{"images": [{"bytes": png(i)}], "question": "Red?", "answer": "1"} for i in (1, 2, 2)]
    found, said = made(parquet(tmp_path, rows), "--drop-duplicates")
    assert found == [user(1, "Red?"), user(2, "Red?")]
    assert "1 of 3 prompts repeat" in said


def test_large_images_are_made_smaller_and_that_is_part_of_what_the_directory_is(made, tmp_path):
    row = {"images": [{"bytes": png(1)}], "question": "Red?", "answer": "1"}
    made(parquet(tmp_path, [row]), "--max-pixels", 24)
    prompts = Shards.open(tmp_path / "made")
    assert prompts.params["max_pixels"] == 24
    (name,) = prompts.table()["images"][0].as_py()
    assert (Images.of(prompts).image(name).width, Images.of(prompts).image(name).height) == (6, 4)


BROKEN = {
    "damaged": ([{"bytes": png(1)[:-20]}], "<image>A?", "its image is damaged"),
    "few": (
        [{"bytes": png(1)}],
        "<image><image>A?",
        "it has 2 places for images and 1 in",
    ),
    "none": ([], "<image>A?", "it has 1 place for images and 0 in `images`"),
    "linked": ([{"bytes": None, "path": "http://x.org/a"}], "A?", "its image is `http://x.org/a`"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_row_whose_images_cannot_be_had_is_refused_or_left_out(refused, made, tmp_path, name):
    images, question, reason = BROKEN[name]
    good = {"images": [{"bytes": png(1), "path": None}], "problem": "Red?", "answer": "1"}
    source = parquet(tmp_path, [good, good | {"images": images, "problem": question}])
    err = refused(3, "prompts", source, "--out", tmp_path / "no", "--answer-column", "answer")
    assert f"row 2 cannot be a prompt: {reason}" in err
    found, said = made(source, "--drop-unusable")
    assert found == [user(1, "Red?")] and f"left out 1 as {reason}" in said


def test_texts_alone_are_read_with_no_column_of_images(made, tmp_path):
    row = {"images": [{"bytes": png(1)}], "problem": "1 + 1?", "answer": "2"}
    assert made(parquet(tmp_path, [row]), "--image-column", "none")[0] == ["1 + 1?"]
    stored = Shards.open(tmp_path / "made")
    assert "images" not in stored.schema.names and not (tmp_path / "made" / "__images").exists()


def test_a_folder_of_images_with_their_metadata(made, tmp_path):
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "a.png").write_bytes(png(4))
    row = {"file_name": "a.png", "question": "Red?", "answer": "4"}
    (tmp_path / "set" / "metadata.jsonl").write_text(json.dumps(row))
    assert made(tmp_path / "set")[0] == [user(4, "Red?")]


def test_images_of_an_answer_that_is_left_out_are_not_stored(made, tmp_path):
    answer = {"role": "assistant", "content": [{"type": "image"}, {"type": "text", "text": "So."}]}
    row = {"messages": [*user("Draw."), answer], "images": [{"bytes": png(1)}], "answer": "1"}
    assert made(parquet(tmp_path, [row]), "--drop-answer-turn")[0] == [
        [{"role": "user", "content": "Draw."}]
    ]
    assert Images.of(Shards.open(tmp_path / "made")) is None


def test_the_same_command_writes_a_lost_part_of_images_again(made, rlvr, tmp_path):
    rows = [{"images": [{"bytes": png(i)}], "problem": "Red?", "answer": "2"} for i in (1, 2)]
    source = parquet(tmp_path, rows)
    made(source)
    part = tmp_path / "made" / "__images" / "part-00000.parquet"
    before = part.read_bytes()
    part.unlink()
    made(source)
    assert part.read_bytes() == before and rlvr("check", tmp_path / "made").code == 0


def test_prompts_that_are_easy_go_with_their_images(made, rlvr, tmp_path):
    rows = [{"images": [{"bytes": png(i)}], "id": str(i), "problem": "Red?", "answer": "2"}
            for i in (1, 2)]  # fmt: skip
    made(parquet(tmp_path, rows))
    graded = [{"id": str(i), "completion": "x", "correct": i == 1} for i in (1, 2)]
    assert rlvr("import", jsonl(tmp_path, *graded), "--out", tmp_path / "imported").code == 0
    words = ("--drop-easiest", 0.5, "--scores", tmp_path / "imported" / "scores")
    assert rlvr("prompts", tmp_path / "made", *words, "--out", tmp_path / "hard").code == 0
    assert read(tmp_path / "hard") == [user(2, "Red?")]
    assert len(Images.of(Shards.open(tmp_path / "hard"))) == 1


def test_json_counts_the_different_images(rlvr, tmp_path):
    rows = [{"images": [{"bytes": png(i)}], "problem": "Red?", "answer": "2"} for i in (1, 2, 1)]
    source, out = parquet(tmp_path, rows), tmp_path / "made"
    ran = rlvr("prompts", source, "--out", out, "--answer-column", "answer", "--json")
    assert json.loads(ran.out)["images"] == 2


def test_a_column_that_is_not_there_is_named(refused, tmp_path):
    source = jsonl(tmp_path, {"question": "A?", "answer": "1"})
    err = refused(3, "prompts", source, "--image-column", "picture", "--out", tmp_path / "p")
    assert "has no column `picture`" in err and "--image-column" in err


def test_a_folder_of_images_that_is_not_there_is_named(refused, tmp_path):
    source = jsonl(tmp_path, {"question": "A?", "answer": "1", "image": "a.png"})
    err = refused(2, "prompts", source, "--images", tmp_path / "no", "--out", tmp_path / "p")
    assert f"--images is `{tmp_path / 'no'}`, which is not a folder" in err


def test_downloaded_data_leaves_no_folder_that_the_user_names_either(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "a.png").write_bytes(png(1))
    row = {"question": "A?", "image": "../a.png"}
    data = DataSet("set", [row], tmp_path, is_downloaded=True)
    images = RowImages(data, "owner/set", ImageOptions(images=str(tmp_path / "in")))
    with pytest.raises(Unusable, match="leaves the folder"):
        images.asked("A?", "a", row)


def test_options_of_images_say_nothing_of_prompts_and_tasks(refused, tmp_path):
    for source in ("task:expression",):
        err = refused(2, "prompts", source, "--max-pixels", 5, "--out", tmp_path / "p")
        assert "--max-pixels says nothing of it" in err


def test_other_images_in_a_directory_that_is_there_are_refused(made, refused, tmp_path):
    row = {"images": [{"bytes": png(1)}], "problem": "Red?", "answer": "2"}
    source = parquet(tmp_path, [row])
    made(source)
    parquet(tmp_path, [row | {"images": [{"bytes": png(2)}]}])
    words = ("--out", tmp_path / "made", "--answer-column", "answer")
    err = refused(2, "prompts", source, *words)
    assert f"`{tmp_path / 'made'}` was made with other parameters: content was" in err


def test_check_names_an_image_that_was_changed_or_lost(made, rlvr, refused, tmp_path):
    row = {"images": [{"bytes": png(1)}], "problem": "Red?", "answer": "2"}
    made(parquet(tmp_path, [row]))
    part = tmp_path / "made" / "__images" / "part-00000.parquet"
    data = part.read_bytes()
    part.write_bytes(data[:30] + b"x" + data[31:])
    assert "__images/part-00000.parquet` does not match" in refused(3, "check", tmp_path / "made")
    (tmp_path / "made" / "__images").rename(tmp_path / "lost")
    err = refused(3, "check", tmp_path / "made")
    assert f"`{tmp_path / 'made' / '__images'}` is not there" in err


def test_a_branch_shares_the_images_of_its_prompts(made, tmp_path):
    row = {"images": [{"bytes": png(1)}], "problem": "Red?", "answer": "2"}
    made(parquet(tmp_path, [row]))
    branch = tmp_path / "branch"
    assert Links(tmp_path, copy=False).shards(Path("made"), branch, branch)
    assert read(branch / "made") == [user(1, "Red?")]
    part = Path("made", "__images", "part-00000.parquet")
    assert (tmp_path / part).samefile(branch / part)


def test_prompts_of_a_store_come_with_their_images(made, rlvr, bucket, tmp_path):
    row = {"images": [{"bytes": png(1)}], "problem": "Red?", "answer": "2"}
    made(parquet(tmp_path, [row]))
    (tmp_path / "a.png").write_bytes(png(2))
    assert rlvr("push", tmp_path / "made", bucket.url("made")).code == 0
    assert rlvr("push", tmp_path / "a.png", bucket.url("pictures/a.png")).code == 0
    assert rlvr("pull", bucket.url("made"), tmp_path / "back").code == 0
    assert rlvr("check", tmp_path / "back").code == 0 and read(tmp_path / "back") == [
        user(1, "Red?")
    ]
    assert rlvr("prompts", bucket.url("made"), "--out", tmp_path / "of-url").code == 0
    assert read(tmp_path / "of-url") == [user(1, "Red?")]
    source = jsonl(tmp_path, {"question": "A?", "answer": "1", "image": "a.png"})
    words = ("--images", bucket.url("pictures"), "--out", tmp_path / "urls")
    ran = rlvr("prompts", source, *words)
    assert ran.code == 0, ran.err
    assert read(tmp_path / "urls") == [user(2, "A?")]


def test_parts_of_images_that_another_tool_copied_are_compared(made, refused, bucket, tmp_path):
    row = {"images": [{"bytes": png(1)}], "problem": "Red?", "answer": "2"}
    made(parquet(tmp_path, [row]))
    for path in (path for path in (tmp_path / "made").rglob("*") if path.is_file()):
        bucket.write(f"copied/{path.relative_to(tmp_path / 'made')}", path.read_bytes())
    bucket.flip("copied/__images/part-00000.parquet")
    err = refused(3, "pull", bucket.url("copied"), tmp_path / "back")
    assert "__images/part-00000.parquet" in err and not (tmp_path / "back").exists()


def test_without_pillow_the_command_says_how_to_install_it(rlvr, tmp_path, monkeypatch):
    row = {"images": [{"bytes": png(1)}], "problem": "Red?", "answer": "2"}
    source = parquet(tmp_path, [row])
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    monkeypatch.setitem(__import__("sys").modules, "PIL.Image", None)
    ran = rlvr("prompts", source, "--answer-column", "answer", "--out", tmp_path / "p")
    assert ran.code == 2 and "pip install 'rlvr[images]'" in ran.err


def test_imported_completions_keep_the_images_of_their_prompts(rlvr, tmp_path):
    content = [{"type": "image_url", "image_url": {"url": url(3)}}, {"type": "text", "text": "A?"}]
    prompt = [{"role": "user", "content": content}]
    source = jsonl(tmp_path, {"id": "a", "prompt": prompt, "completion": "1", "correct": True})
    ran = rlvr("import", source, "--out", tmp_path / "imported")
    assert ran.code == 0, ran.err
    assert read(tmp_path / "imported" / "prompts") == [user(3, "A?")]


@pytest.mark.parametrize("place", ["column", "parts", "format"])
def test_images_of_imported_completions_are_never_in_memory_at_once(tmp_path, place):
    """20 prompts of 225,000 bytes, each in 4 rows, and once on disk."""
    names = [f"{i}" for i in range(20)]
    path = jsonl(tmp_path, *(with_noise(name, place) for name in names for _ in range(4)))
    tracemalloc.start()
    try:
        scan = import_scan.scan(path, None, reads_reasons=True, reads_logprobs=False)
        held, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert list(scan.names.values()) == names
    assert held < 1_000_000 and most < 5_000_000


def with_noise(name, place):
    """A row with an image in base64 that is not one: where it is read, nothing looks into it."""
    noise = base64.b64encode(random.Random(name).randbytes(225_000)).decode()
    noise = f"data:image/png;base64,{noise}"
    if place == "column":
        return {"id": name, "prompt": "A?", "images": [noise], "completion": "1"}
    part = {"type": "image_url", "image_url": {"url": noise}}
    prompt = [{"role": "user", "content": [part, {"type": "text", "text": "A?"}]}]
    if place == "parts":
        return {"id": name, "prompt": prompt, "completion": "1"}
    request = {"model": "m", "messages": prompt}
    reply = {"choices": [{"message": {"role": "assistant", "content": "1"}}]}
    return {"custom_id": name, "request": request, "response": {"body": reply}}


def test_what_is_read_as_text_stays_text_whatever_it_looks_like(rlvr, tmp_path):
    text = "/9j/" + "A" * 4000
    row = {"id": "a", "prompt": text, "answer": text, "completion": text, "extracted": text}
    source = jsonl(tmp_path, row | {"correct": True, "note": text, "others": [text]})
    ran = rlvr("import", source, "--out", tmp_path / "imported")
    assert ran.code == 0, ran.err
    prompt = Shards.open(tmp_path / "imported" / "prompts").table().to_pylist()[0]
    assert (json.loads(prompt["messages"]), prompt["answer"]) == (text, text)
    assert json.loads(prompt["extra"]) == {"note": text, "others": [text]}
    rollout = Shards.open(tmp_path / "imported" / "rollouts").table().to_pylist()[0]
    score = Shards.open(tmp_path / "imported" / "scores").table().to_pylist()[0]
    assert rollout["completion"] == score["extracted"] == text


def test_completions_of_other_prompts_with_images_are_refused(rlvr, refused, tmp_path):
    task = tmp_path / "task"
    assert rlvr("prompts", "task:expression", "--limit", "1", "--out", task).code == 0
    content = [{"type": "image", "image": png(1)}, {"type": "text", "text": "A?"}]
    prompt = [{"role": "user", "content": content}]
    source = parquet(tmp_path, [{"id": "a", "prompt": prompt, "completion": "1"}])
    err = refused(3, "import", source, "--prompts", task, "--out", tmp_path / "imported")
    assert f"`{task}` has no prompt `a`" in err
