"""Every definition is valid and reads its data set as it lies on the Hub, with rows of our own."""

import dataclasses
import json
import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from rlvr_cli import benchmarks, config, registry, templates
from rlvr_cli.benchmarks import data
from rlvr_cli.errors import UserError
from rlvr_cli.verification.scoring import rewards

PARQUET = "test-00000-of-00001.parquet"
README = (
    "---\nconfigs:\n- config_name: {0}\n  data_files: {1}\n"
    "- config_name: x\n  data_files: x.csv\n---\n"
)
OLYMPIAD = "OlympiadBench/OE_TO_maths_en_COMP/OE_TO_maths_en_COMP.parquet"
HUMANEVAL = {
    "task_id": "HumanEval/0",
    "prompt": "def double(n):\n",
    "canonical_solution": "    return n + n\n",
    "test": "def check(candidate):\n    assert candidate(2) == 4\n",
    "entry_point": "double",
}
MBPP = {
    "task_id": 11, "text": "Double a number.", "code": "def double(n): return 2 * n",
    "test_list": ["assert double(2) == 4"], "test_setup_code": "", "challenge_test_list": [""],
}  # fmt: skip
ARC = {
    "id": "Mercury_1", "question": "Which is a gas?", "answerKey": "B",
    "choices": {"text": ["Iron", "Neon"], "label": ["A", "B"]},
}  # fmt: skip
GPQA = {
    "Record ID": "rec1", "Question": "Which is a gas?", "Correct Answer": "Neon",
    **{f"Incorrect Answer {i}": text for i, text in enumerate(("Iron", "Tin", "Lead"), 1)},
}  # fmt: skip
# A row of each data set, the file that it lies in on the Hub, the id and the gold of its prompt.
ROWS = {
    "aime24": (
        {"id": 60, "problem": "6*7=", "solution": "42", "answer": "42", "url": "u", "year": "2024"},
        "data/train-00000-of-00001.parquet", "60", "42",
    ),
    "aime25": (
        {"problem_idx": 1, "answer": 70, "problem": "7*10=", "problem_type": ["Algebra"]},
        "data/train-00000-of-00001.parquet", "aime25-000001", "70",
    ),
    "amc23": ({"id": 0, "answer": "27.0", "question": "20+7=", "url": "u"},
              f"data/{PARQUET}", "0", "27.0"),
    "math500": (
        {"problem": "6*7=", "solution": "\\boxed{42}", "answer": "42", "subject": "Algebra",
         "level": 1, "unique_id": "test/algebra/1.json"},
        "test.jsonl", "test/algebra/1.json", "42",
    ),
    "gsm8k": ({"question": "6*7=", "answer": "<<6*7=42>>\n#### 42"},
              f"main/{PARQUET}", "gsm8k-000001", "42"),
    "minerva": ({"question": "6*7=", "answer": "42"}, "test.jsonl", "minerva-000001", "42"),
    "olympiadbench": (
        {"id": 1606, "question": "6*7=", "solution": ["42"], "final_answer": ["42"],
         "context": None, "modality": "Text-only", "unit": None},
        OLYMPIAD, "1606", "42",
    ),
    "gpqa-diamond": (GPQA, "gpqa_diamond.csv", "gpqa-diamond-000001", None),
    "mmlu-pro": (
        {"question_id": 70, "question": "Which is a gas?", "options": ["Iron", "Neon"],
         "answer": "B", "answer_index": 1, "category": "chemistry"},
        f"data/{PARQUET}", "70", "B",
    ),
    "arc-challenge": (ARC, f"ARC-Challenge/{PARQUET}", "Mercury_1", "B"),
    "humaneval": (HUMANEVAL, f"openai_humaneval/{PARQUET}", "HumanEval/0", HUMANEVAL["test"]),
    "humanevalplus": (HUMANEVAL, f"data/{PARQUET}", "HumanEval/0", HUMANEVAL["test"]),
    "mbpp": (MBPP, f"full/{PARQUET}", "11", "assert double(2) == 4"),
    "livecodebench": (
        {"question_title": "double", "question_content": "Double a number.", "question_id": "1",
         "starter_code": "", "public_test_cases": "[]", "private_test_cases": "",
         "metadata": "{}"},
        "test6.jsonl", "1", None,
    ),
    "ifeval": (
        {"key": 1000, "prompt": "Greet, without commas.", "kwargs": [{"n": None}],
         "instruction_id_list": ["punctuation:no_comma"]},
        "ifeval_input_data.jsonl", "ifeval-000001", None,
    ),
}  # fmt: skip
BESIDE = {  # what else lies there
    "gsm8k": f"socratic/{PARQUET}",
    "mbpp": f"sanitized/{PARQUET}",
    "arc-challenge": f"ARC-Easy/{PARQUET}",
    "mmlu-pro": "data/validation-00000-of-00001.parquet",
    "livecodebench": "test5.jsonl",
}
CONFIGS = {"gpqa-diamond": ("gpqa_diamond", "gpqa_diamond.csv"),
           "olympiadbench": ("OE_TO_maths_en_COMP", OLYMPIAD)}  # fmt: skip


