"""The flat numbers of a line of metrics.jsonl."""

from rlvr_cli.tracking import figures


def test_names_are_those_of_metrics_jsonl_and_nested_ones_have_a_slash():
    record = {
        "step": 3,
        "reward": 0.5,
        "updates": 2,
        "seconds": {"rollout": 1.5},
        "eval": {"pass@1": [0.25, 0.2, 0.3]},
        "sources": {"gsm8k": {"reward": 1.0, "eval": {"pass@1": [0.5, 0.4, 0.6]}}},
    }
    assert figures.flat(record) == (
        {
            "reward": 0.5,
            "updates": 2.0,
            "seconds/rollout": 1.5,
            "eval/pass@1": 0.25,
            "eval/pass@1_low": 0.2,
            "eval/pass@1_high": 0.3,
            "sources/gsm8k/reward": 1.0,
            "sources/gsm8k/eval/pass@1": 0.5,
            "sources/gsm8k/eval/pass@1_low": 0.4,
            "sources/gsm8k/eval/pass@1_high": 0.6,
        },
        [],
    )


def test_what_is_null_or_not_finite_is_left_out():
    record = {"step": 0, "kl": None, "loss": float("nan"), "eval": {"ucr": [1.0, None, None]}}
    assert figures.flat(record) == ({"eval/ucr": 1.0}, [])


def test_what_is_no_number_is_named():
    assert figures.flat({"step": 0, "note": "x", "pair": [1, 2]}) == ({}, ["note", "pair"])
