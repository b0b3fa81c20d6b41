import json

import pytest

from rlvr_cli.storage import metrics_log

RECORDS = [
    {"step": step, "reward": step / 7, "seconds": {"rollout": 0.25 * step}} for step in range(4)
]


@pytest.fixture
def run(tmp_path):
    metrics_log.write(tmp_path, RECORDS[:2])
    for record in RECORDS[2:]:
        metrics_log.append(tmp_path, record)
    return tmp_path


def change(run, number, line):
    """Writes bytes in the place of a line."""
    lines = (run / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    lines[number - 1] = line
    (run / "metrics.jsonl").write_bytes(b"".join(lines))


def test_what_was_logged_is_read(run):
    logged = metrics_log.read(run)
    assert list(logged.records.values()) == RECORDS
    assert logged.damaged == []
    assert logged.seconds[3] == {"rollout": 0.75}


@pytest.mark.parametrize(
    "line",
    [
        b"\0" * 40 + b"\n",
        b"\xff\xfe\n",
        b"[]\n",
        b"7\n",
        b"null\n",
        b'"step"\n',
        b'{"reward": 1}\n',
        b'{"step": "2"}\n',
        b'{"step": true}\n',
        b'{"step": -1}\n',
        b'{"step": 2, "reward": NaN}\n',
        b'{"step": 2, "reward": 1e999}\n',
        b"[" * 100_000 + b"\n",
        b"\n",
    ],
)
def test_a_line_that_is_no_record_is_named_and_the_others_stay(run, line):
    change(run, 3, line)
    logged = metrics_log.read(run)
    assert logged.damaged == [3]
    assert list(logged.records) == [0, 1, 3]


def test_a_changed_figure_is_noticed_and_its_seconds_are_kept(run):
    change(run, 2, json.dumps(RECORDS[1] | {"reward": 9.0}).encode() + b"\n")
    logged = metrics_log.read(run)
    assert logged.damaged == [2]
    assert 1 not in logged.records
    assert logged.seconds[1] == {"rollout": 0.25}


def test_a_torn_last_line_is_named(run):
    whole = (run / "metrics.jsonl").read_bytes()
    (run / "metrics.jsonl").write_bytes(whole[:-20])
    assert metrics_log.read(run).damaged == [4]


def test_a_log_without_digests_is_taken_as_it_is(run):
    (run / "_metrics.sha256").unlink()
    change(run, 2, json.dumps(RECORDS[1] | {"reward": 9.0}).encode() + b"\n")
    assert metrics_log.read(run).damaged == []


def test_damaged_digests_do_no_harm_to_more_than_their_line(run):
    text = (run / "_metrics.sha256").read_bytes()
    (run / "_metrics.sha256").write_bytes(b"\0\xff" + text[2:])
    assert metrics_log.read(run).damaged == []
