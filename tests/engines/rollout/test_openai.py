"""Rollouts from servers of several shapes, with their faults, over real connections."""

import json
import math
import runpy
import time
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from rlvr_cli.cli import app
from rlvr_cli.engines.rollout import _openai_check as checks
from rlvr_cli.engines.serving import names
from rlvr_cli.errors import DataError
from rlvr_cli.models import policy
from rlvr_cli.protocols import Completion, Request, SamplingParams

_server = runpy.run_path(str(Path(__file__).parents[2] / "completions_server.py"))
HANG_UP, LOGP, MODEL, SHAPES, running = (
    _server[name] for name in ("HANG_UP", "LOGP", "MODEL", "SHAPES", "running")
)
DOWN = "http://127.0.0.1:9/v1"
BUSY = (429, {"Retry-After": 0}, {"error": {"message": "slow down"}})
BROKEN = (500, {}, {"error": {"message": "CUDA error"}})
QUICK = "check=false,retries=3"


@pytest.fixture
def tokenizer(loaded):
    return loaded.tokenizer


@pytest.fixture
def text(tokenizer):
    return lambda ids: tokenizer.decode(ids, skip_special_tokens=True)


@pytest.fixture
def server(text):
    with running(text) as server:
        yield server


@pytest.fixture
def other(text):
    with running(text) as server:
        yield server


@pytest.fixture(scope="module")
def prompts(tmp_path_factory):
    path = tmp_path_factory.mktemp("prompts") / "prompts"
    assert app.run(["prompts", "task:expression", "--limit", "4", "--out", str(path)]) == 0
    return path


@pytest.fixture
def sampled(rlvr, prompts, tmp_path):
    """Samples 3 completions of each of 4 prompts, a part each; the run, and the table if any."""

    def run(*servers, options=QUICK, out="r", more=()):
        urls = ",".join(f"url={getattr(server, 'url', server)}" for server in servers)
        words = ["-n", 3, "--max-new-tokens", 6, "--prompts-per-part", 1, *more]
        words += ["--engine", f"openai:{urls},{options}", "--out", tmp_path / out]
        ran = rlvr("rollout", prompts, *words)
        return ran, pq.read_table(tmp_path / out) if ran.code == 0 else None

    return run


def test_a_server_of_any_shape_gives_the_same_rows(sampled, text, server):
    _, expected = sampled(server)
    assert expected.num_rows == 12
    assert set(map(len, expected["token_ids"].to_pylist())) >= {2, 6}
    assert pc.list_value_length(expected["token_ids"]).equals(
        pc.list_value_length(expected["behaviour_logp"])
    )
    assert set(expected["finish_reason"].to_pylist()) == {"stop", "length"}
    assert len(set(expected["seed"].to_pylist())) == 12
    for shape in SHAPES[1:]:
        with running(text, shape) as another:
            ran, table = sampled(another, out=shape)
            assert ran.code == 0, ran.err
            assert table.equals(expected)


def test_what_decides_the_samples_is_sent_whatever_the_server_defaults_to(sampled, server):
    sampled(server, options=f"{QUICK},body={{min_tokens=2,seed=none}}", more=["--stop", "Q:"])
    sent = server.seen[0]
    wanted = {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0, "min_tokens": 2,
              "repetition_penalty": 1.0, "max_tokens": 6, "stop": ["Q:"], "model": MODEL,
              "stop_token_ids": [1], "return_token_ids": True}  # fmt: skip
    assert {name: sent.get(name) for name in wanted} == wanted
    assert "seed" not in sent


def test_servers_share_the_work_and_how_many_there_are_changes_no_byte(
    sampled, server, other, files_of, tmp_path
):
    server.latency_s = other.latency_s = 0.2
    ran, both = sampled(server, other, options=f"{QUICK},in_flight=2")
    assert ran.code == 0, ran.err
    assert min(len(server.seen), len(other.seen)) > 2
    assert len(server.seen) + len(other.seen) == 12
    assert max(server.most_in_flight, other.most_in_flight) <= 2
    _, alone = sampled(server, out="alone")
    assert both.equals(alone)
    digests = [json.loads((tmp_path / out / "_manifest.json").read_text())["digest"]
               for out in ("r", "alone")]  # fmt: skip
    assert digests[0] == digests[1]


