"""Completions of what a server alone has: text, to be evaluated and never trained on."""

import json
import runpy
from pathlib import Path

import pyarrow.parquet as pq
import pytest

_server = runpy.run_path(str(Path(__file__).parents[2] / "completions_server.py"))
MODEL = _server["MODEL"]


@pytest.fixture
def server():
    """Of a hosted model: it lists what it has, and takes no field that it does not know."""
    with _server["running"](str, "a-company") as server:
        server.say = lambda question: f"\\boxed{{{sum(map(int, question.rstrip('?').split('+')))}}}"
        yield server


@pytest.fixture
def prompts(rlvr, jsonl, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [{"id": name, "question": f"{name}?", "answer": gold, "verifier": "math"}
            for name, gold in (("1+2", "3"), ("2+2", "4"), ("2+3", "6"))]  # fmt: skip
    assert rlvr("prompts", jsonl(*rows), "--out", "prompts").code == 0
    return "prompts"


@pytest.fixture
def sampled(rlvr, prompts, server):
    def run(*more, options="", out="r", source=prompts):
        words = ["-n", 2, "--max-new-tokens", 64, "--out", out, *more]
        words += ["--engine", f"openai:url={server.url},model={MODEL},retries=0{options}"]
        ran = rlvr("rollout", source, *words)
        return ran, pq.read_table(out) if ran.code == 0 else None

    return run


def test_a_hosted_model_is_asked_by_messages_and_evaluated(sampled, rlvr, server):
    ran, table = sampled("--system", "Be brief.", "--suffix", "?")
    assert ran.code == 0, ran.err
    assert "without token ids, to be scored and evaluated, not trained on" in ran.err
    assert "rollout: 6 completions, 0 cut off at the limit, 0 skipped; " in ran.err
    assert table["completion"].to_pylist() == ["\\boxed{3}"] * 2 + ["\\boxed{4}"] * 2 + [
        "\\boxed{5}"] * 2  # fmt: skip
    for name in ("token_ids", "behaviour_logp", "policy"):
        assert table[name].null_count == 6
    sent = server.seen[0]
    assert [turn["role"] for turn in sent["messages"]] == ["system", "user"]
    asked = {body["messages"][1]["content"] for body in server.seen}
    assert asked == {"1+2??", "2+2??", "2+3??"}
    assert sent.keys() == {"model", "messages", "max_tokens", "temperature", "seed"}
    assert rlvr("score", "r", "--out", "s").code == 0
    assert pq.read_table("s")["reward"].to_pylist() == [1, 1, 1, 1, 0, 0]
    assert json.loads(rlvr("eval-passk", "s", "--json").out)["metrics"]["pass@1"][0] == 2 / 3
    assert rlvr("ucc", "s").code == 0


@pytest.mark.parametrize(
    "words",
    [
        ["logprob", "r"],
        ["logprob", "r", "--model", "builtin"],
        ["train-step", "a"],
        ["train-step", "a", "--model", "builtin", "--off-policy"],
    ],
)
def test_training_on_text_is_refused_in_one_line(sampled, rlvr, refused, words):
    sampled()
    rlvr("score", "r", "--out", "s")
    rlvr("advantage", "s", "--out", "a")
    err = refused(3, *words)
    assert f"`r` holds text without token ids, of `{MODEL}`, which a server alone has" in err
    assert "sample again with --model DIR, the policy's files" in err


def test_what_a_model_thinks_stands_before_what_it_says(sampled, rlvr, server):
    said = {
        "1+2?": {"content": "\\boxed{3}", "reasoning_content": "one and two"},
        "2+2?": {"content": None, "reasoning": "two and"},
        "2+3?": {"content": None, "refusal": "I cannot add."},
    }
    server.say = lambda question: {"role": "assistant", **said[question]}
    server.change = lambda choice, body: (
        choice | ({"finish_reason": "length"} if choice["message"].get("reasoning") else {})
    )
    _, table = sampled()
    assert table["completion"].to_pylist()[::2] == [
        "<think>\none and two\n</think>\n\n\\boxed{3}", "<think>\ntwo and", "I cannot add.",
    ]  # fmt: skip
    assert table["finish_reason"].to_pylist()[::2] == ["stop", "length", "stop"]
    rlvr("score", "r", "--out", "s")
    scores = pq.read_table("s")
    assert scores["reward"].to_pylist()[::2] == [1, 0, 0]
    assert scores["status"].to_pylist()[::2] == ["ok", "no_answer", "no_answer"]


def test_an_end_that_is_not_known_is_counted(sampled, server):
    server.change = lambda choice, body: choice | {"finish_reason": "content_filter"}
    ran, table = sampled()
    assert table["finish_reason"].null_count == 6
    assert "6 completions do not say whether they ended or were cut" in ran.err


def test_a_server_that_does_not_sample_is_noticed(sampled, server):
    ran, _ = sampled()
    assert "warning: the completions of each prompt are equal, at temperature 1" in ran.err
    spoken = iter(range(100))
    server.say = lambda question: f"it is {next(spoken)}"
    ran, _ = sampled(out="r2")
    assert "are equal" not in ran.err


def test_an_answer_without_text_is_no_completion(sampled, server):
    server.change = lambda choice, body: {"index": 0, "finish_reason": "stop"}
    ran, _ = sampled()
    assert ran.code == 1 and "answers with no text" in ran.err


def test_raw_text_is_continued_and_keeps_the_stop_string_that_the_server_tells(sampled, server):
    server.say = lambda text: text + " 4"
    server.change = lambda choice, body: choice | {"stop_reason": "Q:"}
    _, table = sampled("--no-chat", "--stop", "Q:")
    assert {body["prompt"] for body in server.seen} == {"1+2?", "2+2?", "2+3?"}
    assert server.seen[0]["stop"] == ["Q:"]
    assert table["completion"].to_pylist()[0] == "1+2? 4Q:"


def test_raw_text_is_a_users_turn_where_there_is_only_a_chat(sampled, server):
    sampled("--no-chat", options=",api=chat")
    assert [{"role": "user", "content": "1+2?"}] in [body["messages"] for body in server.seen]


def test_fields_are_added_and_left_out(sampled, server):
    sampled(
        options=",body={max_tokens=none,max_completion_tokens=99,seed=none,reasoning={effort=low}}"
    )
    sent = server.seen[0]
    assert (sent["max_completion_tokens"], sent["reasoning"]) == (99, {"effort": "low"})
    assert not {"max_tokens", "seed"} & sent.keys()


def test_a_server_with_defaults_of_its_own_is_told_to_leave_them(sampled, server):
    server.shape = "vllm"
    sampled()
    assert server.seen[0]["top_k"] == -1 and server.seen[0]["repetition_penalty"] == 1.0


def test_it_resumes_without_the_model_and_from_another_server(sampled, rlvr, server, prompts):
    ran, table = sampled("--prompts-per-part", 1)
    Path("r/part-00001.parquet").unlink()
    server.seen.clear()
    ran = rlvr("rollout", prompts, "--engine", f"openai:url={server.url}", "--out", "r")
    assert ran.code == 0, ran.err
    assert len(server.seen) == 2 and server.seen[0]["model"] == MODEL
    assert pq.read_table("r").equals(table)


@pytest.mark.parametrize("models", [None, 500])
def test_a_server_that_cannot_list_its_models_is_asked_for_the_one_that_is_named(
    sampled, server, models
):
    server.models = models
    ran, table = sampled()
    assert ran.code == 0 and table.num_rows == 6, ran.err


@pytest.mark.parametrize(
    ("more", "options", "said"),
    [
        (
            ["--chat-template-kwargs", "enable_thinking=false"],
            "",
            "body={chat_template_kwargs={ena",
        ),
        (["--system", "x", "--no-chat"], "", "put it before the text with --prefix"),
        (["--model", "builtin"], ",api=chat", "leave --model out, and name what the server calls"),
        ([], ",body={n=2}", "body cannot set `n`"),
        ([], ",in_flight=0", "in_flight, timeout_s and connect_s must be above 0"),
        (["--memory-model", "auto"], "", "--engine openai samples from one model, and DLC"),
    ],
)
def test_what_makes_no_sense_is_refused(sampled, more, options, said):
    ran, _ = sampled(*more, options=options)
    assert ran.code == 2 and ran.err.count("error:") == 1 and said in ran.err, ran.err


def test_without_a_url_it_is_that_of_the_environment(rlvr, refused, prompts, server, monkeypatch):
    words = ["rollout", prompts, "-n", 1, "--out", "r", "--engine", f"openai:model={MODEL}"]
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert "`openai` has no URL of a server" in refused(2, *words)
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    assert rlvr(*words).code == 0


def test_a_run_of_train_does_not_sample_from_servers(refused, server, tmp_path):
    words = ["train", "--engine", f"openai:url={server.url}", "--steps", 1]
    err = refused(2, *words, "--out", tmp_path / "run")
    assert "--engine openai samples from servers, and `train` from the weights" in err
    assert not (tmp_path / "run").exists()


def test_a_dry_run_shows_what_is_sent_and_sends_nothing(rlvr, server, prompts):
    spec = f"openai:url={server.url},model={MODEL}"
    ran = rlvr("rollout", prompts, "--engine", spec, "--prefix", "", "--dry-run", "--out", "r")
    assert ran.code == 0 and '"content": "1+2?"' in ran.err
    assert not server.seen and not Path("r").exists()
