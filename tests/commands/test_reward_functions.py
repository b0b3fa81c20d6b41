"""Reward functions as they are written for other libraries, from prompts to training."""

import json

import pyarrow.parquet as pq
import pytest

from rlvr_cli.storage.shards import Shards

FILE = '''
import asyncio
import numpy as np
from dataclasses import dataclass

def shorter(completions, **kwargs):
    """Relative to the longest of the group, so that it needs all of it."""
    longest = max(map(len, completions))
    return [1 - len(c) / (longest + 1) for c in completions]

def one_too_few(completions, **kwargs):
    return [1.0] * (len(completions) - 1)

def only_b(prompts, completions, solution, **kwargs):
    return [None if s == "5" else np.bool_(s in c) for s, c in zip(solution, completions)]

async def later(completions, answer, **kwargs):
    await asyncio.sleep(0)
    return [float(c.endswith(a)) for c, a in zip(completions, answer)]

def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    right = solution_str.endswith(ground_truth)
    return {"score": 1.0 if right else -1.0, "acc": right, "pred": data_source}

@dataclass
class Result:
    score: float

class Ends:
    def __call__(self, tokenized_prediction, prediction, label, query=None):
        return Result(float(prediction.endswith(label)))

def fails(completion, answer):
    if "7" in completion:
        raise ValueError("no sevens")
    return completion.endswith(answer)

def needs_level(completions, level, **kwargs):
    return [1.0] * len(completions)

def needs_ids(completion_ids, **kwargs):
    return [1.0] * len(completion_ids)

def unknown(this, that):
    return 1.0
'''
ROWS = [("a", "5", "is 5"), ("a", "5", "it is 6"), ("b", "7", "7"), ("b", "7", "<think>7")]