def test_a_server_that_is_named_twice_is_one(sampled, server):
    server.latency_s = 0.05
    again = [f"{server.url}/", f"{server.url}/completions"]
    ran, _ = sampled(server, *again, options=f"{QUICK},in_flight=2")
    assert ran.code == 0 and server.most_in_flight <= 2, ran.err


def test_neither_url_nor_key_is_stored(sampled, server, tmp_path, monkeypatch):
    monkeypatch.setenv("KEY_OF_A_TEST", "sk-of-this-test")
    server.key = "sk-of-this-test"
    ran, _ = sampled(server, options=f"{QUICK},key_variable=KEY_OF_A_TEST")
    assert ran.code == 0, ran.err
    stored = b"".join(path.read_bytes() for path in (tmp_path / "r").iterdir())
    assert b"127.0.0.1" not in stored and b"sk-of" not in stored and b"KEY_OF" not in stored


def test_a_key_that_is_missing_is_asked_for(sampled, server):
    server.key = "sk-of-this-test"
    ran, _ = sampled(server)
    assert ran.code == 1 and "answers 401" in ran.err
    assert "hint: its key is that of the variable OPENAI_API_KEY: set it" in ran.err


def test_a_server_that_is_down_leaves_its_work_to_the_others(sampled, server):
    ran, table = sampled(DOWN, server)
    assert table.num_rows == len(server.seen) == 12
    assert "rollout: http://127.0.0.1:9: Connection refused (3 tries); it is left out" in ran.err


@pytest.mark.parametrize(("retries", "said"), [(0, "refused; it"), (1, "refused (2 tries); it")])
def test_a_server_that_is_down_is_tried_as_often_as_was_said(retries, said, sampled, server):
    ran, _ = sampled(DOWN, server, options=f"check=false,retries={retries}")
    assert f"rollout: http://127.0.0.1:9: Connection {said} is left out" in ran.err


def test_a_server_that_dies_meanwhile_leaves_its_work_to_the_others(sampled, server, other):
    _, expected = sampled(server, out="alone")
    other.change = lambda choice, body: setattr(other, "always", HANG_UP) or choice
    end = time.monotonic() + 120

    def change(choice, body):
        """Waits until the other has answered once, hung up on both tries of one, and on a third."""
        while len(other.seen) < 4 and time.monotonic() < end:
            time.sleep(0.01)
        return choice

    server.change, server.latency_s = change, 0.1
    ran, table = sampled(server, other, options="check=false,retries=1,in_flight=1")
    assert table.equals(expected)
    assert "it ended the connection before its answer; its work goes to 1 other server" in ran.err


@pytest.mark.parametrize("fault", [BUSY, BROKEN, HANG_UP, (503, {}, b"<html>upstream</html>")])
def test_what_may_pass_is_asked_again(sampled, server, fault):
    server.faults = [fault] * 3
    ran, table = sampled(server)
    assert ran.code == 0, ran.err
    assert table.num_rows == 12 and len(server.seen) == 15


@pytest.mark.parametrize("after", [0, "Mon, 01 Jan 2024 00:00:00 GMT"])
def test_requests_that_are_refused_together_are_one_failure_whatever_the_clock_says(
    sampled, server, after
):
    server.latency_s = 0.05
    server.faults = [(429, {"Retry-After": after}, {"error": {"message": "slow down"}})] * 12
    ran, table = sampled(server, options="check=false,retries=1")
    assert ran.code == 0 and table.num_rows == 12, ran.err


def test_a_completion_that_the_server_aborts_is_asked_for_again(sampled, server):
    _, expected = sampled(server, out="before")
    aborted = iter([{"finish_reason": "abort", "token_ids": [5], "text": "2"}] * 2)
    server.change = lambda choice, body: choice | next(aborted, {})
    _, table = sampled(server)
    assert table.equals(expected)


