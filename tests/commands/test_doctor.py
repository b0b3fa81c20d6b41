import json
import shutil

import pytest

from rlvr_cli.config import RolloutOptions, RunConfig
from rlvr_cli.doctor import fit, golds, prompt_rows, tokens
from rlvr_cli.models.policy import BUILTIN, resolve
from rlvr_cli.runtime.device import Device
from rlvr_cli.stages import score

GPU = Device("cuda", 80 << 30, 1 << 20, "GPU 0")


def lines_of(ran, level):
    return [line for line in ran.out.splitlines() if line.startswith(level)]


def test_whole_data_has_no_problem(rlvr, chain):
    ran = rlvr("doctor", chain / "prompts", "--model", "builtin", "--max-new-tokens", 16)
    assert (ran.code, ran.err) == (0, "")
    assert lines_of(ran, "problem") == [] and "all 6 are read by their verifiers" in ran.out
    assert "the context leaves 496" in ran.out and "1 `<eos>`" in ran.out


def test_scores_say_what_their_groups_can_teach(rlvr, known):
    ran = rlvr("doctor", known / "scores", "--json")
    findings = {f["subject"]: f for f in json.loads(ran.out)["findings"]}
    assert findings["groups"]["text"].startswith(
        "2 of 2 groups (100%) have different rewards; 0 have"
    )
    assert findings["groups"]["level"] == "ok"


def test_scores_beside_rollouts_are_read_too(rlvr, chain):
    assert "have different rewards" in rlvr("doctor", chain / "rollouts").out


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("a", "1=", "1"), ("b", "2=", "two")], "cannot read 1 of 2 golds: `b` `two`: it is no"),
        ([("a", "1=", "1"), ("a", "2=", "2")], "1 ids belong to several prompts each: `a`"),
        (
            [("a", "1=", "1"), ("b", "1=", "2")],
            "several prompts each with different golds: `a = b`",
        ),
        ([("a", "1=", r"\\frac{1}{2}")], r"doubly escaped LaTeX, as in `a`: `\\frac{1}{2}`"),
        ([("a", "1=", "\x0crac{1}{2}")], "control characters"),
        ([("a", "9" * 600 + "=", "1")], "1 of 1 prompts are longer than 496 tokens"),
    ],
)
def test_a_fault_of_the_data_is_a_problem_with_a_hint(rlvr, jsonl, rows, message):
    source = jsonl(*({"id": i, "prompt": prompt, "answer": gold} for i, prompt, gold in rows))
    words = ("--verifier", "number", "--model", "builtin", "--max-new-tokens", 16)
    ran = rlvr("doctor", source, *words)
    assert ran.code == 3 and message in ran.out, ran.out
    assert "hint: " in ran.out and ran.err.startswith("error: ") and f"in `{source}`" in ran.err


def test_one_text_twice_with_one_gold_is_a_note(rlvr, jsonl):
    rows = ({"id": i, "prompt": "1=", "answer": "1"} for i in "ab")
    ran = rlvr("doctor", jsonl(*rows), "--verifier", "number")
    assert ran.code == 0 and len(lines_of(ran, "note")) == 1 and "`a = b`" in ran.out


def test_rows_of_a_matrix_are_no_doubly_escaped_latex():
    rows = [
        {"prompt_id": "a", "messages": '"1"', "answer": gold, "verifier": None, "extra": None}
        for gold in (
            r"\begin{pmatrix}1\\2\end{pmatrix}",
            r"a\\ b",
            r"1\\\frac12",
            r"\frac12",
            r'["\\frac12"]',
        )
    ]
    with score.scorer(use_cache=False) as scorer:
        read = golds.Golds(scorer)
        read.add(rows)
    assert [f.subject for f in read.findings() if f.level == "problem"] == []


