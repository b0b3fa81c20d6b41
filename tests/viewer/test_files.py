"""Files of other tools, read for the viewer as they lie there."""

import csv
import gzip
import itertools
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlvr_cli.errors import DataError
from rlvr_cli.interop.completions import Columns
from rlvr_cli.viewer import files
from rlvr_cli.viewer.index import RIGHT, UNKNOWN, WRONG


@pytest.fixture
def opened(tmp_path):
    """The whole index of rows in a JSON-lines file, or of a file."""

    def read(*rows, name="rows.jsonl", **columns):
        path = tmp_path / name
        if rows:
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        *_, last = files.snapshots(path, Columns(**columns))
        return last

    return read


def chosen(index, row):
    detail = index.detail(row)
    return detail.turns, detail.answer, detail.completion, detail.verdict, detail.extracted


# The layouts are those of QwenLM/Qwen2.5-Math's outputs, openai/grade-school-math's solutions,
# microsoft/CodeT's samples, lm-evaluation-harness's log, a step that verl dumps, TRL's logged
# completions, EvalPlus' results, and OpenAI's chat messages.
QWEN = {"id": 7, "problem": "1+1?", "answer": "2", "level": "Level 1",
        "completions": ["so \\boxed{2}", "3"], "preds": ["2", "3"],
        "correct": [True, False]}  # fmt: skip
GSM8K = {"id": 0, "problem": "Ducks?", "ground_truth": "18\nA: 18", "models": ["6b", "175b"],
         "completions": ["A: 26", "A: 18"], "correct": [False, True]}  # fmt: skip
CODET = {"task_id": "HumanEval/0", "prompt": "def f():\n", "completions": ["    pass", "    1"]}
LM_EVAL = {"doc_id": 3, "doc": {"question": "Q?", "level": 5}, "target": "18",
           "arguments": [["Q: Q?\nA:", {"until": ["Q:"]}]], "resps": [["It is 18.", "19"]],
           "filtered_resps": [["18", "19"]], "filter": "take", "metrics": ["exact_match"],
           "exact_match": [1.0, 0.0]}  # fmt: skip
VERL = {"input": "user\n1+1?", "output": "2", "gts": "2", "score": 1.0, "step": 3, "acc": True}
TRL = {"step": 1, "prompt": [{"role": "user", "content": "1+1?"}],
       "completion": [{"role": "assistant", "content": "2"}], "accuracy_reward": 1.0,
       "advantage": 0.5}  # fmt: skip
EVALPLUS = {"date": "2024-01-01", "hash": "0", "eval": {"HumanEval/0": [
    {"solution": "def f(): 1", "base_status": "pass", "plus_status": "fail"},
    {"solution": "def f(): 2", "base_status": "pass", "plus_status": "pass"}]}}  # fmt: skip
CHAT = {"id": "c", "prompt": [{"role": "system", "content": "Be brief."},
                              {"role": "user", "content": [{"type": "text", "text": "1+1?"}]}],
        "completion": "2", "correct": True}  # fmt: skip
LAYOUTS = [
    (QWEN, "7", 0, ([("prompt", "1+1?")], "2", "so \\boxed{2}", RIGHT, "2")),
    (QWEN, "7", 1, ([("prompt", "1+1?")], "2", "3", WRONG, "3")),
    (GSM8K, "0", 1, ([("prompt", "Ducks?")], "18\nA: 18", "A: 18", RIGHT, None)),
    (CODET, "HumanEval/0", 1, ([("prompt", "def f():\n")], None, "    1", UNKNOWN, None)),
    (LM_EVAL, "3", 0, ([("prompt", "Q: Q?\nA:")], "18", "It is 18.", RIGHT, "18")),
    (LM_EVAL, "3", 1, ([("prompt", "Q: Q?\nA:")], "18", "19", WRONG, "19")),
    (VERL, None, 0, ([("prompt", "user\n1+1?")], "2", "2", RIGHT, None)),
    (TRL, None, 0, ([("user", "1+1?")], None, "2", RIGHT, None)),
    (EVALPLUS, "HumanEval/0", 0, (None, None, "def f(): 1", WRONG, None)),
    (EVALPLUS, "HumanEval/0", 1, (None, None, "def f(): 2", RIGHT, None)),
    (CHAT, "c", 0, ([("system", "Be brief."), ("user", "1+1?")], None, "2", RIGHT, None)),
]


