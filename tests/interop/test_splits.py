"""Which files are which split, in the folders that people have."""

import pytest

from rlvr_cli.errors import UserError
from rlvr_cli.interop import splits

OPEN_R1 = """---
license: apache-2.0
configs:
  - config_name: all
    data_files:
      - split: default
        path: all/default-*
      - split: extended
        path: all/extended-*
  - config_name: default
    data_files:
      - split: train
        path: data/train-*
  - config_name: extended
    data_files:
      - split: train
        path: extended/train-*
---
# OpenR1-Math-220k
"""


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a.jsonl", "b.jsonl"], {"train": ["a.jsonl", "b.jsonl"]}),
        (["train.jsonl", "test.jsonl"], {"test": ["test.jsonl"], "train": ["train.jsonl"]}),
        (["gsm8k_test.jsonl"], {"test": ["gsm8k_test.jsonl"]}),
        (["train.jsonl", "more.jsonl"], {"train": ["train.jsonl"], "more": ["more.jsonl"]}),
        (
            ["data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet"],
            {"train": ["data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet"]},
        ),
        (
            ["data/prompt-00000-of-00001-6ef3.parquet", "data/val-00000-of-00001.parquet"],
            {
                "prompt": ["data/prompt-00000-of-00001-6ef3.parquet"],
                "validation": ["data/val-00000-of-00001.parquet"],
            },
        ),
        (
            ["train/1.csv", "train/2.csv", "dev/1.csv"],
            {"validation": ["dev/1.csv"], "train": ["train/1.csv", "train/2.csv"]},
        ),
        (["deep/er/a.jsonl.gz", "b.jsonl.gz"], {"train": ["b.jsonl.gz", "deep/er/a.jsonl.gz"]}),
        (["latest.jsonl", "contest.jsonl"], {"train": ["contest.jsonl", "latest.jsonl"]}),
    ],
)  # fmt: skip
def test_the_names_of_files_say_their_split(names, expected):
    found = splits.configurations(names)
    assert {split: sorted(files) for split, files in found["default"].items()} == expected


def test_files_that_hold_no_rows_are_no_data():
    names = ["README.md", "state.json", "dataset_info.json", ".cache/a.jsonl", "_old/a.jsonl"]
    assert splits.data_files([*names, "a.jsonl", "notes.txt"]) == ["a.jsonl"]


def test_files_of_one_name_in_several_folders_are_of_as_many_configurations():
    names = [
        f"{c}/{s}-00000-of-00001.parquet" for c in ("main", "socratic") for s in ("train", "test")
    ]
    found = splits.configurations(names)
    assert {name: set(split) for name, split in found.items()} == {
        "main": {"train", "test"},
        "socratic": {"train", "test"},
    }


def test_a_readme_says_which_files_are_which():
    names = [
        *("all/default-00000-of-00001.parquet", "all/extended-00000-of-00001.parquet"),
        *("data/train-00000-of-00001.parquet", "extended/train-00000-of-00001.parquet"),
    ]
    found = splits.configurations(names, OPEN_R1)
    assert list(found) == ["all", "default", "extended"]
    assert splits.choose(found, "x", None, None) == (None, ["data/train-00000-of-00001.parquet"])
    assert splits.choose(found, "x", "all", "extended") == (
        "extended",
        ["all/extended-00000-of-00001.parquet"],
    )


@pytest.mark.parametrize(
    "data_files",
    [
        "'*.jsonl'", "['a.jsonl', './b.jsonl']", "{train: '*.jsonl'}",
        "[{split: train, path: '**/*.jsonl'}]",
    ],
)  # fmt: skip
def test_a_readme_may_declare_its_files_in_several_ways(data_files):
    readme = f"---\nconfigs:\n- config_name: default\n  data_files: {data_files}\n---\n"
    assert splits.configurations(["a.jsonl", "b.jsonl"], readme)["default"] == {
        "train": ["a.jsonl", "b.jsonl"]
    }


@pytest.mark.parametrize(
    "readme", ["", "# Title", "---\nconfigs: [\n---\n", "---\nconfigs: 3\n---\n"]
)
def test_a_readme_without_configurations_leaves_it_to_the_names(readme):
    assert splits.configurations(["test.csv"], readme) == {"default": {"test": ["test.csv"]}}


@pytest.mark.parametrize(
    ("config", "split", "message", "hint"),
    [
        (None, None, "has the configurations main, socratic", "`x:main`"),
        ("main", None, "has the splits test, train", "--split train"),
        ("main", "train[:9]", r"has no split `train\[:9\]`; it has test, train", "--limit"),
        ("main", "dev", "has no split `dev`; it has test, train", "--split"),
        ("other", None, "has no configuration `other`; it has main, socratic", "colon"),
    ],
)
def test_where_there_are_several_they_are_listed(config, split, message, hint):
    names = [f"{c}/{s}.jsonl" for c in ("main", "socratic") for s in ("train", "test")]
    found = splits.configurations(names)
    with pytest.raises(UserError, match=message) as caught:
        splits.choose(found, "x", config, split)
    assert hint in caught.value.hint
