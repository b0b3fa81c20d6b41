"""Completions that come with the log-probs of what sampled them, and updates by them."""

import json

import pyarrow.parquet as pq
import pytest

from rlvr_cli.models import policy as policies, tokenizers


def rows_of(directory):
    """The completions of a rollouts and a scores directory, as a trainer would dump them."""
    rollouts = pq.read_table(directory / "rollouts").to_pylist()
    scores = pq.read_table(directory / "scores").to_pylist()
    prompts = {
        row["prompt_id"]: json.loads(row["messages"])
        for row in pq.read_table(directory / "prompts").to_pylist()
    }
    return [
        {
            "id": row["prompt_id"],
            "prompt": prompts[row["prompt_id"]],
            "completion": row["completion"],
            "reward": score["reward"],
            "finish_reason": row["finish_reason"],
            "rollout_log_probs": row["behaviour_logp"],
            "completion_ids": row["token_ids"],
        }
        for row, score in zip(rollouts, scores, strict=True)
    ]


def test_an_update_on_a_dump_is_that_on_what_was_dumped(rlvr, chain, jsonl, tmp_path):
    path = jsonl(*rows_of(chain))
    ran = rlvr("import", path, "--model", "builtin", "--out", tmp_path)
    assert ran.code == 0 and "log-probs" not in ran.err
    names = ("token_ids", "behaviour_logp")
    own, imported = (pq.read_table(d / "rollouts") for d in (chain, tmp_path))
    assert imported.select(names).to_pylist() == own.select(names).to_pylist()
    losses = []
    for source, name in ((chain, "own"), (tmp_path, "imported")):
        words = ("--algo", "grpo+is-correction:cap=1", "--out", tmp_path / f"{name}-advantages")
        rlvr("advantage", source / "scores", *words)
        words = ("--out", tmp_path / f"{name}-update", "--model", "builtin", "--off-policy")
        ran = rlvr("train-step", words[1].parent / f"{name}-advantages", *words, "--json")
        assert ran.code == 0, ran.err
        losses.append([json.loads(ran.out)[key] for key in ("grad_norm", "correction_cut")])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4) and losses[0][1] > 0
    # By another policy than the one whose tokenizer it was: the ids are the sampler's own.
    words = ("--model", tmp_path / "own-update", "--off-policy", "--out", tmp_path / "next")
    assert rlvr("train-step", tmp_path / "imported-advantages", *words).code == 0


def test_an_objective_that_does_not_read_them_says_so(rlvr, chain, jsonl, tmp_path):
    rlvr("import", jsonl(*rows_of(chain)), "--model", "builtin", "--out", tmp_path)
    rlvr("advantage", tmp_path / "scores")
    ran = rlvr("train-step", tmp_path / "advantages", "--model", "builtin")
    assert ran.code == 0 and "imported with the sampler's log-probs" in ran.err


def choice(text, logps, **more):
    """A row with a choice of chat completions."""
    content = [
        {"token": token, "logprob": logp}
        for token, logp in zip([*text, "<end>"], logps, strict=False)
    ]
    row = {"id": "a", "prompt": "5=", "completion": text, "reward": 1.0, "finish_reason": "stop"}
    return row | {"logprobs": {"content": content}} | more


def test_text_gets_the_log_probs_of_its_own_tokens_and_an_end_without_one_is_left_out(
    rlvr, jsonl, tmp_path
):
    end = tokenizers.load(policies.resolve("builtin")).eos_token
    rows = [
        choice("2+3", [-0.5, -0.25, -0.125]),
        choice("2+3", [-0.5, -0.25, -0.125, -2.0]),
        choice("2+3", [-0.5, -0.25]),
        choice("2+3", [-0.5, -0.25, -0.125], completion="1+4"),
        choice("2+3", [-0.5, -0.25, -0.125], logprobs=None),
    ]
    rows[1]["logprobs"]["content"][-1]["token"] = end
    ran = rlvr("import", jsonl(*rows), "--model", "builtin", "--out", tmp_path)
    assert ran.code == 0 and "3 of 5 completions have no log-probs, or those of other" in ran.err
    table = pq.read_table(tmp_path / "rollouts")
    logps = table["behaviour_logp"].to_pylist()
    assert logps == [[-0.5, -0.25, -0.125], [-0.5, -0.25, -0.125, -2.0], None, None, None]
    assert [len(ids) for ids in table["token_ids"].to_pylist()] == [3, 4, 4, 4, 4]
    again = rlvr("import", tmp_path / "rows.jsonl", "--model", "builtin", "--out", tmp_path)
    assert again.code == 0 and "nothing left to do" in again.err
    assert pq.read_table(tmp_path / "prompts")["extra"].to_pylist() == [None]


@pytest.mark.parametrize(
    "more, message",
    [
        ({"logprobs": [0.5, -1.0, -1.0]}, "has 0.5 among its log-probs"),
        ({"logprobs": [-1.0, -1.0], "token_ids": [5]}, "has 2 log-probs and 1 token ids"),
        ({"logprobs": [-1.0, -1.0], "token_ids": [5, 6]}, "are another text"),
    ],
)
def test_a_row_that_is_damaged_is_named(refused, jsonl, tmp_path, more, message):
    path = jsonl(choice("2+3", [-1.0] * 3, **more))
    err = refused(3, "import", path, "--model", "builtin", "--out", tmp_path)
    assert message in err and "prompt `a`" in err


def test_without_a_model_the_log_probs_are_not_read(rlvr, jsonl, tmp_path):
    path = jsonl(choice("2+3", [-0.5, -0.25, -0.125]))
    assert rlvr("import", path, "--out", tmp_path).code == 0
    assert pq.read_table(tmp_path / "rollouts")["behaviour_logp"].to_pylist() == [None]