def test_when_no_server_is_left_one_line_says_so_and_the_same_command_resumes(
    sampled, server, other, tmp_path
):
    _, expected = sampled(other, out="alone")
    count = iter(range(100))
    server.change = lambda choice, body: (
        setattr(server, "always", BROKEN) if next(count) == 6 else None) or choice  # fmt: skip
    options = "check=false,retries=0,in_flight=1"
    ran, _ = sampled(server, options=options)
    assert ran.code == 1 and ran.err.count("error:") == 1
    assert f"the server gives no completions: {server.url[:-3]} answers 500" in ran.err
    assert "CUDA error" in ran.err and "hint: start it, or name another url=" in ran.err
    assert len(list((tmp_path / "r").glob("part-*.parquet"))) == 2
    other.seen.clear()
    ran, table = sampled(other)
    assert ran.code == 0 and table.equals(expected), ran.err
    assert len(other.seen) == 6


def test_all_servers_down_is_one_line(sampled):
    ran, _ = sampled(DOWN, "http://127.0.0.1:19/v1")
    assert ran.code == 1 and ran.err.count("error:") == 1
    assert "none of the 2 servers gives completions: http://127.0.0.1:9: Connection" in ran.err


def test_servers_that_are_given_another_policy_meanwhile_say_how_to_go_on(sampled, server):
    name = names.of(policy.resolve("builtin").digest)
    server.models = [name]
    count = iter(range(100))

    def change(choice, body):
        if next(count) == 6:
            server.models = [names.of("0" * 64)]
        return choice

    server.change = change
    ran, _ = sampled(server, options=f"{QUICK},in_flight=1")
    assert ran.code == 1 and ran.err.count("error:") == 1
    assert f"answers 404 Not Found: no model {name}" in ran.err
    assert "hint: it was given another policy: add `load=true`, and run the same" in ran.err


def test_a_request_that_no_server_can_answer_ends_the_command(sampled, server, other):
    def change(choice, body):
        return {} if body["seed"] == bad else choice

    sampled(server, out="before")
    bad = server.seen[4]["seed"]
    server.change = other.change = change
    ran, _ = sampled(server, other, options="check=false,retries=1")
    assert ran.code != 0 and ran.err.count("error:") == 1, ran.err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"token_ids": None}, "gives no token ids, and with --model each completion must have"),
        ({"logprobs": None}, "gives no log-probs"),
        ({"logprobs": {"token_logprobs": [LOGP]}, "token_ids": [5, 5]},
         "gives 1 log-probs for 2 token ids"),
        ({"logprobs": {"token_logprobs": [None]}, "token_ids": [5]}, "gives a log-prob of None"),
        ({"logprobs": {"token_logprobs": [0.5]}, "token_ids": [5]}, "gives a log-prob of 0.5"),
        ({"logprobs": {"token_logprobs": [-9999.0]}, "token_ids": [5]}, "a log-prob of -9999.0"),
        ({"logprobs": [-0.5], "token_ids": [5]}, "gives no log-probs"),
        ({"logprobs": {"token_logprobs": [LOGP]}, "token_ids": ["5"]}, "gives `5` as a token id"),
        ({"logprobs": {"token_logprobs": [math.nan]}, "token_ids": [5]}, "a log-prob of nan"),
        ({"logprobs": {"token_logprobs": [LOGP]}, "token_ids": [99999]}, "the token id 99999: it"),
        ({"text": "another text"}, "ids of other text than `another text`: it has another"),
        ({"prompt_token_ids": [1, 2]}, "and sampled from 2, others than these"),
        ({"finish_reason": "content_filter"}, "ended a completion by `content_filter`"),
        ({"finish_reason": "teatime"}, "the finish_reason `teatime`, which is not known here"),
        ({"finish_reason": "stop", "token_ids": [5], "text": "2",
          "logprobs": {"token_logprobs": [LOGP]}}, "ended a completion by token 5, which does not"),
        ({"finish_reason": "length", "token_ids": [5], "text": "2",
          "logprobs": {"token_logprobs": [LOGP]}}, "cuts completions at 1 token, and --max-new-"),
    ],
)  # fmt: skip
def test_what_is_no_sample_of_the_policy_is_refused(sampled, server, change, said):
    server.change = lambda choice, body: choice | change
    ran, _ = sampled(server)
    assert ran.code not in (0, 70) and ran.err.count("error:") == 1
    assert said in ran.err


