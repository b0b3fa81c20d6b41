"""The layout that `evaluation/math_eval.py` of QwenLM/Qwen2.5-Math writes."""

import json

from rlvr_cli.evaluation.pass_at_k import tally


def row(idx, score):
    return {"idx": idx, "question": f"q{idx}", "gt_cot": "so 4", "gt": "4", "type": "Algebra",
            "level": 3, "solution": "so 4", "answer": "4", "code": ["it is 4", "it is 5"],
            "pred": ["4", "5"], "report": [None, None], "score": score}  # fmt: skip


def test_each_completion_has_its_answer_and_score(store, counts):
    path = store("test_qwen25-math-cot_-1_seed0_t0.0_s0_e-1.jsonl", row(0, [True, False]),
                 row(1, [False, False]))  # fmt: skip
    assert counts(path) == {"0": (2, 1), "1": (2, 0)}
    tallied, _ = tally(path, texts=True)
    assert tallied.texts == [["it is 4"], []]
    assert counts(path, source="type") == {"0": (2, 1), "1": (2, 0)}


def test_the_answers_vote(rlvr, store):
    path = store("test.jsonl", row(0, [True, False]))
    ran = rlvr("eval-passk", path, "--k", "1,2", "--json")
    assert ran.code == 0, ran.err
    figures = json.loads(ran.out)["metrics"]
    assert (figures["pass@2"][0], figures["maj@2"][0]) == (1.0, 0.5)