def write(path, row):
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist([row])
    if path.suffix == ".jsonl":
        path.write_text(json.dumps(row) + "\n")
    elif path.suffix == ".csv":
        pa.csv.write_csv(table, path)
    else:
        pa.parquet.write_table(table, path)


@pytest.fixture
def snapshot(tmp_path):
    """The folder of a data set as `hf download` leaves it; its path."""

    def make(name):
        row, file, *_ = ROWS[name]
        folder = tmp_path / name
        write(folder / file, row)
        if name in BESIDE:
            write(folder / BESIDE[name], row | {"task_id": 2, "id": "other"})
        if name in CONFIGS:
            (folder / "x.csv").write_text("a\n1\n")
            (folder / "README.md").write_text(README.format(*CONFIGS[name]))
        return folder

    return make


def test_every_benchmark_has_a_row_here():
    assert sorted(ROWS) == benchmarks.names()


@pytest.mark.parametrize("name", benchmarks.names())
def test_a_definition_names_what_exists(name):
    found = benchmarks.load(name)
    options = config.make(config.RolloutOptions, found.rollout)
    assert options.template in ("", *templates.names())
    assert found.data.layout in ("", *registry.names("layouts"))
    assert found.licence and found.source.startswith("https://") and found.prompts and found.notes
    assert options.temperature > 0 or options.num_generations == 1
    try:
        rewards.build(found.verifier)
    except UserError as error:
        hint = str(error.hint)  # a package, or its data, is not on this machine
        assert "pip install 'rlvr[" in hint or "nltk.downloader" in hint, error


@pytest.mark.parametrize("name", benchmarks.names())
def test_a_downloaded_data_set_becomes_prompts(name, snapshot, tmp_path):
    _, _, prompt_id, gold = ROWS[name]
    definition = dataclasses.replace(benchmarks.load(name), prompts=(1,))
    prompts = data.prepare(definition, tmp_path / "prompts", snapshot(name), None)
    (row,) = prompts.table().to_pylist()
    assert (row["prompt_id"], row["source"]) == (prompt_id, name)
    assert gold is None or row["answer"] == gold
    assert row["verifier"].split(":")[0] == definition.verifier.split(":")[0]
    assert not definition.data.layout or prompts.params["layout"] == definition.data.layout


def test_ids_are_the_same_wherever_the_data_lies(snapshot, tmp_path):
    definition = dataclasses.replace(benchmarks.load("gsm8k"), prompts=(1,))
    copy = tmp_path / "my copy.jsonl"
    copy.write_text(json.dumps(ROWS["gsm8k"][0]) + "\n")
    first = data.prepare(definition, tmp_path / "a", snapshot("gsm8k"), None)
    second = data.prepare(definition, tmp_path / "b", copy, None)
    assert first.table().equals(second.table())


@pytest.mark.parametrize("name", ["gsm8k", "olympiadbench", "aime24"])
def test_a_folder_with_one_file_is_that_file(name, tmp_path):
    """As in Qwen2.5-Math's evaluation/data: gsm8k/test.jsonl, aime24/test.jsonl."""
    write(tmp_path / name / "test.jsonl", ROWS[name][0])
    definition = dataclasses.replace(benchmarks.load(name), prompts=(1,))
    place = data.places([], tmp_path, [definition])[name]
    assert data.prepare(definition, tmp_path / "prompts", place, None).rows == 1


