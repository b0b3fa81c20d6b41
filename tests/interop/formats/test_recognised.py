"""The keys of each tool's rows are recognised by its format alone, and other rows by none."""

import pytest

from rlvr_cli import registry

ROWS = {
    "evalplus": ["date hash eval", "date hash eval pass_at_k", "task_id solution",
                 "task_id solution _identifier"],
    "bigcodebench": ["date eval"],
    "livecodebench": ["question_title question_content platform question_id contest_id difficulty "
                      "contest_date starter_code output_list code_list graded_list pass@1 metadata",
                      "question_id test_id output_list pred_list",
                      "question_id code input output id problem_id numsteps output_list pred_list"],
    "inspect-ai": ["version status eval plan results stats samples",
                   "version eval plan samples", "version status eval plan results stats"],
    "opencompass": ["0 1 2", "accuracy details", "score details", "humaneval_pass@1 details",
                    "idx origin_prompt prediction gold"],
    "nemo-skills": ["generation problem expected_answer predicted_answer symbolic_correct id",
                    "generation judgement problem", "num_generated_tokens symbolic_correct",
                    "num_generated_tokens is_correct is_correct-plus"],
    "simple-evals": ["score metrics htmls convos metadata"],
    "olmo-eval": ["doc_id native_id model_output instance_metrics label final_output",
                  "doc_id native_id metrics model_output label task_hash model_hash"],
    "verifiers": ["id prompt completion task generation_ms scoring_ms total_ms answer reward",
                  "example_id prompt completion answer reward error timing metrics",
                  "version id task agent tools nodes rewards metrics stop_condition",
                  "id task env_id ok errors traces"],
    "qwen-math": ["idx question gt_cot gt code pred report score type level solution answer"],
    "open-r1": ["problem solution answer uuid source generations correctness_math_verify messages "
                "correctness_llama finish_reasons"],
    "skyrl": ["input_prompt output_response score stop_reason env_class env_extras data_source"],
    "rllm": ["dataset_name model agent score total correct errors items attempts",
             "id task termination_reason is_correct trajectories metrics"],
    "open-instruct": ["step sample_idx prompt_idx prompt_tokens response_tokens reward advantage",
                      "messages model_completion reference_completion"],
    "openrlhf": ["input output", "input output reward"],
    "alpaca-eval": ["dataset instruction output generator"],
    "lm-eval": ["doc_id doc target arguments resps filtered_resps filter metrics exact_match"],
    "verl": ["data_source prompt responses reward_model", "input output gts score step"],
    "trl": ["step prompt completion accuracy_reward advantage"],
    "helm": ["adapter_spec request_states", "adapter_spec request_states annotator_specs",
             "instance_id train_trial_index predicted_text stats"],
    "nemo-rl": ["content rewards generation_logprobs prev_logprobs input_lengths idx",
                "content rewards idx"],
    "lighteval": ["__doc__ __model_response__ __metric__", "doc model_response metric"],
}  # fmt: skip
PLAIN = [
    "id completion correct",
    "task_id completion result passed",
    "prompt_id sample_index completion reward extracted",
    "problem answer solution",
    "question answer",
    "instruction input output",
    "id problem generation is_correct",
    "id messages completion",
    "uuid problem generations",
    "results config",
    "model details",
    "version data",
    "task prompt response",
]


@pytest.mark.parametrize(("name", "keys"), [(n, k) for n, rows in ROWS.items() for k in rows])
def test_the_rows_of_a_tool(name, keys):
    assert _recognising(keys) == [name]


@pytest.mark.parametrize("keys", PLAIN)
def test_plain_rows_are_no_tools(keys):
    assert _recognising(keys) == []


def test_every_tool_has_rows_here():
    assert sorted(ROWS) == sorted(set(registry.names("formats")) - {"jsonl"})


def _recognising(keys):
    names = registry.names("formats")
    return [n for n in names if registry.module("formats", n).recognises(set(keys.split()))]
