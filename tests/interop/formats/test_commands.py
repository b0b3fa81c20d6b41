"""Every command on completions takes every tool's file without a flag."""

import json

import pyarrow.parquet as pq
import pytest

from rlvr_cli import registry

TEXTS = ["it is 4", "it is 5"]
ASK = [{"role": "user", "content": "2+2?"}]
TURNS = [[{"role": "assistant", "content": text}] for text in TEXTS]
EACH = [*zip(TEXTS, TURNS, (True, False), strict=True)]
FILES = {
    "bigcodebench": ("m_eval_results.json", {"date": "", "eval": {"BigCodeBench/0": [
        {"task_id": "BigCodeBench/0", "solution": text, "status": "pass" if right else "fail",
         "details": {}} for text, _, right in EACH]}}),
    "livecodebench": ("a_eval_all.json", [
        {"question_id": "a", "question_content": "2+2?", "output_list": TEXTS,
         "code_list": TEXTS, "graded_list": [True, False], "pass@1": 0.5}]),
    "inspect-ai": ("log.json", {
        "version": 2, "status": "success", "eval": {"task": "t"}, "plan": {}, "samples": [
            {"id": 1, "epoch": at, "input": ASK, "target": "4",
             "output": {"choices": [{"message": turns[0], "stop_reason": "stop"}]},
             "scores": {"match": {"value": "C" if right else "I", "answer": text[-1]}}}
            for at, (text, turns, right) in enumerate(EACH)]}),
    "opencompass": ("gsm8k.json", {"accuracy": 50.0, "details": [
        {"example_abbr": "gsm8k_0", "origin_prediction": TEXTS, "pred": ["4", "5"],
         "answer": ["4", "4"], "correct": [True, False]}]}),
    "nemo-skills": ("output.jsonl", [
        {"problem": "2+2?", "generation": text, "expected_answer": "4",
         "predicted_answer": text[-1], "symbolic_correct": right} for text, _, right in EACH]),
    "simple-evals": ("m_allresults.json", {
        "score": 0.5, "metrics": {}, "metadata": None,
        "htmls": [f"<p>Score: {float(right)}</p>" for _, _, right in EACH],
        "convos": [[*ASK, *turns] for _, turns, _ in EACH]}),
    "olmo-eval": ("x-predictions.jsonl", [
        {"doc_id": 0, "native_id": "x_0", "label": "4", "instance_metrics": {}, "model_output": [
            {"text": text, "extracted_answer": text[-1],
             "sample_metrics": {"exact_match": {"exact_match": float(right)}}}
            for text, _, right in EACH]}]),
    "verifiers": ("results.jsonl", [
        {"example_id": 0, "prompt": ASK, "completion": turns, "answer": "4", "error": None,
         "reward": float(right), "metrics": {}} for _, turns, right in EACH]),
    "qwen-math": ("test.jsonl", [
        {"idx": 0, "question": "2+2?", "gt": "4", "code": TEXTS, "pred": ["4", "5"],
         "report": [None, None], "score": [True, False]}]),
    "open-r1": ("rows.jsonl", [
        {"uuid": "u", "problem": "2+2?", "answer": "4", "generations": TEXTS,
         "correctness_math_verify": [True, False], "correctness_llama": None}]),
    "skyrl": ("gsm8k.jsonl", [
        {"input_prompt": "2+2?", "output_response": text, "score": float(right),
         "stop_reason": "stop", "env_extras": {}, "data_source": "gsm8k"}
        for text, _, right in EACH]),
    "rllm": ("episodes.jsonl", [
        {"id": f"7:{at}", "task": {"id": "7", "instruction": "2+2?"}, "is_correct": right,
         "termination_reason": "env_done",
         "trajectories": [{"steps": [{"chat_completions": [*ASK, *turns]}]}]}
        for at, (_, turns, right) in enumerate(EACH)]),
    "open-instruct": ("completions.jsonl", [
        {"messages": [*ASK, *turns], "model_completion": text, "reference_completion": "4",
         "score": float(right)} for text, turns, right in EACH]),
    "helm": ("display_predictions.json", [
        {"instance_id": "id1", "train_trial_index": at, "predicted_text": text,
         "stats": {"num_output_tokens": 3.0, "exact_match": float(right)}}
        for at, (text, _, right) in enumerate(EACH)]),
    "nemo-rl": ("val_data_step5.jsonl", [
        {"content": [[*ASK, *turns]], "rewards": [float(right)], "idx": at}
        for at, (_, turns, right) in enumerate(EACH)]),
    "openrlhf": ("out.jsonl", [
        {"input": "2+2?", "output": text, "reward": float(right)} for text, _, right in EACH]),
}  # fmt: skip
WITHOUT_VERDICTS = {"alpaca-eval"}
OF_OTHER_TESTS = {"jsonl", "evalplus", "lighteval", "lm-eval", "trl", "verl"}


def test_every_format_has_its_file_here():
    names = {*FILES, *WITHOUT_VERDICTS, *OF_OTHER_TESTS}
    assert names == set(registry.names("formats"))


@pytest.mark.parametrize("name", FILES)
def test_pass_at_k_is_that_of_one_right_of_two(rlvr, store, name):
    file, rows = FILES[name]
    path = store(file, *rows) if file.endswith(".jsonl") else store(file, rows)
    ran = rlvr("eval-passk", path, "--k", "1,2", "--json")
    assert ran.code == 0, ran.err
    figures = json.loads(ran.out)["metrics"]
    assert (figures["pass@1"][0], figures["pass@2"][0]) == (0.5, 1.0)


@pytest.mark.parametrize("name", FILES)
def test_the_other_commands_take_it_too(rlvr, store, tmp_path, name):
    file, rows = FILES[name]
    path, again = (store(f"{run}/{file}", *(rows if file.endswith(".jsonl") else [rows]))
                   for run in "ab")  # fmt: skip
    lines = (("ucc", path, "--threshold", "0.8"), ("diversity", path), ("compare", path, again),
             ("import", path, "--out", tmp_path / "in"))  # fmt: skip
    for words in lines:
        ran = rlvr(*words)
        assert ran.code == 0, (words[0], ran.err)
    rows = pq.read_table(tmp_path / "in" / "rollouts").to_pylist()
    assert [row["completion"] for row in rows] == TEXTS
    scores = pq.read_table(tmp_path / "in" / "scores").to_pylist()
    assert [row["correct"] for row in scores] == [True, False]
