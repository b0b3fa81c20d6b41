"""What masks drop is said, with an algorithm that drops nothing."""

import json

import pytest


@pytest.fixture(scope="module")
def sampled(tmp_path_factory):
    """A file of completions that their sampler was much surer of than the policy is."""
    path = tmp_path_factory.mktemp("sampled") / "rows.jsonl"
    rows = [
        {"id": "a", "prompt": "5=", "completion": text, "reward": float(text == "2+3"),
         "finish_reason": "length", "rollout_log_probs": [-0.01] * len(text)}
        for text in ("2+3", "8+8-7-6+8-7-7", "9*9-8*8-7-7-7", "7+7+7+7-8-8-8")
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def updated(rlvr, sampled, tmp_path):
    """What an update by an algorithm says, and its summary."""
    rlvr("import", sampled, "--model", "builtin", "--out", tmp_path)

    def run(algo):
        out = tmp_path / f"of-{len(list(tmp_path.iterdir()))}"
        rlvr("advantage", tmp_path / "scores", "--algo", algo, "--out", out)
        ran = rlvr("train-step", out, "--model", "builtin", "--out", out / "update", "--json")
        assert ran.code == 0, ran.err
        warned = [line for line in ran.err.splitlines() if "warning:" in line]
        return warned, json.loads(ran.out)

    return run


@pytest.mark.parametrize(
    "algo, share, named",
    [
        ("dapo+is-correction:kind=sequence-mask+iac", "correction_lost", "dapo+iac+is-correction"),
        ("grpo+is-correction:kind=sequence-tis", "correction_lost", "grpo+is-correction"),
        ("grpo+is-correction+reject:by=k1", "rejected", "grpo+is-correction"),
        ("grpo+off-policy-mask", "off_policy_masked", "grpo+is-correction"),
        (
            "grpo+is-correction:cap=3+off-policy-mask",
            "off_policy_masked",
            "grpo+is-correction:cap=3.0",
        ),
    ],
)
def test_what_leaves_much_without_weight_is_named_with_what_does_not(updated, algo, share, named):
    (warning,), summary = updated(algo)
    assert summary[share] > 0.2 and f"` leaves {summary[share]:.0%} of the tokens" in warning
    assert warning.split("`")[-2] == named


def test_the_algorithm_that_is_named_drops_nothing(updated):
    warned, summary = updated("grpo+is-correction")
    assert warned == [] and summary["correction_lost"] < 0.2


def test_nothing_is_said_of_a_mask_that_drops_little(updated):
    assert updated("grpo+reject:above=100")[0] == []