@pytest.mark.parametrize(("stored", "name", "row", "expected"), LAYOUTS)
def test_a_row_of_a_known_tool_is_read_as_what_it_is(opened, stored, name, row, expected):
    is_object = "eval" in stored
    index = opened(stored, name="rows.json" if is_object else "rows.jsonl")
    assert chosen(index, row) == expected
    assert name is None or index.ids == [name]


def test_csv_parquet_and_gzip_are_read_alike(opened, tmp_path):
    rows = [{"id": "a", "prompt": "1?", "completion": f"c{n}", "correct": n == 1} for n in range(3)]
    with open(tmp_path / "rows.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader(), writer.writerows(rows)
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    for name in ("rows.csv", "rows.parquet", "rows.jsonl.gz"):
        index = opened(name=name)
        assert [chosen(index, n)[2:4] for n in range(3)] == [
            ("c0", WRONG), ("c1", RIGHT), ("c2", WRONG)
        ]  # fmt: skip


def test_other_columns_are_shown_and_lists_by_their_completion(opened):
    index = opened(GSM8K, {**GSM8K, "id": 1, "note": {"a": 1}})
    assert index.detail(0).others == {"models": "6b"}
    assert index.detail(3).others == {"models": "175b", "note": '{"a": 1}'}


def test_a_solution_that_is_the_completion_is_no_gold(opened):
    index = opened({"task_id": "HumanEval/0", "solution": "def f(): 1"})
    assert index.detail(0).answer is None and index.detail(0).completion == "def f(): 1"


def test_graded_rewards_are_no_verdicts_and_give_the_prompt_their_mean(opened):
    rows = [{"id": "a", "completion": "x", "reward": reward} for reward in (1.0, 0.0, 0.5)]
    index = opened(*rows)
    assert index.verdict_N.tolist() == [UNKNOWN] * 3 and index.rate_P.tolist() == [0.5]
    assert index.detail(2).reward == 0.5


def test_samples_have_their_own_numbers_or_their_place(opened):
    plain = [{"id": i, "completion": "x"} for i in ("a", "b", "a")]
    assert opened(*plain).sample_N.tolist() == [0, 0, 1]
    numbered = [row | {"sample_index": n} for row, n in zip(plain, (5, 7, 6), strict=True)]
    assert opened(*numbered).sample_N.tolist() == [5, 7, 6]


def test_ids_that_several_sources_use_are_several_prompts(opened):
    rows = [{"id": "1", "source": source, "completion": "x"} for source in ("aime", "math", "aime")]
    index = opened(*rows)
    assert index.ids == ["1", "1"] and index.needs_sources
    assert index.names(with_sources=True) == ["aime/1", "math/1"]
    assert [index.rows_of(p).tolist() for p in (0, 1)] == [[0, 2], [1]]


def test_rows_of_one_id_with_different_prompts_are_told_apart(opened):
    rows = [{"id": "1", "prompt": p, "completion": "x"} for p in ("a?", "b?")]
    index = opened(*rows, {"id": "2", "prompt": "a?", "completion": "y"})
    assert index.several(0) and not index.several(1)
    assert [index.detail(row).turns for row in range(3)] == [
        [("prompt", "a?")], [("prompt", "b?")], [("prompt", "a?")]
    ]  # fmt: skip


@pytest.mark.parametrize("word", ["length", "max_tokens", "MAX_TOKENS"])
def test_what_was_cut_is_known_by_the_words_of_servers(opened, word):
    rows = [{"id": "a", "completion": "x", "finish_reason": w} for w in (word, "stop", None)]
    index = opened(*rows)
    assert index.cut_N.tolist() == [True, False, False]
    assert [index.detail(n).finish_reason for n in range(3)] == ["length", "stop", None]


def test_a_search_looks_into_everything_in_either_case(opened):
    index = opened(QWEN, CODET | {"id": "8"}, {**QWEN, "id": "LAST", "problem": "É?"})
    for text, rows in (
        ("BOXED", [0, 4]),
        ("level", []),
        ("last", [4, 5]),
        ("é", [4, 5]),
        ("3", [1, 5]),
    ):
        assert index.holding(text).nonzero()[0].tolist() == rows, text


def test_named_columns_are_used(opened):
    row = {"id": "a", "completion": "x", "mine": "y", "ok": False, "correct": True}
    index = opened(row, completion="mine", correct="ok")
    assert chosen(index, 0)[2:4] == ("y", WRONG)


def test_what_is_read_so_far_grows_and_keeps_its_rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    with path.open("w") as file:
        for n in range(5000):
            row = {"id": f"p{n // 4}", "prompt": f"{n // 4}?", "completion": f"c{n}"}
            file.write(json.dumps(row) + "\n")
    made = list(files.snapshots(path))
    sizes = [len(index) for index in made]
    assert sizes[0] <= 256 and sizes[-1] == 5000
    assert all(b >= 2 * a for a, b in itertools.pairwise(sizes[:-1]))
    for index in made:
        assert index.detail(len(index) - 1).completion == f"c{len(index) - 1}"
        assert index.holding("c7").sum() == sum(f"c{n}".startswith("c7") for n in range(len(index)))


def test_an_error_comes_after_what_could_be_read(tmp_path):
    path = tmp_path / "rows.jsonl"
    good = "".join(json.dumps({"id": "a", "completion": str(n)}) + "\n" for n in range(300))
    path.write_text(good + "{broken\n")
    snapshots = files.snapshots(path)
    assert len(next(snapshots)) == 256
    with pytest.raises(DataError, match="line 301 is not JSON"):
        list(snapshots)


def test_all_rows_before_an_error_are_shown(tmp_path):
    lines = [json.dumps({"id": str(n), "completion": "x"}) + "\n" for n in range(256 * 3)]
    (tmp_path / "rows.jsonl").write_text("".join(lines) + "{broken\n")
    seen = []
    with pytest.raises(DataError, match="line 769 is not JSON"):
        for index in files.snapshots(tmp_path / "rows.jsonl"):
            seen.append(len(index))
    assert seen == [256, 512, 768]


def test_reading_can_be_left_at_any_time(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text((json.dumps({"id": "a", "completion": "x"}) + "\n") * 900)
    snapshots = files.snapshots(path)
    next(snapshots)
    snapshots.close()


ROW = {"id": 1, "prompt": "template", "q": "1+1?", "answer": "so it is 2", "ref": "2",
       "completion": "2", "correct": True}  # fmt: skip


@pytest.mark.parametrize(
    ("named", "asked", "answer", "others"),
    [
        ({}, [("prompt", "template")], "so it is 2", {"q", "ref"}),
        ({"prompt": "q", "gold": "ref"}, [("prompt", "1+1?")], "2", {"prompt", "answer"}),
        ({"prompt": "none", "gold": "none"}, None, None, {"prompt", "q", "answer", "ref"}),
    ],
)
def test_the_named_columns_are_shown_as_prompt_and_gold(opened, named, asked, answer, others):
    detail = opened(ROW, **named).detail(0)
    assert (detail.turns, detail.answer, set(detail.others)) == (asked, answer, others)


def test_a_gold_is_shown_under_every_name_that_tools_use(opened):
    assert opened({"id": 1, "expected_answer": "7", "completion": "7"}).detail(0).answer == "7"


def test_a_gold_that_equals_the_completion_is_shown(opened):
    assert opened({"id": 1, "answer": "7", "completion": "7"}).detail(0).answer == "7"
