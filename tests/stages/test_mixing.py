"""Several sets of prompts in one directory, in given shares, told apart by source."""

import json
from collections import Counter

import pyarrow.parquet as pq
import pytest


def rows_of(path):
    return pq.read_table(path).to_pylist()


@pytest.fixture
def source(tmp_path):
    """Writes a JSON lines file of n prompts with these columns; its path."""

    def write(name, n, **columns):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        rows = [{"prompt": f"{name} {i}?", "answer": str(i), **columns} for i in range(n)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return write


@pytest.fixture
def mixed(rlvr, tmp_path):
    """Makes prompts of several sources; the rows, and the run."""

    def mix(*words, out="mixed"):
        ran = rlvr("prompts", *words, "--out", tmp_path / out, "--json")
        assert ran.code == 0, ran.err
        return rows_of(tmp_path / out), ran

    return mix


def test_each_set_keeps_its_verifiers_and_sources(rlvr, tmp_path, source, mixed):
    sums = source("sums.jsonl", 3, verifier="number", data_source="made up")
    rlvr("prompts", source("words.jsonl", 2), "--verifier", "math", "--out", tmp_path / "words")
    rows, ran = mixed(sums, tmp_path / "words", "task:expression")
    counts = Counter((row["source"], row["verifier"]) for row in rows)
    assert counts == {
        ("made up", "number"): 3, ("words", "math"): 2, ("expression-train", "expression"): 56,
    }  # fmt: skip
    assert json.loads(ran.out)["mixed"]["words"] == {"prompts": 2, "left_out": 0}


@pytest.mark.parametrize(
    ("sizes", "weights", "taken"),
    [
        ((8, 8, 8), "2,1,1", (8, 4, 4)),
        ((3, 8, 8), "2,1,1", (3, 1, 1)),
        ((8, 4, 1), "1,1,1", (1, 1, 1)),
        ((10, 10, 10), "0.3,0.2,0.1", (10, 6, 3)),
        ((8, 4, 1), None, (8, 4, 1)),
    ],
)
def test_weights_are_the_shares_of_the_sets(source, mixed, sizes, weights, taken):
    paths = [source(f"{name}.jsonl", n) for name, n in zip("abc", sizes, strict=True)]
    rows, ran = mixed(*paths, *(["--weights", weights] if weights else []))
    counts = Counter(row["source"] for row in rows)
    assert tuple(counts[name] for name in "abc") == taken
    left_out = [found["left_out"] for found in json.loads(ran.out)["mixed"].values()]
    assert left_out == [n - t for n, t in zip(sizes, taken, strict=True)]
    ids = [row["prompt_id"] for row in rows]
    assert ids == sorted(ids)  # in the order of the sources and of their rows


def test_which_prompts_are_taken_depends_on_their_ids_alone(source, mixed):
    a, b = source("a.jsonl", 20), source("b.jsonl", 5)
    first, _ = mixed(a, b, "--weights", "1,1", out="1")
    second, _ = mixed(b, a, "--weights", "2,2", out="2")
    assert {row["prompt_id"] for row in first} == {row["prompt_id"] for row in second}
    assert {r["prompt_id"] for r in first if r["source"] == "a"} != {
        f"a-{i:06d}" for i in range(1, 6)
    }


def test_sets_of_one_name_are_told_apart(source, mixed):
    paths = [source("gsm8k/train.jsonl", 2), source("math/train.jsonl", 1)]
    rows, _ = mixed(*paths)
    assert [(row["prompt_id"], row["source"]) for row in rows] == [
        ("gsm8k/train:train-000001", "gsm8k/train"),
        ("gsm8k/train:train-000002", "gsm8k/train"),
        ("math/train:train-000001", "math/train"),
    ]


def test_a_mix_is_the_same_again_and_another_one_is_refused(rlvr, refused, source, tmp_path, mixed):
    words = [source("a.jsonl", 4), source("b.jsonl", 4)]
    mixed(*words, "--weights", "1,2")
    ran = rlvr("prompts", *words, "--weights", "1,2", "--out", tmp_path / "mixed")
    assert "nothing left to do" in ran.err
    err = refused(2, "prompts", *words, "--weights", "1,3", "--out", tmp_path / "mixed")
    assert "weights was [1.0, 2.0], is [1.0, 3.0]" in err


@pytest.mark.parametrize(
    ("names", "weights", "message"),
    [
        ("aa", None, "is given 2 times"),
        ("ab", "1", "--weights has 1 numbers, there are 2 sources"),
        ("ab", "1,0", "--weights is 1,0"),
        ("ab", "1,x", "--weights is `1,x`"),
        ("a", "1", "name several sources"),
    ],
)
def test_weights_and_sources_must_fit(refused, source, tmp_path, names, weights, message):
    paths = [source(f"{name}.jsonl", 2) for name in names]
    words = ("--weights", weights) if weights else ()
    assert message in refused(2, "prompts", *paths, *words, "--out", tmp_path / "made")


def test_a_limit_is_of_each_set(source, mixed):
    rows, _ = mixed(source("a.jsonl", 4), source("b.jsonl", 4), "--limit", 2)
    assert Counter(row["source"] for row in rows) == {"a": 2, "b": 2}
