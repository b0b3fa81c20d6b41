"""Logs as in `tests/log/test_eval_log/` of UKGovernmentBEIS/inspect_ai, rebuilt small."""

import json
import zipfile

import pytest

from rlvr_cli.errors import DataError
from rlvr_cli.evaluation.pass_at_k import tally
from rlvr_cli.interop.completions import Stream


def sample(name, epoch=1, content="it is 4", stop="stop", **scores):
    return {"id": name, "epoch": epoch, "input": f"{name}?", "target": "4",
            "messages": [{"role": "user", "content": f"{name}?"}],
            "output": {"model": "m", "choices": [{"message": {"role": "assistant",
                       "content": content}, "stop_reason": stop}]},
            "scores": {name: {"value": value, "answer": "4"} for name, value in scores.items()},
            "metadata": {}, "attachments": {"5c8e": "it is a long 4"}}  # fmt: skip


def header(*scorers):
    return {
        "version": 2,
        "status": "success",
        "eval": {"task": "popularity", "config": {}},
        "plan": {"name": "plan"},
        "stats": {},
        "results": {"scores": [{"name": name, "scorer": name} for name in scorers]},
    }


def log(*samples, scorers=("match",)):
    return header(*scorers) | {"samples": [*samples]}


def zipped(path, *samples, scorers=("match",), method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("_journal/start.json", json.dumps({"version": 2, "eval": {"task": "t"}}))
        for one in samples:
            archive.writestr(f"samples/{one['id']}_epoch_{one['epoch']}.json", json.dumps(one))
        archive.writestr("summaries.json", json.dumps([{"id": "a", "scores": {}}]))
        archive.writestr("header.json", json.dumps(header(*scorers)))
    return path


def test_epochs_are_the_samples_of_a_prompt(store, counts):
    path = store("log.json", log(sample("a", 1, match="C"), sample("a", 2, match="I"),
                                 sample("b", 1, match="N"), sample("b", 2, match="C")))  # fmt: skip
    assert counts(path) == {"a": (2, 1), "b": (2, 1)}
    tallied, _ = tally(path, texts=True)
    assert (tallied.source, tallied.texts[0]) == (["popularity"] * 2, ["it is 4"])


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
def test_eval_files_hold_the_same(tmp_path, counts, method):
    path = zipped(tmp_path / "log.eval", sample("a", 1, match=1), sample("a", 2, match=0.0),
                  method=method)  # fmt: skip
    assert counts(path) == {"a": (2, 1)}


def test_partly_right_is_neither_right_nor_wrong(store):
    with pytest.raises(DataError, match=r"`0\.5`"):
        tally(store("log.json", log(sample("a", match="C"), sample("b", match="P"))))


def test_a_value_that_inspect_does_not_know_is_named(store):
    with pytest.raises(DataError, match="`maybe`"):
        tally(store("log.json", log(sample("a", match="maybe"))))


def test_samples_without_a_score_have_no_verdict(store, verdicts):
    # NaN is Inspect's mark of a sample that a scorer could not judge.
    rows = log(sample("a", match="C"), sample("b"), sample("c", match=float("nan")))
    assert verdicts(store("log.json", rows)) == [1, -1, -1]


def test_of_several_scorers_the_logs_first_counts_and_others_can_be_named(store, counts):
    graded = {"strict": True, "loose": 0}
    rows = log(sample("a", includes="C", match="I", rubric=graded), scorers=("match", "includes"))
    path = store("log.json", rows)
    assert counts(path) == {"a": (1, 0)}
    assert counts(path, correct="includes") == {"a": (1, 1)}
    assert counts(path, correct="rubric.strict") == {"a": (1, 1)}
    assert counts(path, correct="rubric.loose") == {"a": (1, 0)}


def test_parts_attachments_and_ends_of_completions(store):
    parts = [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "4"}]
    path = store("log.json", log(sample("a", content=parts, match="C"),
                                 sample("b", content="attachment://5c8e", match="C"),
                                 sample("c", stop="max_tokens", match="C")))  # fmt: skip
    (batch,) = Stream(path, wanted={"completion", "finish"})
    assert batch.completion.to_pylist() == ["4", "it is a long 4", "it is 4"]
    assert batch.finish.to_pylist() == ["stop", "stop", "length"]


def test_a_log_without_samples_holds_no_rows(store):
    with pytest.raises(DataError, match="holds no rows"):
        tally(store("log.json", header("match")))
