"""`rollout`, `doctor` and `train` with a policy that has a chat template."""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rlvr_cli.models import policy, tokenizers
from rlvr_cli.stages import prompts

SMALL = ("--max-new-tokens", 8, "-n", 2)
TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'user' %}Q{% else %}{{ m.role }}{% endif %}"
    ":{{ m.content }};{% endfor %}{% if add_generation_prompt %}A:{% endif %}"
)


@pytest.fixture(scope="module")
def instruct(tmp_path_factory):
    """The built-in policy with a chat template."""
    folder = tmp_path_factory.mktemp("instruct") / "model"
    shutil.copytree(policy.resolve("builtin").path, folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


@pytest.fixture
def asked(rlvr, jsonl, tmp_path):
    """Two prompts of a file: a plain question, and a chat."""
    rows = [
        {"id": "text", "question": "24=", "answer": "24", "verifier": "expression"},
        {"id": "chat", "question": [{"role": "user", "content": "36="}], "answer": "36",
         "verifier": "expression"},
    ]  # fmt: skip
    made = rlvr("prompts", jsonl(*rows), "--out", tmp_path / "prompts")
    assert made.code == 0, made.err
    return tmp_path / "prompts"


def prompts_of(path, model="builtin"):
    """The text of each prompt as it was encoded."""
    decode = tokenizers.load(policy.resolve(str(model))).decode
    table = pq.read_table(path)
    rows = zip(table["prompt_id"].to_pylist(), table["prompt_token_ids"].to_pylist(), strict=True)
    return {name: decode(token_ids) for name, token_ids in rows}


def test_a_plain_question_becomes_a_users_turn_and_that_is_said(rlvr, asked, instruct, tmp_path):
    ran = rlvr("rollout", asked, "--model", instruct, *SMALL)
    assert ran.code == 0, ran.err
    assert "rollout: 1 question in plain text: each becomes a user turn" in ran.err
    assert prompts_of(tmp_path / "rollouts") == {"text": "Q:24=;A:", "chat": "Q:36=;A:"}
    ran = rlvr("rollout", asked, "--model", instruct, *SMALL, "--no-chat", "--out", tmp_path / "b")
    assert ran.code == 0 and "in plain text" not in ran.err
    assert prompts_of(tmp_path / "b") == {"text": "24=", "chat": "Q:36=;A:"}


def test_the_prompts_of_a_task_stay_raw_also_those_of_a_part_of_them(rlvr, instruct, tmp_path):
    rlvr("prompts", "task:expression", "--limit", 3, "--out", tmp_path / "prompts")
    rlvr("prompts", tmp_path / "prompts", "--limit", 2, "--out", tmp_path / "few")
    for source in ("prompts", "few"):
        out = tmp_path / f"of-{source}"
        ran = rlvr("rollout", tmp_path / source, "--model", instruct, *SMALL, "--out", out)
        assert ran.code == 0 and "chat template" not in ran.err, ran.err
        assert all(text.endswith("=") for text in prompts_of(out).values())


def test_the_wording_of_prompts_is_part_of_what_a_directory_is(
    rlvr, refused, asked, instruct, tmp_path, files_of
):
    few = tmp_path / "few.txt"
    few.write_text("1=1;")
    words = ("rollout", asked, "--model", instruct, *SMALL)
    assert rlvr(*words, "--prefix", few, "--suffix", "?").code == 0
    assert prompts_of(tmp_path / "rollouts")["text"] == "Q:1=1;24=?;A:"
    before = files_of(tmp_path / "rollouts")
    few.rename(tmp_path / "moved.txt")
    again = rlvr(*words)
    assert again.code == 0 and "nothing left to do" in again.err, again.err
    assert rlvr(*words, "--prefix", tmp_path / "moved.txt").code == 0
    (tmp_path / "moved.txt").write_text("2=2;")
    assert "prefix was" in refused(2, *words, "--prefix", tmp_path / "moved.txt")
    assert "chat was True, is False" in refused(2, *words, "--no-chat")
    assert files_of(tmp_path / "rollouts") == before


def test_a_stop_string_ends_a_completion_and_its_text_ends_with_it(rlvr, chain, loaded, tmp_path):
    words = ("rollout", chain / "prompts", "--max-new-tokens", 16, "-n", 4, "--prompts-per-part", 3)
    ran = rlvr(*words, "--stop", '["+","-"]', "--out", tmp_path / "made")
    assert ran.code == 0 and 'a completion also ends at "+" or "-"' in ran.err, ran.err
    whole = pq.read_table(chain / "rollouts").to_pylist()
    rows, ended = pq.read_table(tmp_path / "made").to_pylist(), 0
    for row, before in zip(rows, whole, strict=True):
        text = loaded.tokenizer.decode(row["token_ids"], skip_special_tokens=True)
        assert text == row["completion"] and before["completion"].startswith(text)
        assert len(row["token_ids"]) == len(row["behaviour_logp"])
        if "+" in before["completion"] or "-" in before["completion"]:
            ended += 1
            assert row["finish_reason"] == "stop" and text[-1] in "+-"
            assert not {"+", "-"} & set(text[:-1])
    assert ended > 3


def test_the_engines_end_completions_at_the_same_tokens(rlvr, chain, tmp_path):
    engines = ("transformers", "graph:noise=1")
    for engine in engines:
        words = ("--stop", "+", "--engine", engine, "--max-new-tokens", 12, "-n", 2)
        assert rlvr("rollout", chain / "prompts", *words, "--out", tmp_path / engine).code == 0
    one, other = (pq.read_table(tmp_path / name) for name in engines)
    for name in ("token_ids", "completion", "finish_reason"):
        assert one[name].to_pylist() == other[name].to_pylist()


def test_a_dry_run_and_the_doctor_show_a_prompt_as_the_model_sees_it(rlvr, asked, instruct):
    ran = rlvr("rollout", asked, "--model", instruct, "--dry-run", "--system", "s")
    assert (ran.code, ran.out) == (0, "")
    assert "prompt `text` as the policy sees it, 17 tokens:\nsystem:s;Q:24=;A:" in ran.err
    ran = rlvr("doctor", asked, "--model", instruct, "--system", "s")
    assert "prompt `text` as the policy sees it, 17 tokens:\nsystem:s;Q:24=;A:" in ran.out
    findings = json.loads(rlvr("doctor", asked, "--model", instruct, "--json").out)["findings"]
    texts = [finding["text"] for finding in findings if finding["subject"] == "prompt"]
    assert [text.splitlines()[1] for text in texts] == ["Q:24=;A:"]


def test_a_system_turn_without_a_chat_template_is_refused_before_a_model_is_loaded(
    refused, asked, tmp_path
):
    words = ("--model", "builtin", "--system", "s")
    assert "the policy has no chat template" in refused(2, "rollout", asked, *words)
    words = (*words, "--prompts", asked, "--eval-every", 0, "--out", tmp_path / "run")
    assert "the policy has no chat template" in refused(2, "train", *words, "--dry-run")


def test_an_answer_in_a_stored_chat_is_refused_and_prompts_made_anew_lose_it(
    rlvr, refused, asked, instruct, tmp_path, jsonl
):
    turns = [{"role": "user", "content": "36="}, {"role": "assistant", "content": "6*6"}]
    source = jsonl({"id": "a", "messages": turns, "answer": "36"}, name="turns.jsonl")
    err = refused(3, "prompts", source, "--out", tmp_path / "made")
    assert "ends with an assistant turn" in err and "--drop-answer-turn" in err
    ran = rlvr("prompts", source, "--out", tmp_path / "made", "--drop-answer-turn")
    assert ran.code == 0 and "the end of 1 prompt was left out" in ran.err
    (row,) = pq.read_table(tmp_path / "made").to_pylist()
    assert json.loads(row["messages"]) == turns[:1] and row["answer"] == "36"


def test_prompts_that_an_earlier_version_stored_with_the_answer_are_refused_at_rollout(
    refused, rlvr, instruct, tmp_path
):
    turns = [{"role": "user", "content": "36="}, {"role": "assistant", "content": "6*6"}]
    row = {"prompt_id": "a", "messages": json.dumps(turns), "source": "s", "answer": "36",
           "verifier": "expression"}  # fmt: skip
    old = tmp_path / "old"
    prompts.make_all_parts([row], old, params={"source": "s"})
    for words in (("rollout", old), ("train", "--prompts", old, "--eval-every", 0,
                                     "--out", tmp_path / "run")):  # fmt: skip
        err = refused(3, *words, "--model", instruct)
        assert "would see the answer" in err and "--drop-answer-turn" in err
    ran = rlvr("prompts", old, "--drop-answer-turn", "--out", tmp_path / "new")
    assert ran.code == 0, ran.err


def test_sharegpt_is_read_with_a_remark(rlvr, jsonl, tmp_path):
    turns = [{"from": "human", "value": "24="}, {"from": "gpt", "value": "4!"}]
    source = jsonl({"conversations": turns, "answer": "24"})
    ran = rlvr("prompts", source, "--out", tmp_path / "made", "--drop-answer-turn")
    assert ran.code == 0 and "1 prompt read from ShareGPT's from and value" in ran.err, ran.err
    (row,) = pq.read_table(tmp_path / "made").to_pylist()
    assert json.loads(row["messages"]) == [{"role": "user", "content": "24="}]


def test_a_run_keeps_the_text_of_its_files_and_toml_takes_lists_and_tables(
    rlvr, refused, asked, instruct, tmp_path
):
    (tmp_path / "few.txt").write_text("1=1;")
    (tmp_path / "run.toml").write_text(
        f'[train]\nmodel = "{instruct}"\nprompts = "{asked}"\neval_every = 0\nsteps = 1\n'
        "prompts_per_step = 2\n[rollout]\nnum_generations = 2\nmax_new_tokens = 8\n"
        f'prefix = "{tmp_path}/few.txt"\nstop = ["+", "\\n\\n"]\nsuffix = "?"\n'
    )
    out = tmp_path / "run"
    ran = rlvr("train", "--config", tmp_path / "run.toml", "--out", out)
    assert ran.code == 0, ran.err
    assert "train: 1 question in plain text" in ran.err
    step = out / "steps" / "000001" / "rollouts"
    assert prompts_of(step)["text"] == "Q:1=1;24=?;A:"
    assert 'prefix = "\\"1=1;\\""' in (out / "config.toml").read_text()
    (tmp_path / "few.txt").unlink()
    assert rlvr("train", "--out", out).code == 0
    assert "chat was True, is False" in refused(2, "train", "--out", out, "--no-chat")


def test_the_verifier_sees_the_question_and_not_the_template(rlvr, jsonl, tmp_path, instruct):
    Path(tmp_path / "mine.py").write_text(
        "def score(completion, *, answer, extra):\n"
        "    return {'reward': 1.0, 'extracted': extra['prompt']}\n"
    )
    parts = [{"type": "text", "text": "36"}, {"type": "text", "text": "="}]
    chat = [{"role": "system", "content": "s"}, {"role": "user", "content": parts}]
    rows = [{"prompt": "24=", "answer": "24"}, {"prompt": chat, "answer": "36"}]
    rlvr("prompts", jsonl(*rows), "--out", tmp_path / "prompts")
    words = (*SMALL, "--suffix", "!", "--model", instruct)
    assert rlvr("rollout", tmp_path / "prompts", *words).code == 0
    ran = rlvr("score", tmp_path / "rollouts", "--verifier", f"{tmp_path}/mine.py:score")
    assert ran.code == 0, ran.err
    assert pq.read_table(tmp_path / "scores")["extracted"].to_pylist() == ["24="] * 2 + ["36="] * 2
