"""The layout of NVIDIA/NeMo-Skills: `tests/data/output-rs0.test` with its columns, and the rows of
`tests/data/eval_outputs/` that hold verdicts alone."""

import pytest

from rlvr_cli.errors import DataError
from rlvr_cli.evaluation.pass_at_k import tally
from rlvr_cli.interop.completions import Stream


def row(question, right, **more):
    return {
        "generation": f"It is {right}",
        "error_message": "<not_executed>",
        "level": "Level 4",
        "problem": question,
        "reference_solution": "...",
        "expected_answer": "220",
        "predicted_answer": "220" if right else "1",
        "symbolic_correct": right,
        **more,
    }


def test_a_file_for_each_seed_holds_a_sample_of_each_prompt(store, counts):
    for seed in range(3):
        store(f"output-rs{seed}.jsonl", row("2+2?", seed > 0, id="a"), row("1+1?", True, id="b"))
    folder = store("output-rs3.jsonl", row("2+2?", False, id="a"), row("1+1?", True, id="b")).parent
    assert counts(folder) == {"a": (4, 2), "b": (4, 4)}
    batches = Stream(folder, wanted={"sample"})
    assert [batch.sample.tolist() for batch in batches] == [[float(s)] * 2 for s in range(4)]


def test_prompts_without_an_id_are_known_by_their_text(store, counts):
    for seed in range(2):
        folder = store(f"output-rs{seed}.jsonl", row("2+2?", True), row("1+1?", False)).parent
    assert sorted(counts(folder).values()) == [(2, 0), (2, 2)]


def test_verdicts_alone_are_of_the_prompt_on_the_same_line(store, counts):
    for seed, right in enumerate((True, False)):
        rows = ({"num_generated_tokens": 9, "predicted_answer": "7", "symbolic_correct": s}
                for s in (True, right))  # fmt: skip
        folder = store(f"output-rs{seed}.jsonl", *rows).parent
    assert counts(folder) == {"0": (2, 2), "1": (2, 1)}


def test_a_judge_that_says_neither_yes_nor_no_gives_no_verdict(store, verdicts):
    said = ("Reasoning: same.\nJudgement: Yes", "Judgement: No\n\nReasoning: ...", "No idea")
    rows = [{"problem": f"q{i}", "generation": "g", "expected_answer": "1", "judgement": text}
            for i, text in enumerate(said)]  # fmt: skip
    assert verdicts(store("output.jsonl", *rows)) == [1, 0, -1]


def test_of_two_verdicts_the_symbolic_one_counts_and_the_judge_can_be_named(store, counts):
    path = store("output.jsonl", row("q", False, id="a", judgement="Judgement: yes"))
    assert counts(path) == {"a": (1, 0)}
    assert counts(path, correct="judge_correct") == {"a": (1, 1)}


def test_without_a_verdict_that_is_said(store):
    plain = {"problem": "q", "generation": "g", "expected_answer": "1", "num_generated_tokens": 4}
    with pytest.raises(DataError, match="does not say which completions are correct"):
        tally(store("output.jsonl", plain))