@pytest.mark.slow
def test_golds_are_read_by_verifiers_in_processes_too(rlvr, jsonl):
    rows = [
        {"id": "a", "prompt": "1=", "answer": r"\frac{"},
        {"id": "b", "prompt": "2=", "answer": r"\frac12"},
    ]
    ran = rlvr("doctor", jsonl(*rows), "--verifier", "math")
    assert ran.code == 3
    assert "`math` cannot read 1 of 2 golds: `a`" in ran.out


def test_another_kind_is_refused(refused, chain):
    assert "holds advantages" in refused(3, "doctor", chain / "advantages")


def test_the_machine_is_described(rlvr):
    ran = rlvr("doctor")
    assert ran.code == 0 and "Python 3." in ran.out and "GiB available" in ran.out


def test_a_run_is_measured_and_sampler_and_trainer_are_compared(rlvr):
    ran = rlvr("doctor", "--model", "builtin", "--max-new-tokens", 16, "--json")
    findings = {f["subject"]: f for f in json.loads(ran.out)["findings"]}
    assert ran.code == 0
    assert {"rollout", "training", "log-probs", "end ids", "vocabulary"} <= findings.keys()
    assert "0.0% of" in findings["log-probs"]["text"]


def test_a_run_that_does_not_fit_is_a_problem_with_what_to_set():
    findings = list(fit.examine(resolve(BUILTIN), RunConfig(), device=GPU))
    assert [f.subject for f in findings if f.level == "problem"] == ["rollout", "training"]
    assert all(f.hint for f in findings if f.level == "problem")


def test_an_end_that_is_not_declared_is_a_problem(copied_policy):
    path = copied_policy / "generation_config.json"
    path.write_text(json.dumps({"eos_token_id": 5}))
    (problem,) = (f for f in tokens.examine(resolve(str(copied_policy))) if f.level == "problem")
    assert "tokenizer's own end is 1 `<eos>`" in problem.text
    assert problem.hint == f'write "eos_token_id": [1, 5] in `{path}`'


def test_the_end_of_a_turn_in_the_chat_template_counts_too(loaded):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(loaded.policy.path)
    assert tokens.turn_end(tokenizer) is None
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}<eos>{% endfor %}"
    assert tokens.turn_end(tokenizer) in (1, None)


@pytest.fixture
def copied_policy(tmp_path):
    import shutil

    return shutil.copytree(resolve(BUILTIN).path, tmp_path / "policy")


def test_doubles_are_found_over_batches_of_rows():
    rows = [
        {"prompt_id": name, "messages": json.dumps(text), "answer": gold, "verifier": None,
         "extra": None, "raw": False}
        for name, text, gold in [("a", "1", "1"), ("b", "2", "2"), ("c", "1", "3"), ("b", "4", "4")]
    ]  # fmt: skip
    whole = list(prompt_rows.examine(lambda: iter([rows]), None, RolloutOptions()))
    apart = prompt_rows.examine(lambda: iter([[row] for row in rows]), None, RolloutOptions())
    assert list(apart)[:2] == whole[:2]
    assert "1 ids belong to several prompts each: `b`" in whole[0].text
    assert "with different golds: `a = c`" in whole[1].text


@pytest.mark.slow
def test_prompts_of_a_run_say_how_long_prompts_are(rlvr, chain):
    words = ("doctor", "--model", "builtin", "--max-new-tokens", 16)
    assert "prompts of 512 tokens assumed" in rlvr(*words).out
    ran = rlvr(*words, "--prompts", chain / "prompts")
    assert "prompts of" in ran.out and "assumed" not in ran.out and "warning" not in ran.err


def test_prompts_that_moved_are_named_with_the_same_option(rlvr, chain, tmp_path):
    shutil.copytree(chain / "rollouts", tmp_path / "rollouts")
    shutil.copytree(chain / "prompts", tmp_path / "moved")
    assert rlvr("doctor", tmp_path / "rollouts").code == 3
    ran = rlvr("doctor", tmp_path / "rollouts", "--prompts", tmp_path / "moved")
    assert "all 6 are read by their verifiers" in ran.out
