"""Scoring and training with a judge, from the command line, with a server on the loopback."""

import json
import os
import signal
import subprocess
import sys
import time

import pyarrow.parquet as pq
import pytest

from rlvr_cli.stages import golds, score as score_stage
from rlvr_cli.storage.shards import Shards

KEY = "sk-a-secret-of-this-test"


@pytest.fixture
def imported(rlvr, jsonl, tmp_path, monkeypatch):
    """Completions of three prompts, of which the last one's answers have no gold."""
    monkeypatch.chdir(tmp_path)
    rows = [
        {"id": name, "prompt": f"What is {name}?", "answer": gold, "completion": text}
        for name, gold in (("3+4", "7"), ("4+4", "8"))
        for text in (f"it is {gold}", "it is 6", "<think>it is 7")
    ]
    assert rlvr("import", jsonl(*rows), "--out", "i").code == 0
    return tmp_path


def spec(chat, options=""):
    return f"judge:model={chat.model},url={chat.url},retries=0{options and ','}{options}"


def score(rlvr, spec, *more, out="s"):
    return rlvr("score", "i/rollouts", "--verifier", spec, "--out", out, "--cache", "c", *more)


def test_scores_hold_the_rewards_of_the_judge_and_its_texts(imported, rlvr, chat):
    ran = score(rlvr, spec(chat))
    assert ran.code == 0, ran.err
    table = pq.read_table("s")
    assert table["reward"].to_pylist() == [1, 0, 0] * 2
    assert table["status"].to_pylist() == ["ok", "ok", "no_answer"] * 2
    assert table["reason"].to_pylist()[:2] == [
        "It says 7.\n\nVerdict: yes", "It says 6.\n\nVerdict: no",
    ]  # fmt: skip
    assert "score: `judge` took 4 requests, of which 0 were retries, " in ran.err
    assert len(chat.questions) == 4


def test_a_judge_may_move_and_a_finished_directory_needs_none(imported, rlvr, chat):
    assert score(rlvr, spec(chat)).code == 0
    files = {path: path.read_bytes() for path in (imported / "s").glob("*.*")}
    for elsewhere in ("url=http://127.0.0.1:9/v1", "url=http://127.0.0.1:9/v1,in_flight=2"):
        assert score(rlvr, f"judge:model={chat.model},{elsewhere}").code == 0
    assert {path: path.read_bytes() for path in (imported / "s").glob("*.*")} == files
    manifest = json.loads((imported / "s" / "_manifest.json").read_text())
    assert "127.0.0.1" not in manifest["params"]["verifier"]
    assert f"judge:model={chat.model},rubric=," in manifest["params"]["verifier"]


def test_another_rubric_is_another_verifier(imported, rlvr, chat, refused):
    (imported / "rubric.txt").write_text("Is {completion} right?")
    chat.say = lambda question: "Verdict: yes"
    assert score(rlvr, spec(chat, "rubric=rubric.txt")).code == 0
    (imported / "rubric.txt").write_text("Is {completion} really right?")
    words = ["score", "i/rollouts", "--verifier", spec(chat, "rubric=rubric.txt"), "--out", "s"]
    assert "was made with other parameters: verifier was judge:" in refused(2, *words)


def test_a_judge_that_is_down_is_a_fault_and_the_same_command_asks_again(imported, rlvr, chat):
    chat.say = lambda question: "Verdict: yes"
    assert score(rlvr, spec(chat), out="before").code == 0
    chat.always = (503, {}, {"error": {"message": "out of memory"}})
    (imported / "c").unlink()
    ran = score(rlvr, spec(chat))
    assert ran.code == 4 and pq.read_table("s")["reward"].to_pylist() == [None, None, 0] * 2
    assert "failed first at sample 0 of prompt `3+4`: error: http://127.0.0.1" in ran.err
    assert "503 Service Unavailable: out of memory" in ran.err
    chat.always, chat.say = None, type(chat)().say
    ran = score(rlvr, spec(chat))
    assert ran.code == 0, ran.err
    assert pq.read_table("s")["reward"].to_pylist() == [1, 0, 0] * 2


@pytest.mark.parametrize("command", ["score", "train"])
def test_a_judge_that_cannot_be_asked_is_refused_by_a_dry_run_and_before_any_work(
    imported, refused, rlvr, chat, command
):
    if command == "score":
        words = ["score", "i/rollouts"]
    else:
        words = ["train", "--prompts", "i/prompts", "--model=builtin", "--eval-every=0",
                 "--prompts-per-step=2", "--steps=1"]  # fmt: skip
    for more in ([], ["--dry-run"]):
        given = [*words, "--out", "out", *more, "--verifier"]
        said = refused(2, *given, f"judge:model=another,url={chat.url},retries=0")
        assert "the judge `another` is not available" in said and "404" in said
        assert f"`judge:model={chat.model}`" in said
        said = refused(1, *given, "judge:model=m,url=http://127.0.0.1:9/v1,retries=0")
        assert "http://127.0.0.1:9: Connection refused" in said
    assert chat.questions == []


