"""lm-evaluation-harness: which metric is the verdict, filters, repeats, and runs of one task.

Rows as `--log_samples` writes them for gsm8k, arc_challenge, ifeval, humaneval and truthfulqa_gen.
"""

import json

import pytest

from rlvr_cli.config import Columns
from rlvr_cli.errors import DataError
from rlvr_cli.evaluation.load import tally


def doc(i, *, resps=(("text",),), **more):
    return {"doc_id": i, "doc": {"question": f"q{i}"}, "target": "4",
            "arguments": {"gen_args_0": {"arg_0": f"q{i}", "arg_1": {"until": []}}},
            "resps": [list(r) for r in resps], "filtered_resps": ["4"], "filter": "none",
            "doc_hash": "h", "prompt_hash": "p", "target_hash": "t", **more}  # fmt: skip


def arc(i, acc, norm):
    """Two options by likelihood; accuracies with and without normalisation."""
    resps = ((["-1.5", "False"],), (["-2.0", "False"],))
    return doc(i, resps=resps, filtered_resps=[["-1.5", "False"], ["-2.0", "False"]],
               metrics=["acc", "acc_norm"], acc=acc, acc_norm=norm)  # fmt: skip


IFEVAL = {
    "metrics": [f"{level}_level_{kind}_acc" for kind in ("strict", "loose")
                for level in ("prompt", "inst")],
    "prompt_level_strict_acc": False, "prompt_level_loose_acc": True,
    "inst_level_strict_acc": [True, False], "inst_level_loose_acc": [True, True],
}  # fmt: skip


def write(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def counts(path, **columns):
    tallied, _ = tally(path, columns=Columns(**columns))
    pairs = zip(tallied.n_P.tolist(), tallied.correct_P.tolist(), strict=True)
    return dict(zip(tallied.prompt_id, pairs, strict=True)), tallied.read["correct"]


@pytest.mark.parametrize(
    ("row", "metric", "right"),
    [
        (arc(0, 1.0, 0.0), "acc", 1),
        (doc(0, **IFEVAL), "prompt_level_strict_acc", 0),
        (doc(0, metrics=["pass@1"], **{"pass@1": 1.0}), "pass@1", 1),
        (doc(0, metrics=["math_verify", "exact_match"], math_verify=1, exact_match=0),
         "exact_match", 0),
        (doc(0, exact_match=1.0), "exact_match", 1),  # files before metrics were listed
        (doc(0, metrics=["mmlu_like"], mmlu_like=1), "mmlu_like", 1),
    ],
)  # fmt: skip
def test_one_metric_is_the_verdict_and_is_named(tmp_path, row, metric, right):
    path = write(tmp_path / "samples_x.jsonl", row)
    assert counts(path) == ({"0": (1, right)}, [metric])


def test_the_metric_is_that_of_the_file_in_every_row(tmp_path):
    """Row by row the first of 0 and 1 would be acc, then acc_norm."""
    path = write(tmp_path / "samples_x.jsonl", arc(0, 1.0, 0.0), arc(1, 0.5, 1.0))
    with pytest.raises(DataError, match=r"row 2 has `acc` = `0.5`, neither right nor") as error:
        counts(path)
    assert "--correct-above 0.5" in error.value.hint
    assert counts(path, correct="acc_norm") == ({"0": (1, 0), "1": (1, 1)}, ["acc_norm"])
    assert counts(path, correct_above=0.4) == ({"0": (1, 1), "1": (1, 1)}, ["acc"])


def test_metrics_of_which_none_is_a_verdict_are_named_and_one_is_chosen(tmp_path):
    row = doc(0, metrics=["rouge1", "bleu_acc"], rouge1=12.5, bleu_acc=1)
    path = write(tmp_path / "samples_truthfulqa_gen.jsonl", row)
    with pytest.raises(DataError, match=r"does not say which completions are .*rouge1"):
        counts(path)
    assert counts(path, correct="bleu_acc") == ({"0": (1, 1)}, ["bleu_acc"])
    assert counts(path, correct="rouge1", correct_above=10) == ({"0": (1, 1)}, ["rouge1"])


def test_a_metric_that_is_named_judges_the_completion_that_its_filter_took(tmp_path):
    row = doc(0, resps=(("a", "b", "c"),), metrics=["exact_match"], exact_match=1.0)
    path = write(tmp_path / "samples_x.jsonl", row)
    tallied, _ = tally(path, columns=Columns(correct="exact_match"), texts=True)
    assert (tallied.n_P.tolist(), tallied.excluded_P.tolist()) == ([1], [2])
    assert tallied.texts == [["a"]]


def test_the_verdict_on_a_majority_is_not_that_on_one_completion(tmp_path):
    rows = [
        doc(0, resps=(("a", "b"),), filter=f, metrics=["exact_match"], exact_match=1.0)
        for f in ("score-first", "maj@2")
    ]
    path = write(tmp_path / "samples_gsm8k_cot_self_consistency.jsonl", *rows)
    with pytest.raises(DataError, match="what most of 2 completions answer"):
        counts(path, where=["filter=maj@2"])
    assert counts(path, where=["filter=score-first"])[0] == {"0": (1, 1)}


def test_a_document_that_old_files_repeat_for_each_filter_is_no_sample(tmp_path):
    rows = [doc(0, exact_match=right) for right in (0.0, 1.0)]
    for row in rows:
        del row["filter"]
    path = write(tmp_path / "pretrained__model_gsm8k.jsonl", *rows)
    with pytest.raises(DataError, match="sample 0 of prompt `0` in row 1 and in row 2"):
        counts(path)
    assert counts(path, repeats="first")[0] == {"0": (1, 0)}


def test_four_runs_of_a_task_are_four_sources(tmp_path):
    for run in range(4):
        name = f"samples_gsm8k_2026-01-0{run + 1}T00-00-00.1.jsonl"
        write(tmp_path / name, *[doc(i, exact_match=float(run > 1)) for i in range(2)])
    tallied, _ = tally(tmp_path)
    assert tallied.n_P.tolist() == [1] * 8
    assert sorted(set(tallied.source)) == [
        f"samples_gsm8k_2026-01-0{run + 1}T00-00-00.1" for run in range(4)
    ]
    assert counts(tmp_path, merge=True)[0] == {"0": (4, 2), "1": (4, 2)}
