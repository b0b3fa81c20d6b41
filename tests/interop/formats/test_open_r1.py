"""The columns of open-r1/OpenR1-Math-220k on the Hugging Face Hub."""

import pyarrow as pa
import pyarrow.parquet as pq


def row(uuid, verify, llama=None):
    return {"problem": f"q {uuid}", "solution": "so 4", "answer": "4", "problem_type": "Algebra",
            "question_type": "math-word-problem", "source": "olympiads", "uuid": uuid,
            "is_reasoning_complete": [True, True], "generations": ["<think>4</think>", "5"],
            "correctness_math_verify": verify, "correctness_llama": llama,
            "finish_reasons": ["stop", "length"], "correctness_count": 1,
            "messages": [{"role": "user", "content": f"q {uuid}"}]}  # fmt: skip


def test_the_rule_decides_and_the_judge_can_be_named(tmp_path, counts, verdicts):
    path = tmp_path / "train-00000-of-00010.parquet"
    pq.write_table(
        pa.Table.from_pylist([row("a", [True, False]), row("b", [False, False], [False, True])]),
        path,
    )
    assert counts(path) == {"a": (2, 1), "b": (2, 0)}
    assert verdicts(path, correct="correctness_llama") == [-1, -1, 0, 1]