def test_prompts_alone_do_not_say_where_completions_are_sent(
    imported, rlvr, refused, chat, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    words = ["prompts", "i/prompts", "--verifier", spec(chat), "--out", "p"]
    assert rlvr(*words).code == 0
    assert rlvr("rollout", "p", "-n1", "--max-new-tokens=4", "--model=builtin").code == 0
    said = refused(2, "score", "rollouts")
    assert f"sends completions to http://127.0.0.1:{chat.server_port}" in said
    assert chat.seen == []
    monkeypatch.setenv("OPENAI_BASE_URL", chat.url)
    assert rlvr("score", "rollouts").code == 0


def test_prompts_keep_the_text_of_a_rubrics_file(imported, rlvr, chat):
    (imported / "rubric.txt").write_text('Is "{completion}" right, +1?\nSay yes or no.')
    words = ["prompts", "i/prompts", "--verifier", spec(chat, "rubric=rubric.txt"), "--out", "p"]
    assert rlvr(*words).code == 0
    (imported / "rubric.txt").unlink()
    (verifier,) = set(Shards.open(imported / "p").table()["verifier"].to_pylist())
    assert 'rubric="Is \\"{completion}\\" right, +1?\\nSay yes or no."' in verifier


def test_a_rubric_asks_for_columns_that_prompts_have(imported, rlvr, refused, chat):
    rubric = 'rubric="Is {completion} {tone}?"'
    words = ["score", "i/rollouts", "--out", "s", "--verifier", spec(chat, rubric)]
    said = refused(3, *words)
    assert "has no column `tone`, which `judge` takes" in said
    assert "or take one of prompt, completion, answer" in said


def test_golds_are_examined_without_asking(chat):
    rubrics = {"a": [{"criterion": "x", "points": 1}], "b": "kind"}
    rows = [
        {
            "prompt_id": name,
            "verifier": spec(chat, "rubric_column=r"),
            "answer": "",
            "extra": {"r": r},
        }
        for name, r in rubrics.items()
    ]
    with score_stage.scorer(workers=1, use_cache=False) as scorer:
        assert golds.unreadable(rows, scorer) == {
            "b": "`r` of the prompt: it is text, a list of criteria was expected"
        }
        equal = [rows[0] | {"verifier": spec(chat)}]
        assert golds.unreadable(equal, scorer) == {"a": "it is empty"}
    assert chat.seen == []


def test_a_judge_is_a_part_of_a_sum(imported, rlvr, chat):
    ran = score(rlvr, f"0.5*number+0.5*{spec(chat, 'rubric=score')}")
    assert ran.code == 0, ran.err
    table = pq.read_table("s")
    assert table["reward_judge"].to_pylist() == pytest.approx([0.3, 0.3, 0.0] * 2)
    assert table["reward"].to_pylist()[:2] == pytest.approx([0.65, 0.15])
    assert table["reason"].to_pylist()[0] == "judge: It is counted.\n\n**Score: 3/10**"


def test_a_completion_without_a_gold_is_judged_where_the_rubric_needs_none(
    rlvr, jsonl, chat, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    rows = [{"id": "a", "prompt": "Write.", "completion": "one two three", "correct": True}]
    assert rlvr("import", jsonl(*rows), "--out", "i").code == 0
    assert score(rlvr, spec(chat, "rubric=score")).code == 0
    assert pq.read_table("s")["reward"].to_pylist() == [0.3]
    assert score(rlvr, spec(chat), "--max-error-rate=1", out="t").code == 0
    assert pq.read_table("t")["status"].to_pylist() == ["bad_gold"]


def train(chat, *more, options=""):
    return ["train", "--prompts", "i/prompts", "--model=builtin", "--eval-every=0", "-n2",
            "--prompts-per-step=2", "--steps=2", "--max-new-tokens=8", "--save-every=1",
            "--out", "run", "--verifier", spec(chat, "rubric=score,unfinished=true" + options),
            *more]  # fmt: skip


@pytest.mark.slow
def test_a_run_goes_on_after_its_judge_was_down_and_after_it_moved(
    imported, rlvr, chat, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    grade, first = chat.say, imported / "run" / "steps" / "000001"

    def breaks(question):
        if (first / "update" / "_manifest.json").exists():
            return {"choices": "out of order"}
        return grade(question)

    chat.say = breaks
    ran = rlvr(*train(chat))
    assert ran.code == 4 and "answers with no completion of a chat" in ran.err, ran.err
    before = (first / "scores" / "_manifest.json").read_bytes()
    chat.say = grade
    moved = [word.replace("127.0.0.1", "localhost") for word in train(chat, options=",in_flight=2")]
    ran = rlvr(*moved)
    assert ran.code == 0, ran.err
    assert "train: `judge` took" in ran.err
    assert (first / "scores" / "_manifest.json").read_bytes() == before
    for step in ("000001", "000002"):
        scores = Shards.open(imported / "run" / "steps" / step / "scores").table()
        assert {*scores["status"].to_pylist()} <= {"ok", "no_answer"}
    away = [word.replace(f":{chat.server_port}", ":9") for word in moved]
    assert rlvr(*away).code == 0, "a run that is complete asks nobody"
    assert KEY not in "".join(
        path.read_text(errors="replace") for path in imported.rglob("*") if path.is_file()
    )


@pytest.mark.slow
def test_ctrl_c_ends_a_score_that_waits_for_its_judge(imported, chat, tmp_path):
    code = "from rlvr_cli.cli.app import main; main()"
    words = ["score", "i/rollouts", "--verifier", spec(chat), "--out", "s", "--cache", "c"]
    chat.say = lambda question: "Verdict: yes"
    started, chat.latency_s = chat.seen, 600.0
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words], cwd=imported, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    while not started and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 75, said
    chat.latency_s = 0.0


@pytest.fixture
def small(imported, monkeypatch):
    """A run of one step on the imported prompts, whose configuration names a judge."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OTHER_SECRET", "another secret")

    def write(verifier):
        (imported / "run.toml").write_text(f"[train]\nverifier = '{verifier}'\n")
        return ["train", "--config", "run.toml", "--prompts", "i/prompts", "--model=builtin", "-n2",
                "--steps=1", "--prompts-per-step=2", "--eval-every=0", "--out", "run"]  # fmt: skip

    return write


def test_a_configuration_alone_does_not_say_where_completions_are_sent(small, chat, rlvr, refused):
    words = small(spec(chat))
    host = f"http://127.0.0.1:{chat.server_port}"
    for more in ([], ["--dry-run"]):
        said = refused(2, *words, *more)
        assert f"the configuration sends completions to {host}, which this command does" in said
        again = " ".join([*words, *more, "--trust-host", host])
        assert f"hint: if you trust it: `rlvr {again}`" in said
    assert chat.seen == []
    assert rlvr(*words, "--dry-run", "--trust-host", f"{host}/v1").code == 0
    assert rlvr(*words, "--dry-run", "--verifier", spec(chat)).code == 0
    assert "`127.0.0.1` is no host" in refused(2, *words, "--trust-host", "127.0.0.1")


@pytest.mark.parametrize(
    "nested",
    ["{}", "0.5*number+0.5*{}", 'any:of=[number,"{}"]', 'all:of=["{}"],golds=each'],
)
def test_neither_does_a_verifier_that_stands_within_another(
    imported, chat, jsonl, rlvr, refused, nested
):
    text = nested.format(f"judge:model={chat.model},url={chat.url}")
    row = {"id": "a", "prompt": "5=", "answer": "5", "completion": "5", "verifier": text}
    assert rlvr("prompts", jsonl(row, name="p.jsonl"), "--out", "p").code == 0
    assert (
        rlvr("rollout", "p", "-n1", "--max-new-tokens=4", "--model=builtin", "--out", "r").code == 0
    )
    assert rlvr("doctor", "p").code in (0, 3)
    for words in (
        ["score", "r"],
        ["score", "r", "--dry-run"],
        ["train", "--prompts", "p", "--model=builtin", "--eval-every=0", "--prompts-per-step=1"],
    ):
        assert "sends completions to http://127.0.0.1" in refused(2, *words)
    assert chat.seen == []


def test_nothing_read_says_which_secret_a_judge_is_sent(small, chat, rlvr, refused):
    words = small(spec(chat, "key_variable=OTHER_SECRET"))
    host = f"http://127.0.0.1:{chat.server_port}"
    said = refused(2, *words, "--trust-host", host)
    assert f"sends {host} what the variable OTHER_SECRET holds" in said
    assert chat.seen == []


def test_nothing_read_says_which_file_a_judge_is_shown(small, imported, chat, rlvr, refused):
    (imported / "private.txt").write_text("{completion}")
    words = small(spec(chat, "rubric=private.txt"))
    host = f"http://127.0.0.1:{chat.server_port}"
    said = refused(2, *words, "--trust-host", host)
    assert "`private.txt` is a file that the configuration of the run names" in said
    assert "not read" in said and chat.seen == []
    again = [*words, "--trust-host", host, "--trust-file", "private.txt", "--dry-run"]
    assert rlvr(*again).code == 0