@pytest.fixture
def here(tmp_path, monkeypatch, rlvr, jsonl):
    """A folder with rewards.py, and completions of two prompts that were imported."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rewards.py").write_text(FILE)
    rows = [{"id": i, "prompt": "q", "answer": a, "completion": c} for i, a, c in ROWS]
    assert rlvr("import", jsonl(*rows), "--out", "i").code == 0
    return tmp_path


def scores(rlvr, spec, *more, out="s"):
    ran = rlvr("score", "i/rollouts", "--verifier", spec, "--workers=1", "--no-cache",
               "--max-error-rate=1", "--out", out, *more)  # fmt: skip
    assert ran.code == 0, ran.err
    return ran, pq.read_table(out)


@pytest.mark.parametrize(
    ("spec", "rewards"),
    [
        ("rewards.py:shorter", [1 - 4 / 8, 1 - 7 / 8, 1 - 1 / 9, 1 - 8 / 9]),
        ("rewards.py:later", [1, 0, 1, 1]),
        ("1E-3*rewards.py:later", [0.001, 0, 0.001, 0.001]),
        ("rewards.py:compute_score,range=[-1,1]", [1, -1, 1, 1]),
        ("rewards.py:Ends", [1, 0, 1, 1]),
        ("rewards.py:only_b", [None, None, 1, 1]),
        ("rewards.py:only_b+0.5*rewards.py:later", [0.5, 0, 1.5, 1.5]),
    ],
)
def test_functions_of_other_libraries_run_as_they_are(here, rlvr, spec, rewards):
    _, table = scores(rlvr, spec)
    assert table["reward"].to_pylist() == pytest.approx(rewards)
    assert set(table["status"].to_pylist()) <= {"ok", "skipped"}


def test_a_row_that_every_function_skips_has_no_reward_and_is_no_fault(here, rlvr):
    _, table = scores(rlvr, "rewards.py:only_b", "--max-error-rate=0")
    assert table["status"].to_pylist() == ["skipped", "skipped", "ok", "ok"]
    assert table["correct"].to_pylist() == [None, None, True, True]


def test_a_batch_of_another_length_is_an_error_of_each_of_its_rows(here, rlvr):
    ran, table = scores(rlvr, "rewards.py:one_too_few")
    assert table["status"].to_pylist() == ["error"] * 4
    assert "it returned 1 rewards for 2 completions" in ran.err


def test_what_a_function_says_of_a_group_is_remembered(here, rlvr):
    words = ["score", "i/rollouts", "--verifier", "rewards.py:shorter", "--cache", "c"]
    assert rlvr(*words, "--out", "one").code == 0
    text = (here / "rewards.py").read_text()
    assert rlvr(*words, "--out", "two").code == 0
    assert pq.read_table("one").equals(pq.read_table("two"))
    (here / "rewards.py").write_text(text.replace("1 - len(c)", "0 * len(c)"))
    assert rlvr(*words, "--out", "three").code == 0
    assert pq.read_table("three")["reward"].to_pylist() == [0, 0, 0, 0]


def test_the_first_failure_of_a_function_is_told_once_with_its_row_and_line(here, rlvr):
    line = FILE.splitlines().index('        raise ValueError("no sevens")') + 1
    ran, table = scores(rlvr, "rewards.py:fails")
    assert table["status"].to_pylist() == ["ok", "ok", "error", "error"]
    told = [text for text in ran.err.splitlines() if "failed first" in text]
    assert told == [
        "score: `fails` failed first at sample 0 of prompt `b`: error: ValueError: no sevens "
        f"(rewards.py line {line})"
    ]


@pytest.mark.parametrize(
    ("spec", "code", "words"),
    [
        ("rewards.py:unknown", 2, "has no signature that is known: it takes (this, that)"),
        ("rewards.py:needs_level", 3, "prompt `a` has no column `level`, which `needs_level`"),
        ("rewards.py:needs_ids", 3, "holds text without token ids"),
        ("rewards.py:nothing", 2, "hint: it has `shorter`, "),
        ("rewards.py:compute_score,range=[1,-1]", 2, "the range must rise"),
    ],
)
@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_what_cannot_be_called_is_refused_before_anything_is_scored(
    here, refused, spec, code, words, more
):
    err = refused(code, "score", "i/rollouts", "--verifier", spec, "--out", "s", *more)
    assert words in err and not (here / "s").exists()


def test_thoughts_hold_no_answer_but_functions_and_forms_see_them(here, rlvr):
    assert scores(rlvr, "number", out="n")[1]["status"].to_pylist()[3] == "no_answer"
    assert scores(rlvr, "number", "--answer-from=none", out="w")[1]["reward"].to_pylist()[3] == 1
    assert scores(rlvr, "rewards.py:Ends", out="f")[1]["reward"].to_pylist()[3] == 1
    assert Shards.open(here / "n").params["answer_from"] == "<think>...</think>"
    assert "answer_from" not in Shards.open(here / "w").params


def test_a_directory_that_was_begun_keeps_where_its_answers_begin(here, rlvr, refused):
    scores(rlvr, "number", "--answer-from=</reasoning>")
    assert "nothing left to do" in rlvr("score", "i/rollouts", "--out", "s").err
    err = refused(2, "score", "i/rollouts", "--out", "s", "--answer-from=none")
    assert "answer_from was </reasoning>" in err


@pytest.fixture
def questions(jsonl):
    rows = [("a", "2+3=", "5"), ("b", "3+4=", "7")]
    return jsonl(*({"id": i, "prompt": p, "answer": a} for i, p, a in rows), name="q.jsonl")


SMALL = ["--steps=1", "--prompts-per-step=2", "-n4", "--max-new-tokens=4", "--eval-every=0"]


def test_prompts_keep_a_function_with_its_content(here, rlvr, refused, questions, monkeypatch):
    words = ["prompts", questions, "--verifier", "0.9*rewards.py:Ends+0.1*format", "--out", "p"]
    assert rlvr(*words).code == 0
    (stored,) = set(Shards.open(here / "p").table()["verifier"].to_pylist())
    assert "custom:path=rewards.py,function=Ends" in stored and ",sha256=" in stored
    assert Shards.open(here / "p").params["verifier"] == stored
    assert (
        rlvr("rollout", "p", "--model=builtin", "-n2", "--max-new-tokens=4", "--out", "r").code == 0
    )
    train = ["train", "--model=builtin", "--prompts", "p", *SMALL, "--out", "t", "--dry-run"]
    assert "is code that the `verifier` column of `p` names" in refused(2, *train)
    assert rlvr(*train, "--trust-file", "rewards.py").code == 0
    (here / "moved").mkdir()
    (here / "rewards.py").rename(here / "moved/rewards.py")
    monkeypatch.chdir(here / "moved")
    score = ["score", here / "r", "--out", here / "s", "--trust-file", "rewards.py"]
    assert rlvr(*score).code == 0
    (here / "moved/rewards.py").write_text(FILE + "# other\n")
    err = refused(3, *score[:-3], here / "again", *score[-2:])
    assert "`rewards.py` has changed: it is sha256-" in err
    monkeypatch.chdir(here)
    assert "has changed" in refused(3, *train, "--trust-file", "moved/rewards.py")


def test_prompts_without_a_verifier_are_refused_before_a_model_is_loaded(
    here, rlvr, refused, questions
):
    assert rlvr("prompts", questions, "--out", "p").code == 0
    train = ["train", "--model=nowhere-at-all", "--prompts", "p", *SMALL, "--out", "t"]
    assert "`nowhere-at-all`" in refused(3, *train, "--verifier", "number", "--dry-run")
    train[1] = "--model=builtin"
    for more in ([], ["--dry-run"]):
        err = refused(3, *train, *more)
        assert "prompt `a` names no verifier, as do 2 of 2" in err
    assert not (here / "t").exists()
    ran = rlvr("rollout", "p", "--model=builtin", "-n2", "--max-new-tokens=4", "--out", "r")
    assert ran.code == 0 and "2 of 2 prompts name no verifier" in ran.err
    assert "names no verifier" in refused(3, "score", "r", "--out", "s")
    assert "executes what a model wrote" in refused(2, *train, "--verifier", "code", "--dry-run")


def test_a_run_verifies_with_a_function_and_is_resumed_with_it_alone(
    here, rlvr, refused, questions
):
    assert rlvr("prompts", questions, "--verifier", "number", "--out", "p").code == 0
    train = [
        "train",
        "--model=builtin",
        "--prompts",
        "p",
        *SMALL,
        "--out",
        "t",
        "--max-error-rate=1",
    ]
    ran = rlvr(*train, "--verifier", "rewards.py:shorter")
    assert ran.code == 0, ran.err
    stored = Shards.open(here / "t/steps/000001/scores").params
    assert stored["verifier"].startswith("custom:path=rewards.py,function=shorter")
    assert "rewards.py" in json.loads((here / "t/inputs.json").read_text())
    assert 'verifier = "rewards.py:shorter"' in (here / "t/config.toml").read_text()
    more = ["train", "--out", "t", "--steps=2"]
    assert "names, and this command does not" in refused(2, *more)
    assert "verifier was" in refused(2, *more, "--verifier", "number")
    (here / "rewards.py").write_text(FILE + "# other\n")
    assert "rewards.py changed" in refused(2, *more, "--trust-file", "rewards.py")
    (here / "rewards.py").write_text(FILE)
    ran = rlvr(*more, "--trust-file", "rewards.py")
    assert ran.code == 0, ran.err


def test_groups_with_one_reward_or_none_do_not_end_a_run(here, rlvr, refused, questions):
    text = """
