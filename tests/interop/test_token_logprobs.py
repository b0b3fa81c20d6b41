"""The log-probs of tokens, in the layouts of servers and trainers."""

import pytest

from rlvr_cli.interop import spoken, token_logprobs
from rlvr_cli.interop.token_logprobs import Sampled

TWO = [-0.25, -1.5]


@pytest.mark.parametrize(
    "row, expected",
    [
        ({"completion": "a b"}, None),
        ({"rollout_log_probs": None, "token_ids": [3, 4]}, None),
        # Nothing, what a request asked for, and a sum.
        ({"logprobs": []}, None),
        ({"logprobs": {"content": None, "refusal": None}}, None),
        ({"logprobs": True}, None),
        ({"logprobs": -12.5}, None),
        # slime and verl: a list a completion.
        ({"rollout_log_probs": TWO}, Sampled(TWO)),
        # prime-rl and verifiers: with the ids of the tokens.
        (
            {"completion_ids": [3, 4], "completion_logprobs": TWO},
            Sampled(TWO, [3, 4]),
        ),
        # A choice of chat completions, as OpenAI and vLLM answer; vLLM adds ids when asked.
        (
            {
                "logprobs": {
                    "content": [
                        {"token": "a", "bytes": [97], "logprob": -0.25, "top_logprobs": []},
                        {"token": " b", "bytes": [32, 98], "logprob": -1.5, "top_logprobs": []},
                    ],
                    "refusal": None,
                },
                "token_ids": [3, 4],
            },
            Sampled(TWO, [3, 4], ["a", " b"]),
        ),
        # A choice of completions.
        (
            {
                "logprobs": {
                    "tokens": ["a", " b"],
                    "token_logprobs": TWO,
                    "top_logprobs": [None, None],
                    "text_offset": [0, 1],
                }
            },
            Sampled(TWO, texts=["a", " b"]),
        ),
        # SGLang's /generate.
        (
            {"meta_info": {"output_token_logprobs": [[-0.25, 3, None], [-1.5, 4, None]]}},
            Sampled(TWO, [3, 4]),
        ),
        ({"logprobs": [0.0, 1e-7]}, Sampled([0.0, 1e-7])),  # rounding of a certain token
    ],
)
def test_every_layout_is_read(row, expected):
    assert token_logprobs.read(row) == expected


def test_a_row_of_several_completions_has_a_list_for_each():
    row = {"rollout_log_probs": [TWO, [-3.0]], "completion_ids": [[3, 4], [5]]}
    assert token_logprobs.read(row, 0, 2) == Sampled(TWO, [3, 4])
    assert token_logprobs.read(row, 1, 2) == Sampled([-3.0], [5])


@pytest.mark.parametrize(
    "row, expected",
    [
        ({"rollout_log_probs": [TWO], "completion_ids": [[3, 4]]}, Sampled(TWO, [3, 4])),
        ({"logprobs": [[-0.5, -1.0, -1.5]]}, Sampled([-0.5, -1.0, -1.5])),
        ({"output_token_logprobs": [[-0.25, 3, None]]}, Sampled([-0.25], [3])),
        ({"output_token_logprobs": [[-0.25, 3, "a"]]}, Sampled([-0.25], [3])),
    ],
)
def test_a_list_of_one_completion_is_none_of_one_token(row, expected):
    assert token_logprobs.read(row) == expected


@pytest.mark.parametrize(
    "row, of, message",
    [
        ({"logprobs": [-0.5, None]}, 1, "None among its log-probs"),
        ({"logprobs": [-0.5, float("nan")]}, 1, "nan among its log-probs"),
        ({"logprobs": [-0.5, float("-inf")]}, 1, "-inf among its log-probs"),
        ({"logprobs": [0.5]}, 1, "0.5 among its log-probs"),  # a probability
        ({"logprobs": [True]}, 1, "True among its log-probs"),
        ({"logprobs": [[-0.5], [-0.25]]}, 1, "among its log-probs"),
        ({"logprobs": TWO, "token_ids": [1, 2, 3]}, 1, "2 log-probs and 3 token ids"),
        ({"logprobs": TWO, "token_ids": ["a", "b"]}, 1, "2 log-probs and 2 token ids"),
        ({"logprobs": TWO, "token_ids": "ab"}, 1, "no list of token ids"),
        ({"logprobs": TWO}, 2, "is not a list for each of 2 completions"),
        ({"logprobs": [TWO]}, 2, "is not a list for each of 2 completions"),
    ],
)
def test_what_is_something_else_is_refused(row, of, message):
    with pytest.raises(ValueError, match=message):
        token_logprobs.read(row, 0, of)


def choice(*logp: float, **more) -> dict:
    content = [{"token": "a", "logprob": each} for each in logp]
    return {"message": {"role": "assistant", "content": "a" * len(logp)}, "finish_reason": "stop",
            "logprobs": {"content": content}} | more  # fmt: skip


@pytest.mark.parametrize(
    "row",
    [
        {"choices": [choice(*TWO), choice(-3.0)]},
        {"response": {"choices": [choice(*TWO), choice(-3.0)]}},
        {"response": {"status_code": 200, "body": {"choices": [choice(*TWO), choice(-3.0)]}}},
        {"responses": [{"choices": [choice(*TWO)]}, {"choices": [choice(-3.0)]}]},
    ],
)
def test_those_of_a_response_s_choices_are_read(row):
    row = spoken.unpacked(row, ("response", "responses"))
    read = [token_logprobs.read(row, number, 2) for number in range(2)]
    assert read == [Sampled(TWO, texts=["a", "a"]), Sampled([-3.0], texts=["a"])]


def test_the_ids_of_a_sole_choice_are_its_completion_s():
    row = spoken.unpacked({"choices": [choice(*TWO, token_ids=[3, 4])]}, ("completion",))
    assert token_logprobs.read(row) == Sampled(TWO, [3, 4], ["a", "a"])


def test_choices_without_log_probs_have_none():
    row = spoken.unpacked({"choices": [choice(-1.0, logprobs=None)]}, ("completion",))
    assert token_logprobs.read(row) is None
