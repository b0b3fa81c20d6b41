import json
import shutil

import pytest


@pytest.fixture
def better(rlvr, jsonl, tmp_path):
    """The prompts of `known` with every completion right."""
    rows = [
        {"id": name, "prompt": f"{answer}=", "answer": str(answer), "correct": True,
         "completion": f"{answer - i}+{i}"}
        for name, answer in (("b", 6), ("a", 5)) for i in range(1, 5)
    ]  # fmt: skip
    rlvr("import", jsonl(*rows), "--out", tmp_path / "better")
    return tmp_path / "better" / "scores"


def test_the_difference_is_second_minus_first(rlvr, known, better):
    ran = rlvr("compare", known / "scores", better)
    assert ran.code == 0 and ran.err == ""
    (row,) = [line for line in ran.out.splitlines() if line.startswith("pass@1")]
    assert "37.5%" in row and "100.0%" in row and "+62.5%" in row


def test_json_is_one_object_with_both_and_the_difference(rlvr, known, better):
    summary = json.loads(rlvr("compare", known / "scores", better, "--json").out)
    cells = summary["metrics"]["pass@1"]
    assert [cells[name][0] for name in ("first", "second", "difference")] == [0.375, 1, 0.625]


def test_what_changed_is_named_by_prompt_and_by_difficulty(rlvr, jsonl):
    first = jsonl(*({"id": i, "correct": c} for i, c in enumerate([[0, 0], [1, 0], [1, 1]])))
    rows = ({"id": i, "correct": c} for i, c in enumerate([[1, 0], [0, 0], [1, 1]]))
    second = jsonl(*rows, name="second.jsonl")
    summary = json.loads(rlvr("compare", first, second, "--json").out)
    assert (summary["gained"], summary["lost"], summary["crossings"]) == (["0"], ["1"], [])
    assert [(b["prompts"], b["gained"], b["lost"]) for b in summary["flips"]] == [
        (1, 1, 0), (0, 0, 0), (0, 0, 0), (1, 0, 1), (1, 0, 0),
    ]  # fmt: skip
    out = rlvr("compare", first, second).out
    assert "gained: 0" in out and "lost: 1" in out and "neither ahead at k = 1" in out


def test_prompts_are_paired_whatever_their_order(rlvr, jsonl):
    rows = [{"id": i, "correct": [i % 2, 0]} for i in range(6)]
    turned = jsonl(*rows[::-1], name="turned.jsonl")
    summary = json.loads(rlvr("compare", jsonl(*rows), turned, "--json").out)
    assert {cells["difference"][0] for cells in summary["metrics"].values()} == {0}
    assert summary["gained"] == summary["lost"] == []


def test_three_are_compared_with_the_first_and_drawn(rlvr, jsonl):
    paths = [
        jsonl(*({"id": i, "correct": [1] * c + [0] * (4 - c)} for i, c in enumerate(counts)),
              name=f"{name}.jsonl")
        for name, counts in (("base", [1, 1]), ("sharp", [4, 0]), ("worse", [1, 0]))
    ]  # fmt: skip
    ran = rlvr("compare", *paths, "--plot")
    assert ran.out.count("second - first") == 2 and ran.code == 0
    assert "second ahead at k = 1, first from k = 3" in ran.out
    assert "Pass@K against Pass@1" in ran.out
    summary = json.loads(rlvr("compare", *paths, "--json").out)
    assert [on for *_, on in summary["frontier"]] == [True, True, False]
    assert len(summary["others"]) == 1


def test_a_directory_differs_in_nothing_from_itself(rlvr, known):
    summary = json.loads(rlvr("compare", known / "scores", known / "scores", "--json").out)
    assert {cells["difference"][0] for cells in summary["metrics"].values()} == {0}
    assert {cells["verdict"] for cells in summary["metrics"].values()} == {
        "too few prompts to tell"
    }


def test_a_verdict_is_that_of_the_exact_test_of_mcnemar(rlvr, jsonl):
    def file(name: str, right: int):
        return jsonl(*({"id": i, "correct": int(i < right)} for i in range(20)), name=name)

    for gained, word in ((5, "no clear difference"), (6, "better")):  # of none lost: 2 / 2**gained
        paths = file("first.jsonl", 10), file("second.jsonl", 10 + gained)
        cells = json.loads(rlvr("compare", *paths, "--json").out)["metrics"]["pass@1"]
        assert cells["p"] == pytest.approx(2 / 2**gained, rel=0.03)
        assert (cells["interval"], cells["verdict"]) == ("Gaffke", word)
        assert (cells["difference"][1] > 0) == (word == "better")
        assert f"{word}: pass@1" in rlvr("compare", *paths).out


def test_more_than_two_runs_are_judged_together(rlvr, jsonl):
    paths = [
        jsonl(*({"id": i, "correct": int(i < right)} for i in range(20)), name=f"{right}.jsonl")
        for right in (10, 16, 17)
    ]
    ran = rlvr("compare", *paths)
    assert "verdicts hold for 2 comparisons together (Holm); each interval is 95%" in ran.out
    # 2 / 2**7 is below 0.05 / 2 and the next, 2 / 2**6, below 0.05.
    assert ran.out.count("better: pass@1") == 2
    lines = rlvr("compare", paths[0], paths[1], paths[0]).out
    assert "better: pass@1" not in lines and "[+2.3%" in lines


def test_other_prompts_are_refused_by_one_of_them(refused, known, chain):
    err = refused(3, "compare", known / "scores", chain / "scores")
    assert "`a` is in one of them only" in err or "`expression-" in err


@pytest.mark.parametrize(
    ("second", "message"), [("rollouts", "scores were expected"), ("nope", "does not exist")]
)
def test_another_directory_than_scores_is_refused(refused, known, second, message):
    assert message in refused(3, "compare", known / "scores", known / second)


def test_a_run_without_an_evaluation_is_refused(refused, known, tmp_path):
    (tmp_path / "config.toml").write_text("")
    assert "no complete evaluation" in refused(3, "compare", known / "scores", tmp_path)


def test_one_path_is_not_enough(refused, known):
    assert "takes two arguments or more" in refused(2, "compare", known / "scores")


def test_files_of_other_tools_can_lack_completions(rlvr, known, jsonl):
    rows = [{"id": i, "correct": [True, False]} for i in "ab"]
    summary = json.loads(rlvr("compare", known / "scores", jsonl(*rows), "--json").out)
    assert set(summary["metrics"]) == {"pass@1", "pass@2", "avg@k"}


def test_rollouts_that_are_gone_are_named(refused, known, tmp_path):
    shutil.copytree(known / "scores", tmp_path / "scores")
    err = refused(3, "compare", known / "scores", tmp_path / "scores")
    assert f"`{tmp_path / 'rollouts'}` does not exist" in err
