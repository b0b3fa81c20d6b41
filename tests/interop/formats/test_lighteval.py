"""Details with several metrics, as `lighteval/logging/` of huggingface/lighteval stores them."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlvr_cli.errors import DataError
from rlvr_cli.evaluation.pass_at_k import tally


def details(tmp_path, *metrics, texts=("it is 4",)):
    rows = [{"doc": {"id": str(i), "query": "q", "task_name": "math", "choices": ["4"],
                     "gold_index": [0]},
             "model_response": {"text": [*texts]}, "metric": metric}
            for i, metric in enumerate(metrics)]  # fmt: skip
    path = tmp_path / "details_math_2026-01-01T00-00-00.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def test_of_several_metrics_a_known_one_counts_and_others_can_be_named(tmp_path, counts):
    path = details(tmp_path, {"f1": 0.4, "em": 0.0, "qem": 1.0}, {"f1": 1.0, "em": 1.0, "qem": 1.0})
    assert counts(path) == {"0": (1, 0), "1": (1, 1)}
    assert counts(path, correct="qem") == {"0": (1, 1), "1": (1, 1)}


def test_a_graded_metric_is_no_verdict(tmp_path):
    with pytest.raises(DataError, match=r"`0\.4`"):
        tally(details(tmp_path, {"f1": 1.0}, {"f1": 0.4}))


def test_of_several_unknown_metrics_none_is_taken(tmp_path):
    with pytest.raises(DataError, match="does not say which completions are correct"):
        tally(details(tmp_path, {"rouge1": 1.0, "rougeL": 0.0}))
