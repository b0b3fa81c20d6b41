"""Errors of the machine and of what is read are a user's; those of the code stay defects."""

import errno
import os

import pytest

from rlvr_cli.cli import faults


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.EMFILE, "Too many open files", "a/b"), "`a/b`: Too many open files"),
        (OSError(errno.EXDEV, "Invalid link", "a", None, "b"), "`a`: `b`: Invalid link"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "OSError: No space left on device"),
        (MemoryError(), "memory"),
        (ImportError("lib.so: failed to map segment from shared object"), "memory"),
        (RecursionError("maximum recursion depth exceeded"), "nests too deep"),
        (RuntimeError("can't start new thread"), "no further thread"),
        (UnicodeEncodeError("ascii", "é", 0, 1, "ordinal"), "'\\xe9' cannot be written as ascii"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"), "bytes that are no utf-8"),
    ],
)
def test_an_error_of_the_machine_is_a_line_with_a_hint(error, said):
    explained = faults.explained(error)
    assert explained and said in str(explained) and explained.hint


@pytest.mark.parametrize("error", [KeyError("a"), TypeError("a"), RuntimeError("a"), ImportError()])
def test_an_error_of_the_code_is_none(error):
    assert faults.explained(error) is None


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "9" * 5_000])
def test_what_cannot_be_parsed_is_refused_with_its_file(refused, tmp_path, text):
    data, config = tmp_path / "rows.jsonl", tmp_path / "run.toml"
    data.write_text(f'{{"prompt": {text}\n' * 2)
    config.write_text(f"[train]\nsteps = {text}\n")
    assert f"`{data}` line 1 is not JSON" in refused(3, "prompts", data)
    assert f"`{config}`" in refused(2, "train", "--config", config, "--dry-run")


def test_a_row_of_a_tool_in_another_shape_is_refused_with_its_number(refused, jsonl):
    rows = [{"input": "2+2?", "output": "4", "reward": 1.0}, {"input": "2+2?", "reward": 1.0}]
    err = refused(3, "eval-passk", jsonl(*rows))
    assert "row 2 has the columns of openrlhf and another shape: KeyError" in err


def test_a_verifier_that_is_no_text_is_refused(refused, jsonl):
    path = jsonl({"prompt": "1+1?", "answer": "2", "verifier": [1]})
    assert "its `verifier` is [1]" in refused(3, "prompts", path, "--out", path.parent / "out")


@pytest.mark.parametrize("value", ["1e400", "inf", "nan"])
def test_an_option_that_is_no_finite_number_is_refused(refused, value):
    assert "--max-mb" in refused(2, "report", "scores", "--max-mb", value)


def test_a_working_directory_that_is_gone_is_said(refused, tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    said = refused(1, "list", "objectives")
    assert "the folder that this shell is in was removed" in said and "`cd` to another" in said
