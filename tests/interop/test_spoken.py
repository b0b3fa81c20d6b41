"""What a model wrote, out of the messages, parts and responses that servers and tools store."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlvr_cli.errors import DataError
from rlvr_cli.interop import spoken
from rlvr_cli.interop.completions import Columns, Stream

ASKED = {"role": "user", "content": "What is 2+2?"}
CALL = {"id": "call_1", "type": "function", "function": {"name": "python", "arguments": "{}"}}


def said(text, **more):
    return {"role": "assistant", "content": text, **more}


def completions(path, *, wanted=("completion", "finish"), **columns):
    batches = list(Stream(path, Columns(**columns), wanted=set(wanted)))
    texts = [t for b in batches for t in b.completion.to_pylist()]
    ends = [r for b in batches if b.finish is not None for r in b.finish.to_pylist()]
    return texts, ends


def lines(tmp_path, *rows):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("4", "4"), (None, None), (float("nan"), None), (4, "4"),
        ([said("4")], "4"),
        (said("4"), "4"),
        ([said(None, tool_calls=[CALL])], ""),
        # verifiers of Prime Intellect stores the prompt's turn and those of tools too
        ([ASKED, said("", tool_calls=["{}"]), {"role": "tool", "content": "4\n"}, said("It is 4.")],
         "It is 4."),
        ([said("Let me see."), {"role": "tool", "content": "4"}, said("4")], "Let me see.\n\n4"),
        ([{"from": "human", "value": "2+2?"}, {"from": "gpt", "value": "4"}], "4"),
        ([said([{"type": "text", "text": "It is "}, {"type": "text", "text": "4"}])], "It is 4"),
        ([{"type": "text", "text": "It is "}, {"type": "text", "text": "4"}], "It is 4"),
        ([said(None, refusal="I cannot.")], "I cannot."),
        # Anthropic
        (said([{"type": "text", "text": "4"}, {"type": "tool_use", "id": "t", "input": {}}]), "4"),
        (said([{"type": "thinking", "thinking": "2+2", "signature": "x"},
               {"type": "text", "text": "4"}]), "<think>\n2+2\n</think>\n\n4"),
        # Mistral
        (said([{"type": "thinking", "thinking": [{"type": "text", "text": "2+2"}]},
               {"type": "text", "text": "4"}]), "<think>\n2+2\n</think>\n\n4"),
        # Gemini
        ({"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": "4"}]},
         "<think>\nhm\n</think>\n\n4"),
        # vLLM, SGLang and DeepSeek; newer versions write both names
        ([said("4", reasoning_content="2+2", reasoning="2+2")], "<think>\n2+2\n</think>\n\n4"),
        ([said(None, reasoning_content="2+")], "<think>\n2+"),
        ({"text": "4", "meta_info": {"finish_reason": {"type": "stop"}}}, "4"),
        (["4", "5"], ["4", "5"]),
        ([[said("4")], [said("5")]], ["4", "5"]),  # TRL's conversational completions
        ([{"generated_text": "4"}, {"generated_text": "5"}], ["4", "5"]),  # of a pipeline
    ],
)  # fmt: skip
def test_the_text_is_what_the_model_wrote(value, text):
    assert spoken.texts(value) == text


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([said("4"), said("5")], "2 turns of the assistant one after the other"),
        ([ASKED], "a conversation without a turn of the assistant, of user"),
        ([ASKED, {"role": "wizard", "content": "4"}], "a message of the role `wizard`"),
        ([said([{"type": "image_url", "image_url": {"url": "x"}}])], "the kind `image_url`"),
        ({"score": 1}, "an object with score"),
        (True, "True"),
        ([True, "4"], "True"),
        ([said({"answer": 4})], "a part of the kind `answer`"),
    ],
)
def test_what_is_no_text_is_refused(value, message):
    with pytest.raises(spoken.Unreadable, match=message):
        spoken.texts(value)


def test_a_refusal_names_file_row_and_column(tmp_path):
    rows = [{"id": "a", "completion": [said("4")]}, {"id": "a", "completion": {"score": 1}}]
    path = lines(tmp_path, *rows)
    with pytest.raises(DataError, match=r"rows\.jsonl` row 2 holds no text in `completion`: an ob"):
        completions(path)


def test_verdicts_are_read_where_the_texts_are_not_asked_for(tmp_path):
    rows = [{"id": "a", "output": {"score": 1}, "correct": True}]
    rows += [{"id": "b", "solutions": [{"code": 1}, {"code": 2}], "correct": [True, False]}]
    (batch,) = Stream(lines(tmp_path, rows[0]), wanted={"correct"})
    assert batch.correct.tolist() == [1]
    (batch,) = Stream(lines(tmp_path, rows[1]), wanted={"correct"})
    assert batch.correct.tolist() == [1, 0]


def choice(text, reason, **more):
    return {"index": 0, "message": said(text, **more), "finish_reason": reason}


RESPONSE = {"id": "chatcmpl-9", "object": "chat.completion", "model": "m",
            "choices": [choice("4", "stop"), choice("5", "length")]}  # fmt: skip


@pytest.mark.parametrize(
    "row",
    [
        {"id": "a", "response": RESPONSE},
        {"id": "a", "completion": RESPONSE["choices"]},
        RESPONSE,
        # OpenAI's batches: each line has an id of its own, the request's is `custom_id`
        {"id": "batch_req_1", "custom_id": "a", "error": None,
         "response": {"status_code": 200, "request_id": "r", "body": RESPONSE}},
        {"id": "a", "responses": [RESPONSE | {"choices": [one]} for one in RESPONSE["choices"]]},
        {"id": "a", "response": {"candidates": [
            {"content": {"role": "model", "parts": [{"text": "4"}]}, "finishReason": "STOP"},
            {"content": {"role": "model", "parts": [{"text": "5"}]}, "finishReason": "MAX_TOKENS"},
        ]}},
        {"id": "a", "response": {"outputs": [{"text": "4", "finish_reason": "stop"},
                                             {"text": "5", "finish_reason": "length"}]}},  # vLLM
    ],
)  # fmt: skip
def test_responses_of_servers_have_their_choices_and_reasons(tmp_path, row):
    assert completions(lines(tmp_path, row)) == (["4", "5"], ["stop", "length"])


def test_a_response_is_found_in_a_nested_column(tmp_path):
    row = {"id": "a", "raw": {"reply": RESPONSE}}
    found = completions(lines(tmp_path, row), completion="raw.reply")
    assert found == (["4", "5"], ["stop", "length"])


@pytest.mark.parametrize(
    ("row", "text", "end"),
    [
        ({"custom_id": "a", "result": {"type": "succeeded", "message": {
            "type": "message", "role": "assistant", "stop_reason": "max_tokens",
            "content": [{"type": "text", "text": "4"}]}}}, "4", "length"),  # Anthropic's batches
        ({"id": "a", "response": {"object": "response", "status": "completed", "output": [
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "2+2"}]},
            {"type": "message", "content": [{"type": "output_text", "text": "4"}]}]}},
         "<think>\n2+2\n</think>\n\n4", "stop"),  # the Responses API
        ({"id": "resp_1", "object": "response", "status": "incomplete",
          "text": {"format": {"type": "text"}}, "output": [
              {"type": "message", "status": "incomplete", "role": "assistant",
               "content": [{"type": "output_text", "text": "4"}]}]}, "4", "length"),
        ({"id": "a", "finish_reason": "stop", "output": [
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "function_call", "name": "python", "arguments": "{}"},
            {"type": "message", "role": "assistant", "status": "completed",
             "content": [{"type": "output_text", "text": "4"}]}]}, "4", "stop"),
        ({"id": "a", "response": {"choices": [choice(None, "tool_calls", tool_calls=[CALL])]}},
         "", None),
    ],
)  # fmt: skip
def test_a_response_of_one_choice(tmp_path, row, text, end):
    assert completions(lines(tmp_path, row)) == ([text], [end])


@pytest.mark.parametrize(
    "row",
    [
        {"custom_id": "a", "response": None, "error": {"code": "batch_expired"}},
        {"custom_id": "a", "result": {"type": "errored", "error": {"type": "overloaded_error"}}},
        {"id": "a", "response": {"status_code": 500, "body": {"error": {"message": "down"}}}},
    ],
)
def test_a_request_that_failed_is_no_empty_completion(tmp_path, row):
    good = {"id": "a", "custom_id": "a", "response": RESPONSE}
    with pytest.raises(DataError, match=r"rows\.jsonl` row 2 holds an error and no completion"):
        completions(lines(tmp_path, good, row))


def test_a_choice_of_answers_is_no_response(tmp_path):
    row = {"id": "a", "choices": ["3", "4"], "correct": True}
    (batch,) = Stream(lines(tmp_path, row), wanted={"completion", "correct"})
    assert batch.completion is None and batch.correct.tolist() == [1]


def test_messages_in_parquet_are_read_too(tmp_path):
    rows = [{"id": "a", "completion": [said("4", tool_calls=None)]},
            {"id": "a", "completion": [said(None, tool_calls=["{}"])]}]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    assert completions(tmp_path / "rows.parquet", wanted={"completion"})[0] == ["4", ""]
