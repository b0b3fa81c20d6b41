"""What is said of completions without an answer, and of golds that cannot be read."""

import pytest

from rlvr_cli.stages import unanswered
from rlvr_cli.storage.shards import Shards

ROWS = [
    *({"id": "a", "answer": "2", "completion": f"I think it is {n}"} for n in range(4)),
    {"id": "b", "answer": "2", "completion": "<think> hm\n" + "m" * 100},
    {"id": "c", "answer": r"\frac{}{}", "completion": r"\boxed{2}"},
    {"id": "d", "answer": "2", "completion": r"\boxed{2}"},
]


@pytest.fixture
def scored(rlvr, jsonl, tmp_path):
    """Scores of such rows, and what the command said."""

    def score(*rows):
        imported = tmp_path / "i"
        file = jsonl(*({"prompt": row["id"], **row} for row in rows))
        assert rlvr("import", file, "--out", imported).code == 0
        words = ["score", imported / "rollouts", "--verifier", "math", "--max-error-rate", 1]
        ran = rlvr(*words, "--out", tmp_path / "s")
        assert ran.code == 0, ran.err
        return Shards.open(tmp_path / "s"), Shards.open(imported / "rollouts"), ran.err

    return score


def test_the_last_lines_of_score_say_what_has_no_answer_and_why(scored):
    scores, rollouts, err = scored(*ROWS)
    answers, golds = unanswered.remarks(scores, rollouts)
    assert [f"score: {answers}", f"score: {golds}"] == err.splitlines()[-2:]
    said = "5 of 7 completions (71.4%) have no answer, for example sample 0 of prompt `a`: "
    assert answers.startswith(said)
    assert "prompt `b`: what it thinks does not end: ...'" + "m" * 60 + "'" in answers
    said = "1 of 7 completions (14.3%) have a gold that cannot be read, for example prompt `c`: "
    assert golds.startswith(said)


def test_three_are_shown_and_reasons_that_differ_come_first(scored):
    scores, rollouts, _ = scored(*ROWS)
    answers = next(unanswered.remarks(scores, rollouts))
    assert answers.count("; ") == 2 and "sample 0 of prompt `b`" in answers


def test_a_gold_that_cannot_be_read_is_named_once(scored):
    bad = [{"id": name, "answer": r"\frac{}{}", "completion": "2"} for name in "aaaabb"]
    scores, rollouts, _ = scored(*bad)
    (golds,) = unanswered.remarks(scores, rollouts)
    assert golds.count("prompt `a`") == golds.count("prompt `b`") == 1


def test_nothing_is_said_where_every_completion_has_an_answer(scored):
    scores, rollouts, err = scored(ROWS[-1])
    assert [*unanswered.remarks(scores, rollouts), *unanswered.warnings(scores, rollouts)] == []
    assert "no answer" not in err


def test_training_is_warned_of_where_nearly_no_completion_has_an_answer(scored):
    scores, rollouts, _ = scored(*ROWS[:5])
    (warning,) = unanswered.warnings(scores, rollouts)
    assert warning.startswith(f"warning: of `{scores.path}` 5 of 5 completions (100.0%) have no")


def test_a_mean_of_no_rewards_is_unknown(scored):
    _, _, err = scored(ROWS[5])
    assert "1 completion, mean reward unknown, 1 without" in err
