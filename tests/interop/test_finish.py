"""The words by which servers and tools say why a completion ended."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlvr_cli.errors import DataError
from rlvr_cli.interop import finish
from rlvr_cli.interop.completions import Columns, Stream


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        *((word, "stop") for word in (
            "stop",  # OpenAI, vLLM
            "eos_token", "stop_sequence",  # TGI
            "end_turn",  # Anthropic, Bedrock
            "STOP", "FinishReason.STOP",  # Gemini, and its Python client's enumeration
            "COMPLETE",  # Cohere
            "eos",  # llama.cpp
            "completed",  # the Responses API
            {"type": "stop", "matched": 151645},  # SGLang
            False,  # is_truncated
            "False",  # the same in CSV
        )),
        *((word, "length") for word in (
            "length", "max_tokens", "MAX_TOKENS", "model_length", "max_length", "incomplete",
            "limit", {"type": "length", "length": 512}, True,
        )),
        ("abort", "abort"), ("cancelled", "abort"), ("error", "abort"), ("network_error", "abort"),
        ("insufficient_system_resource", "abort"),
        *((word, None) for word in (
            None, "", "null", float("nan"), "unknown", "tool_calls", "tool_use", "content_filter",
            "refusal", "SAFETY", "FINISH_REASON_UNSPECIFIED", "content_filter: PROHIBITED_CONTENT",
            "sensitive", "load", "repetition",
        )),
    ],
)  # fmt: skip
def test_the_words_of_servers_are_read(word, reason):
    assert finish.read(word) == reason


@pytest.mark.parametrize("word", ["tired", 151645, [], {"type": "greedy"}])
def test_other_words_are_no_reasons(word):
    with pytest.raises(ValueError):
        finish.read(word)


def reasons(path, **columns):
    wanted = {"completion", "finish"}
    batches = list(Stream(path, Columns(**columns), wanted=wanted))
    return [r for batch in batches for r in batch.finish.to_pylist()]


@pytest.mark.parametrize(
    "row",
    [
        {"completions": ["a", "b"], "finish_reasons": ["stop", "length"]},  # OpenR1-Math-220k
        {"text": ["a", "b"], "meta_info": {"finish_reason": [{"type": "stop"},
                                                             {"type": "length"}]}},
        {"completions": ["a", "b"], "is_truncated": [False, True]},
    ],
)  # fmt: skip
def test_reasons_are_found_under_the_names_that_tools_use(tmp_path, row):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"uuid": "x", "id": 1} | row) + "\n")
    assert reasons(path) == ["stop", "length"]


def test_reasons_of_plain_parquet_files_are_read_too(tmp_path):
    rows = [{"id": "a", "completion": c, "stop_reason": r}
            for c, r in (("x", "end_turn"), ("y", "max_tokens"), ("z", None))]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    assert reasons(tmp_path / "rows.parquet") == ["stop", "length", None]
    pq.write_table(pa.Table.from_pylist([rows[0] | {"stop_reason": "x"}]), tmp_path / "o.parquet")
    with pytest.raises(DataError, match=r"o\.parquet` row 1 has `stop_reason` = `x`"):
        reasons(tmp_path / "o.parquet")