@pytest.mark.parametrize("whole", [True, False])
def test_what_datasets_saved_is_read(whole, tmp_path):
    datasets = pytest.importorskip("datasets")
    saved = datasets.Dataset.from_list([ROWS["gsm8k"][0]])
    saved = datasets.DatasetDict({"train": saved, "test": saved}) if whole else saved
    saved.save_to_disk(tmp_path / "gsm8k")
    definition = dataclasses.replace(benchmarks.load("gsm8k"), prompts=(1,))
    prompts = data.prepare(definition, tmp_path / "prompts", tmp_path / "gsm8k", None)
    assert prompts.table()["prompt_id"].to_pylist() == ["gsm8k-000001"]


def test_a_folder_without_the_split_is_answered_with_a_flag_that_there_is(tmp_path, refused):
    for split in ("train", "validation"):
        write(tmp_path / "mmlu-pro" / f"{split}.jsonl", ROWS["mmlu-pro"][0])
    err = refused(3, "bench", "mmlu-pro", "--model", "builtin", "--data-dir", tmp_path)
    assert "has no split `test`" in err and "--data mmlu-pro=FILE" in err


@pytest.mark.slow
def test_what_cannot_be_fetched_says_how_to_get_it(tmp_path):
    environment = {**os.environ, "HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path)}
    code = "import sys; from rlvr_cli.cli.app import main; sys.exit(main())"
    words = ["bench", "livecodebench", "--model", "builtin", "--out", str(tmp_path / "out")]
    ran = subprocess.run(
        [sys.executable, "-P", "-c", code, *words], env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 3 and not (tmp_path / "out").exists()
    download = "hf download livecodebench/code_generation_lite test6.jsonl --repo-type dataset"
    assert f"`{download} --local-dir livecodebench`" in ran.stderr
    assert "`--data livecodebench=livecodebench`" in ran.stderr


def test_a_wrong_count_is_refused_by_name_with_how_to_get_the_data(snapshot, refused):
    folder = snapshot("gpqa-diamond")
    err = refused(
        3, "bench", "gpqa-diamond", "--model", "builtin", "--data", f"gpqa-diamond={folder}"
    )
    assert "has 1 prompt, `gpqa-diamond` has 198" in err
    assert "`hf download Idavidrein/gpqa --repo-type dataset --local-dir gpqa-diamond`" in err
    assert "`--data gpqa-diamond=gpqa-diamond`" in err and "accept its terms" in err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("verifer = 'math'", "unknown key `verifer`"),
        ("prompts = 0", "`prompts` is 0"),
        ("prompts = 'many'", "`prompts` is 'many'"),
        ("verifier = 3", "`verifier` is 3"),
        ("data = 'x'", "write a table, [data]"),
        ("", "does not say where its data is"),
        ("[data]\nhub = 'a/b'\nhubs = 'c/d'", "unknown key of [data] `hubs`"),
        ("[data]\npath = 'x'\n[rollout]\ntemprature = 1", "unknown key of [rollout] `temprature`"),
        ("[data]\npath = 'x'\n[rollout]\ntemperature = 'hot'", "`temperature` is 'hot'"),
        ("[data]\npath = 'x'\n[rollout]\ntemperature = -1", "--temperature is -1"),
        ("[data", "cannot read"),
    ],
)
def test_a_definition_that_is_wrong_is_refused_with_the_place(tmp_path, refused, text, said):
    (tmp_path / "my.toml").write_text(text)
    assert said in refused(2, "bench", tmp_path / "my.toml", "--model", "builtin")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["aime-25"], "did you mean `aime25`?"),
        (["MATH500"], "did you mean `math500`"),
        (["aime24,aime24"], "named twice"),
        ([","], "no benchmark is named"),
        (["aime24", "--data", "aime25=x"], "write NAME=PATH"),
        (["aime24", "--data", "x"], "write NAME=PATH"),
    ],
)
def test_a_name_that_is_wrong_is_answered_with_the_right_one(refused, words, said):
    assert said in refused(2, "bench", *words, "--model", "builtin")


def test_benchmarks_are_listed_with_their_data_and_licence(rlvr):
    listed = rlvr("list", "benchmarks").out
    for name in benchmarks.names():
        assert f"  {name} " in listed
    assert "licence: MIT" in listed and 'hub "openai/gsm8k"' in listed
    assert "198" in rlvr("list", "benchmarks", "gpqa-diamond").out
