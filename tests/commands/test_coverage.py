import json

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

ROWS = [
    {"id": "a", "prompt": "5=", "solution": "2+3"},
    {"id": "b", "prompt": "57=", "solution": "7*8+1"},
]


def ranks_of(loaded, prompt: str, solution: str) -> list[int]:
    """How many tokens are likelier than each token of the solution, from the whole logits."""
    prompt_ids = loaded.tokenizer(prompt)["input_ids"]
    ids = loaded.tokenizer(solution, add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        logits = loaded.model(torch.tensor([prompt_ids + ids])).logits[0]
    token_logits = logits[len(prompt_ids) - 1 : -1]
    return [int((row > row[token]).sum()) for row, token in zip(token_logits, ids, strict=True)]


@pytest.mark.parametrize("batch", [1, 4096])
def test_recall_is_that_of_the_whole_logits(rlvr, jsonl, loaded, batch):
    words = ("--model", "builtin", "--k", "1,2,4", "--micro-batch-tokens", batch, "--json")
    summary = json.loads(rlvr("coverage", jsonl(*ROWS), *words).out)
    ranks = [np.array(ranks_of(loaded, row["prompt"], row["solution"])) for row in ROWS]
    assert (summary["prompts"], summary["tokens"], summary["cut"]) == (2, sum(map(len, ranks)), 0)
    for k in (1, 2, 4):
        truth = np.mean([(rank < k).mean() for rank in ranks])
        assert summary["metrics"][f"top-{k}"][0] == pytest.approx(truth)
        assert summary["recall"][f"top-{k}"] == pytest.approx((np.concatenate(ranks) < k).mean())


def test_the_whole_vocabulary_covers_everything_and_one_more_is_refused(
    rlvr, refused, jsonl, loaded
):
    size = loaded.model.get_output_embeddings().weight.shape[0]
    words = ("coverage", jsonl(*ROWS), "--model", "builtin")
    summary = json.loads(rlvr(*words, "--k", f"1,{size}", "--json").out)["recall"]
    assert summary[f"top-{size}"] == 1 >= summary["top-1"]
    assert f"has {size} tokens" in refused(2, *words, "--k", size + 1)


def test_out_keeps_one_row_a_prompt_and_running_again_changes_nothing(rlvr, jsonl, tmp_path):
    words = ("coverage", jsonl(*ROWS), "--model", "builtin", "--out", tmp_path / "made")
    ran = rlvr(*words)
    assert ran.out == f"{tmp_path / 'made'}\n" and "over all 8 tokens of 2 solutions" in ran.err
    table = pq.read_table(tmp_path / "made")
    assert table["prompt_id"].to_pylist() == ["a", "b"] and table["n"].to_pylist() == [3, 5]
    assert "nothing left to do" in rlvr(*words).err


def test_the_answers_of_a_prompts_directory_are_solutions(rlvr, known):
    words = ("--model", "builtin", "--limit", 1, "--json")
    summary = json.loads(rlvr("coverage", known / "prompts", *words).out)
    assert (summary["prompts"], summary["tokens"]) == (1, 1)  # the answer `5`


def test_a_solution_longer_than_the_context_is_cut_and_counted(rlvr, jsonl, loaded):
    row = {"id": "a", "prompt": "5=", "solution": "1+" * loaded.context}
    summary = json.loads(rlvr("coverage", jsonl(row), "--model", "builtin", "--json").out)
    assert summary["cut"] == 1 and summary["tokens"] < loaded.context


@pytest.mark.parametrize(
    ("row", "words", "code", "message"),
    [
        (ROWS[0], (), 2, "needs a policy"),
        ({"id": "a", "prompt": "5="}, ("--model", "builtin"), 3, "--solution-column"),
        ({"id": "a", "solution": "5"}, ("--model", "builtin"), 3, "--prompt-column"),
        ({**ROWS[0], "solution": ""}, ("--model", "builtin"), 3, "`a` of"),
        (ROWS[0], ("--model", "nope"), 3, "`nope`"),
        (ROWS[0], ("--model", "builtin", "--chat"), 3, "no chat template"),
    ],
)
def test_what_is_wrong_is_refused(refused, jsonl, row, words, code, message):
    assert message in refused(code, "coverage", jsonl(row), *words)
