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
    def run(*more, options="", retries=0, out="r", source=prompts):
        words = ["-n", 2, "--max-new-tokens", 64, "--out", out, *more]
        words += ["--engine", f"openai:url={server.url},model={MODEL},retries={retries}{options}"]
        ran = rlvr("rollout", source, *words)
        return ran, pq.read_table(out) if ran.code == 0 else None

    return run


def test_a_hosted_model_is_asked_by_messages_and_evaluated(sampled, rlvr, server):
    ran, table = sampled("--system", "Be brief.", "--suffix", "?")
    assert ran.code == 0, ran.err
    assert "without token ids, which can be scored and evaluated, but not trained on" in ran.err
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
    assert f"`r` holds text without token ids, of `{MODEL}`, which only a server has" in err
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


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([{"type": "thinking", "thinking": [{"type": "text", "text": "one and two"}]},
          {"type": "text", "text": "3"}], "<think>\none and two\n</think>\n\n3"),
        ([{"type": "text", "text": None}, "a", {"type": "text", "text": "b"}], "ab"),
        ([{"type": "refusal", "refusal": "No."}], "No."),
        ("cut \ud83d", "cut \ufffd"),
        ("whole \ud83d\ude00", "whole \U0001f600"),
    ],
)  # fmt: skip
def test_contents_of_any_form_become_text(sampled, server, content, said):
    server.say = lambda question: {"role": "assistant", "content": content}
    ran, table = sampled()
    assert ran.code == 0 and set(table["completion"].to_pylist()) == {said}, ran.err


@pytest.mark.parametrize("content", [{"answer": 3}, 3, 0, True])
def test_contents_that_are_no_text_are_not_read_as_one(sampled, server, content):
    server.say = lambda question: {"role": "assistant", "content": content}
    ran, _ = sampled()
    assert ran.code == 1 and "answers with no text" in ran.err
    assert "hint: check url=, which ends like http://localhost:8000/v1" in ran.err


@pytest.mark.parametrize(
    "change",
    [
        {"finish_reason": "a word of tomorrow"},
        {"finish_reason": "content_filter: PROHIBITED_CONTENT", "message": None},
        {"message": {"content": None, "tool_calls": [{"id": "1", "type": "function"}]}},
    ],
)
def test_an_end_that_is_neither_is_unknown_and_counted(sampled, server, change):
    server.change = lambda choice, body: choice | change
    ran, table = sampled()
    assert table["finish_reason"].null_count == 6, ran.err
    assert "6 completions do not say whether they ended or were cut" in ran.err


FILTERED = {"message": "The prompt was filtered.", "code": "content_filter"}
MODERATED = {"message": "your input was flagged", "code": 403, "metadata": {"reasons": ["x"]}}


@pytest.mark.parametrize(("status", "error"), [(400, FILTERED), (403, MODERATED)])
def test_a_prompt_that_a_filter_refuses_gets_an_empty_completion(sampled, server, status, error):
    server.faults = [(status, {}, {"error": error})]
    ran, table = sampled(options=",in_flight=1")
    assert ran.code == 0, ran.err
    assert table["completion"].to_pylist().count("") == table["finish_reason"].null_count == 1
    assert "1 completions do not say whether they ended or were cut" in ran.err


@pytest.mark.parametrize("code", [502, "429", None])
def test_an_error_in_an_answer_of_status_200_is_asked_again(sampled, server, code):
    server.faults = [(200, {}, {"error": {"message": "Provider returned error", "code": code}})]
    ran, table = sampled(retries=1)
    assert ran.code == 0 and table.num_rows == 6 and len(server.seen) == 7, ran.err


def test_a_choice_that_failed_is_asked_again_and_says_why(sampled, server):
    broken = {"finish_reason": "error", "error": {"code": 502, "message": "Network lost"}}
    server.change = lambda choice, body: choice | broken
    ran, _ = sampled()
    assert ran.code == 1 and "aborted a request: Network lost" in ran.err


@pytest.mark.parametrize(
    ("fault", "said", "hint"),
    [
        ((404, {}, {"error": {"message": "no such model"}}), "404", "hint: check model=, and"),
        ((404, {}, {"error": {"message": "This is a chat model and not supported in completions"}}),
         "404", "leave --model out and add api=chat"),
        ((402, {}, {"error": {"message": "no credits"}}), "402", "hint: fix what it reports, and"),
        ((200, {"Content-Type": "text/event-stream"}, b"data: {}\n\n"), "streams its answer",
         "the server must answer as a whole, not as a stream"),
        ((200, {}, b"<!DOCTYPE html><title>x"), "answers with a page", "hint: check url=, which"),
    ],
)  # fmt: skip
def test_a_hint_says_what_to_do_about_each_failure(sampled, server, fault, said, hint):
    server.always = fault
    ran, _ = sampled()
    assert ran.code == 1 and ran.err.count("error:") == 1
    assert said in ran.err and hint in ran.err, ran.err


def test_a_model_that_a_server_does_not_have_is_told_from_those_that_it_has(sampled, server):
    server.models = ["a", "b"]
    ran, _ = sampled()
    assert "hint: name a model that it has, as in model=a, and run" in ran.err


def test_a_server_that_says_that_another_model_answers_is_told_once(sampled, server):
    server.answers_as = f"{MODEL}-2026-01-01"
    ran, _ = sampled()
    assert "warning: http" not in ran.err
    server.answers_as = "llama-3"
    ran, _ = sampled(out="r2")
    said = f"was asked for `{MODEL}` and says that `llama-3` answers"
    assert ran.err.count(said) == 1


def test_a_server_whose_own_sampling_cannot_be_set_is_named(sampled, server):
    server.shape = "library"
    ran, _ = sampled()
    assert "is Ollama, which samples with a top_k and penalties of its own" in ran.err


def test_a_server_that_loads_is_waited_for_before_its_sampling_is_set(sampled, server):
    """Without the list of its models it would sample with a top_k of its own."""
    server.shape, server.busy = "vllm", 4
    ran, table = sampled(retries=6)
    assert ran.code == 0 and table.num_rows == 6, ran.err
    assert "answers 503 Service Unavailable: Loading model (3 tries); trying again" in ran.err
    assert all(body["top_k"] == -1 for body in server.seen)


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
