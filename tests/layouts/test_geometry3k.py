"""Geometry3K goes through `prompts` as hiyouga has it, and as its authors have it."""

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from rlvr_cli.layouts import geometry3k
from rlvr_cli.protocols import Unusable

CHOICES = ["30", r"5 \sqrt { 2 }", r"5 \sqrt { 3 }", "80"]
AUTHORS = {  # lupantech/InterGPS, data/geometry3k/train/11/data.json, some of its keys
    "problem_text": "In \\odot X, A B = 30. Find m \\widehat A B.",
    "annotat_text": "In $\\odot X, A B=30$. Find $m\\widehat{A B}$",
    "choices": CHOICES,
    "answer": "D",
    "problem_type_graph": ["Circle"],
    "problem_type_goal": ["Angle"],
    "id": 11,
    "data_type": "train",
}
HIYOUGA = {
    "problem": "<image>Find x.",
    "answer": CHOICES[2],
    "id": 12,
    "choices": CHOICES,
    "ground_truth": "C",
}


def png(shade):
    file = io.BytesIO()
    Image.new("RGB", (30, 20), (shade, 0, 0)).save(file, "PNG")
    return file.getvalue()


@pytest.fixture
def hiyouga(tmp_path):
    """A Parquet file with the columns and types of hiyouga/geometry3k."""
    struct = pa.list_(pa.struct([("bytes", pa.binary()), ("path", pa.string())]))
    fields = [
        ("images", struct), ("problem", pa.string()), ("answer", pa.string()),
        ("id", pa.int64()), ("choices", pa.list_(pa.string())), ("ground_truth", pa.string()),
    ]  # fmt: skip
    row = {"images": [{"bytes": png(9), "path": None}], **HIYOUGA}
    path = tmp_path / "train-00000-of-00001.parquet"
    pq.write_table(pa.Table.from_pylist([row], pa.schema(fields)), path)
    return path


@pytest.fixture
def authors(tmp_path):
    """A pattern of the files of the authors' data set: a folder for each problem."""
    for number in (11, 12):
        folder = tmp_path / "train" / str(number)
        folder.mkdir(parents=True)
        (folder / "data.json").write_text(json.dumps(AUTHORS | {"id": number}, indent=2))
        (folder / "img_diagram.png").write_bytes(png(number))
    return tmp_path / "train" / "*" / "data.json"


@pytest.fixture
def prompts(rlvr, tmp_path):
    def make(source, *words):
        ran = rlvr("prompts", source, *words, "--out", tmp_path / "p")
        assert ran.code == 0, ran.err
        table = pq.ParquetDataset(sorted((tmp_path / "p").glob("*.parquet"))).read()
        return ran, table.to_pylist()

    return make


def test_hiyougas_file_is_recognised_and_its_image_stands_before_the_text(prompts, hiyouga):
    ran, (row,) = prompts(hiyouga)
    assert "taken as geometry3k: " in ran.err
    image, text = json.loads(row["messages"])[0]["content"]
    assert (image["type"], [image["image"]], text["text"]) == ("image", row["images"], "Find x.")
    assert (row["answer"], row["verifier"]) == (CHOICES[2], "math")


def test_the_authors_folders_are_read_by_a_pattern_each_with_its_image(prompts, authors):
    ran, rows = prompts(authors)
    assert "taken as geometry3k: " in ran.err
    assert len(rows) == 2 and rows[0]["images"] != rows[1]["images"]
    _, text = json.loads(rows[0]["messages"])[0]["content"]
    assert text["text"] == AUTHORS["annotat_text"]
    assert (rows[0]["answer"], rows[0]["verifier"]) == ("80", "math")


def test_with_choices_a_letter_and_its_value_are_right(rlvr, tmp_path, prompts, authors):
    _, rows = prompts(authors, "--layout", "geometry3k:choices=true")
    assert rows[0]["verifier"].startswith("any:of=[choice")
    _, text = json.loads(rows[0]["messages"])[0]["content"]
    assert text["text"].endswith("\nD. 80")
    says = {"\\boxed{D}": 1, "\\boxed{80^\\circ}": 1, "\\boxed{A}": 0, "\\boxed{30}": 0}
    path, out = tmp_path / "c.jsonl", tmp_path / "imported"
    lines = ({"id": rows[0]["prompt_id"], "completion": text} for text in says)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert rlvr("import", path, "--prompts", tmp_path / "p", "--out", out).code == 0
    ran = rlvr("score", out / "rollouts", "--out", tmp_path / "scores")
    assert ran.code == 0, ran.err
    scores = pq.ParquetDataset(sorted((tmp_path / "scores").glob("*.parquet"))).read()
    assert scores["reward"].to_pylist() == list(says.values())


def read(row, **options):
    return geometry3k.build(**options)(row)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"answer": "5"}, "its answer is `5`, and its choice C"),
        ({"ground_truth": "E"}, "its answer `E` is none of 4 choices"),
        ({"ground_truth": None, "answer": "7"}, "its answer `7` is not one of its choices"),
        ({"answer": ""}, "it has no `answer`"),
        ({"problem": " "}, "it has no `problem`"),
    ],
)
def test_a_row_that_contradicts_itself_is_no_prompt(change, why):
    with pytest.raises(Unusable, match=why):
        read(HIYOUGA | change)


def test_choices_are_asked_for_only_where_there_are_some():
    row = {"problem": "<image>Find x.", "answer": "3"}
    assert read(row)["answer"] == "3"
    with pytest.raises(Unusable, match="no `choices`"):
        read(row, choices=True)


@pytest.mark.parametrize("row", [{"problem": "Find x.", "answer": "3", "images": []}, AUTHORS])
def test_problems_without_a_place_for_an_image_are_of_another_layout(row):
    assert geometry3k.recognises([row]) == (row is AUTHORS)