def test_a_server_may_leave_special_tokens_out_of_its_text(sampled, text):
    with running(text, "llamacpp") as server:
        ids = [5, 0, 6, 1]
        content = [{"id": token, "token": "", "logprob": LOGP} for token in ids]
        special = {"text": text(ids), "logprobs": {"content": content}, "finish_reason": "stop"}
        server.change = lambda choice, body: choice | special
        ran, table = sampled(server)
    assert ran.code == 0 and table["token_ids"].to_pylist() == [ids] * 12, ran.err


def test_a_server_that_adds_a_token_to_the_prompt_is_refused(sampled, text):
    with running(text, "llamacpp") as server:
        server.prompt_tokens = 77
        ran, _ = sampled(server)
    assert "sampled from 77, others than these" in ran.err


TOO_LONG = (400, {}, {"error": {"message": "maximum context length is 64 tokens"}})


def test_a_prompt_that_is_too_long_for_the_server_is_named(sampled, server):
    server.always = TOO_LONG
    ran, _ = sampled(server)
    assert "is too long: http://127.0.0.1" in ran.err and "maximum context length is 64" in ran.err
    assert "hint: use `--overlong skip`" in ran.err


def test_or_skipped(sampled, server):
    server.faults = [TOO_LONG]
    ran, table = sampled(server, options=f"{QUICK},in_flight=1", more=["--overlong", "skip"])
    assert table["status"].to_pylist() == ["prompt_too_long"] + ["ok"] * 11
    assert table["finish_reason"].to_pylist()[0] == "abort"
    assert "11 cut" not in ran.err and "1 skipped" in ran.err


def test_a_request_that_is_refused_otherwise_says_why(sampled, server):
    server.always = (400, {}, {"error": {"message": "Unrecognized argument: top_k"}})
    ran, _ = sampled(server)
    assert "a request cannot be answered" in ran.err and "Unrecognized argument: top_k" in ran.err


def test_a_model_is_named_where_a_server_has_several(sampled, server):
    server.models = ["a", "b"]
    ran, _ = sampled(server)
    assert "which model of" in ran.err and "it has a, b" in ran.err
    assert "openai:url=...,model=a`" in ran.err
    ran, table = sampled(server, options=f"{QUICK},model=b", more=["--model", "builtin"])
    assert table.num_rows == 12 and {body["model"] for body in server.seen} == {"b"}


def test_log_probs_of_other_weights_are_refused(sampled, server):
    ran, _ = sampled(server, options="retries=0")
    assert ran.code == 3 and "has other weights than `builtin`: log-probs differ by" in ran.err


def own_logps(loaded, prompt, ids, sampling):
    import torch

    with torch.no_grad():
        logits = loaded.model(torch.tensor([[*prompt, *ids]])).logits[0, len(prompt) - 1 : -1]
    return (logits / sampling.temperature).log_softmax(-1)[range(len(ids)), ids].tolist()


def test_log_probs_of_the_policy_pass_and_those_of_another_temperature_are_told(loaded):
    hot, prompt, ids = SamplingParams(8, temperature=0.4), [5, 7, 83], [11, 74, 6, 5, 7, 1]
    few = checks.Few([Request(prompt, 0)], hot)
    builtin = policy.resolve("builtin")
    right = Completion(ids, own_logps(loaded, prompt, ids, hot), "stop")
    checks.compare(builtin, few, {"http://here": [right]})
    plain = Completion(ids, own_logps(loaded, prompt, ids, SamplingParams(8)), "stop")
    with pytest.raises(DataError, match="gives the log-probs of temperature 1") as refused:
        checks.compare(builtin, few, {"http://here": [plain]})
    assert "--logprobs-mode processed_logprobs" in refused.value.hint


def test_log_probs_within_a_nucleus_are_those_of_its_tokens():
    import numpy as np

    logits = np.log(np.array([[0.5, 0.3, 0.2]]))
    logps = {
        top_p: checks._logps(logits, [1], SamplingParams(1, top_p=top_p)) for top_p in (1, 0.7)
    }
    assert np.allclose([logps[1][0], logps[0.7][0]], np.log([0.3, 0.3 / 0.8]))
    assert np.isneginf(checks._logps(logits, [1], SamplingParams(1, top_k=1)))