calls = []
def verify(completion, answer, extra):
    import pathlib
    seen = pathlib.Path(__file__).with_name("seen-" + answer)
    if answer == "7" or seen.exists():
        raise ValueError("broken")
    seen.touch()
    return 1.0
"""
    (here / "rare.py").write_text(text)
    assert rlvr("prompts", questions, "--out", "p").code == 0
    train = [
        "train",
        "--model=builtin",
        "--prompts",
        "p",
        *SMALL,
        "--out",
        "t",
        "--verifier",
        "rare.py:verify",
    ]
    assert "the verifier failed on" in refused(4, *train, "--max-error-rate=0.5")
    ran = rlvr(*train[:-4], "--out", "u", *train[-2:], "--max-error-rate=1")
    assert ran.code == 0, ran.err
    assert "`verify` failed first at" in ran.err


def test_draws_of_a_run_are_verified_as_its_steps_are(here, rlvr, questions):
    rows = [{"id": f"q{n}", "prompt": f"{n}+1=", "answer": str(n + 1)} for n in range(4)]
    (here / "many.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert rlvr("prompts", "many.jsonl", "--out", "p").code == 0
    train = ["train", "--model=builtin", "--prompts", "p", *SMALL, "--max-draws=2", "--out", "t"]
    ran = rlvr(*train, "--verifier", "rewards.py:shorter")
    assert ran.code == 0, ran.err
    step = here / "t/steps/000001"
    spec = Shards.open(step / "scores").params["verifier"]
    assert Shards.open(step / "rollouts/_draws/0/scores").params["verifier"] == spec
    assert Shards.open(step / "rollouts").params["verifier"] == spec


def test_a_function_imports_what_lies_beside_it_and_no_verdict_outlives_that(here, rlvr, questions):
    (here / "rewards_of_helper.py").write_text(
        "from helper_beside import K\ndef f(completion, answer, extra): return K\n"
    )
    assert rlvr("prompts", questions, "--verifier", "number", "--out", "p").code == 0
    words = ["rollout", "p", "--model=builtin", "-n2", "--max-new-tokens=4", "--out", "r"]
    assert rlvr(*words).code == 0
    for value in (0.25, 0.75):
        (here / "helper_beside.py").write_text(f"K = {value}\n" + "#" * int(100 * value))
        out = here / f"s{value}"
        ran = rlvr("score", "r", "--verifier", "rewards_of_helper.py:f", "--out", out)
        assert ran.code == 0 and Shards.open(out).summary["reward"] == value


def test_a_run_that_the_verifier_stopped_goes_on_once_it_works(here, rlvr, refused, questions):
    text = """
from pathlib import Path
def f(completion, answer, extra):
    if not Path(__file__).with_name("up").exists():
        raise ConnectionError("the judge is down")
    return 1.0
"""
    (here / "judged.py").write_text(text)
    assert rlvr("prompts", questions, "--out", "p").code == 0
    train = ["train", "--model=builtin", "--prompts", "p", *SMALL, "--out", "t"]
    train += ["--verifier", "judged.py:f"]
    assert "the same command asks it again" in refused(4, *train)
    (here / "up").touch()
    ran = rlvr(*train)
    assert ran.code == 0, ran.err
    assert Shards.open(here / "t/steps/000001/scores").summary["missing"] == 0


def test_a_run_that_learned_nothing_says_so_at_its_end(here, rlvr, questions):
    (here / "silent.py").write_text(
        "def f(completions, **columns): return [None] * len(completions)\n"
    )
    assert rlvr("prompts", questions, "--out", "p").code == 0
    train = ["train", "--model=builtin", "--prompts", "p", *SMALL, "--out", "t"]
    ran = rlvr(*train, "--verifier", "silent.py:f")
    assert ran.code == 0 and "warning: no completion had a reward to learn from" in ran.err
