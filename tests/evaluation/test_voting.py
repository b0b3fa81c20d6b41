import json
import math
import shutil

import pytest

from rlvr_cli import registry

ENDLESS = ("9^{9^{9^9}}", "8^{9^{9^9}}")  # no machine compares them within any limit
HALVES = [("7", True), ("7", True), ("1/2", False), ("0.5", False), (r"\frac{1}{2}", False)]


def rows(*answers, name="a"):
    return [
        {"id": name, "extracted": text, "correct": right, "completion": f"it is {text}"}
        for text, right in answers
    ]


@pytest.fixture
def voted(rlvr):
    """The means and what is said of the votes of eval-passk; its whole output."""
    return lambda *words: measured(rlvr, "eval-passk", "majority", words)


@pytest.fixture
def diverse(rlvr):
    """The answer entropy, if it is measured, and what is said of it; its whole output."""

    def run(*words):
        means, said, err = measured(rlvr, "diversity", "answer_entropy", words)
        return means.get("answer entropy"), said, err

    return run


def measured(rlvr, command, name, words):
    ran = rlvr(command, *words, "--json")
    assert ran.code == 0, ran.err
    made = json.loads(ran.out)
    means = {metric: values[0] for metric, values in made["metrics"].items()}
    return means, made.get(name), ran.err


@pytest.fixture
def scored(rlvr, tmp_path):
    """Completions imported with their golds and scored by a verifier; the scores directory."""

    def make(verifier, *texts, gold="7", extra=()):
        lines = [{"id": "a", "prompt": "?", "answer": gold, "completion": t} for t in texts]
        (tmp_path / "rows.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
        assert rlvr("import", tmp_path / "rows.jsonl", "--out", tmp_path / "in").code == 0
        words = ("--verifier", verifier, "--out", tmp_path / "scores", *extra)
        assert rlvr("score", tmp_path / "in/rollouts", *words).code == 0
        return tmp_path / "scores"

    return make


@pytest.mark.parametrize("name", registry.names("verifiers"))
def test_every_verifier_says_what_makes_its_answers_equal(name):
    found = registry.module("verifiers", name).EQUALITY
    assert callable(found) or found in ("text", "none")


@pytest.mark.slow
def test_spellings_of_a_number_are_one_vote_by_the_verifier_and_three_by_their_texts(voted, jsonl):
    source = jsonl(*rows(*HALVES))
    by_text, said, _ = voted(source, "--k", "1,2,4,5")
    assert said["equality"] == "text" and "--equality" in said["why"]
    by_math, said, _ = voted(source, "--k", "1,2,4,5", "--equality", "math")
    counts = [said[key] for key in ("answers", "classes", "comparisons", "unreadable", "failed")]
    assert counts == [3, 1, 2, 0, {}]
    # Two right ones against three of one class, and against three classes of one.
    assert [by_math[f"maj@{k}"] for k in (4, 5)] == pytest.approx([3 / 5 / 2, 0])
    assert [by_text[f"maj@{k}"] for k in (4, 5)] == pytest.approx([3 / 5 + 2 / 5 / 4, 1])
    assert [by_text[f"maj@{k}"] for k in (1, 2)] == pytest.approx([0.4, 0.4])
    assert [by_math[f"maj@{k}"] for k in (1, 2)] == pytest.approx([0.4, 0.4])


def test_letters_are_one_vote_however_they_are_written(voted, jsonl):
    source = jsonl(*rows(("B", True), ("B", True), ("(A)", False), ("A", False), ("A.", False)))
    _, said, _ = voted(source, "--equality", "choice")
    assert (said["answers"], said["classes"]) == (3, 1)


def test_scores_are_voted_on_by_the_verifier_that_made_them(voted, scored):
    scores = scored("number", "7", "7", "it is 5", "it is 5.0", "it is 5.00", "none")
    means, said, err = voted(scores, "--k", "6")
    assert said["equality"] == "number" and means["maj@6"] == 0
    assert "compared by `number`: 3 distinct answers in 1 class, after 2 comparisons" in err
    means, said, _ = voted(scores, "--k", "6", "--equality", "text")
    assert means["maj@6"] == 1 and said == {"equality": "text", "why": ""}


def test_the_first_part_of_a_sum_decides(voted, scored):
    scores = scored("0.9*number+0.1*format", "7", "5", "5.0")
    _, said, _ = voted(scores)
    assert (said["equality"], said["answers"], said["classes"]) == ("number", 2, 1)


@pytest.mark.slow
def test_comparisons_are_remembered(voted, jsonl):
    source = jsonl(*rows(("7", True), (r"\sqrt{8}", False), (r"2\sqrt{2}", False), ("9", False)))
    first, second = (voted(source, "--equality", "math")[1] for _ in range(2))
    assert (first["classes"], first["asked"], second["asked"]) == (2, 2, 0)
    assert {**first, "asked": 0} == second


@pytest.mark.slow
def test_a_comparison_that_takes_too_long_is_counted_and_said(voted, jsonl):
    source = jsonl(*rows(("7", True), *((power, False) for power in ENDLESS)))
    _, said, err = voted(source, "--equality", "math:timeout_s=0.5")
    assert (said["classes"], said["failed"]) == (2, {"timeout": 1})
    assert "it failed on 1 (1 timeout), counted as unequal" in err


def test_an_answer_that_the_verifier_cannot_read_is_said(voted, jsonl):
    source = jsonl(*rows(("A", True), ("B", False), ("both", False)))
    _, said, err = voted(source, "--equality", "choice")
    assert (said["classes"], said["unreadable"]) == (2, 1) and "it cannot read 1" in err


@pytest.mark.parametrize(
    ("answers", "k"),
    [(HALVES, "1,2"), ([(a, False) for a, _ in HALVES], "5"), ([HALVES[0], HALVES[2]], "2")],
)
def test_nothing_is_compared_where_it_can_change_no_figure(voted, jsonl, answers, k):
    _, said, _ = voted(jsonl(*rows(*answers)), "--equality", "math", "--k", k)
    assert said["comparisons"] == 0


def test_no_vote_is_counted_if_none_is_wanted(voted, jsonl):
    means, said, _ = voted(jsonl(*rows(*HALVES)), "--equality", "none", "--k", "1")
    assert list(means) == ["pass@1", "avg@k"] and said is None


def test_verifiers_without_equality_are_refused_by_name(refused, jsonl):
    source = jsonl(*rows(*HALVES))
    for name in ("expression", "code"):
        err = refused(2, "eval-passk", source, "--equality", name)
        assert f"`{name}` does not define which answers are equal" in err
    assert "unknown verifier" in refused(2, "eval-passk", source, "--equality", "")
    err = refused(2, "eval-passk", jsonl({"id": 1, "correct": True}), "--equality", "math")
    assert "no extracted answers" in err


def test_expressions_are_compared_by_their_texts_and_that_is_said(voted, chain):
    _, said, err = voted(chain / "scores", "--k", "1")
    assert said["equality"] == "text" and "`expression` does not define" in err


def test_programs_have_no_answers_to_vote_on(voted, scored):
    extra = ("--allow-code-execution", "--unsafe-no-sandbox")
    texts = ("def f(): return 1", "def f(): return 2")
    scores = scored("code", *texts, gold="assert f() == 1", extra=extra)
    means, said, _ = voted(scores, "--k", "1")
    assert "maj@1" not in means and said is None


def test_scores_whose_prompts_were_moved_away_are_voted_on_all_the_same(voted, scored, tmp_path):
    scores = scored("number", "7", "5", "5.0")
    shutil.rmtree(tmp_path / "in/prompts")
    assert voted(scores)[1]["classes"] == 1


@pytest.mark.slow
def test_another_equality_is_another_directory(rlvr, refused, jsonl, tmp_path):
    words = ("eval-passk", jsonl(*rows(*HALVES)), "--k", "4", "--out", tmp_path / "made")
    assert rlvr(*words).code == 0
    assert "equality was" in refused(2, *words, "--equality", "math")


def test_runs_are_compared_by_the_same_votes(rlvr, jsonl):
    one, other = jsonl(*rows(*HALVES), name="1.jsonl"), jsonl(*rows(*HALVES[:3]), name="2.jsonl")
    ran = rlvr("compare", one, other, "--equality", "math")
    assert ran.code == 0 and "3 distinct answers in 1 class" in ran.out
    made = json.loads(rlvr("compare", one, one, "--equality", "math", "--json").out)
    assert made["majorities"][0]["classes"] == 1
    assert made["metrics"]["maj@4"]["first"][0] == pytest.approx(0.3)


@pytest.mark.parametrize(
    "answer", ["7", r"\frac{1}{2}", "{1, 2}", r"\{1, 2\}", "(0, 1]", r"\boxed{7}"]
)
def test_an_answer_of_mathematics_is_read_again_from_its_completion(answer):
    text = registry.module("verifiers", "math").EQUALITY(answer)
    read = registry.build("verifiers", "math").extract(text, True)
    assert read == answer.removeprefix("\\boxed{").removesuffix("}" * answer.startswith("\\boxed"))


@pytest.mark.parametrize("answer", ["no {", "a} b{", "a}"])
def test_an_answer_with_unmatched_braces_is_unreadable_on_either_side(answer):
    verifier, stated = (
        registry.build("verifiers", "math"),
        registry.module("verifiers", "math").EQUALITY,
    )
    assert verifier.extract(stated(answer), True) is None
    assert verifier.judge("a", answer, {}).status == "bad_gold"


@pytest.mark.slow
def test_the_answer_entropy_is_that_of_the_classes_that_the_verifier_holds_equal(diverse, jsonl):
    source = jsonl(*rows(*HALVES, ("3", False), (None, False), (None, False)))
    by_text, said, err = diverse(source)
    assert said["equality"] == "text" and "no verifier scored them; name one with --equality" in err
    assert by_text == pytest.approx(2 * math.log(4) / 4 + 4 * math.log(8) / 8)  # 2, 2, 1, 1, 1, 1
    by_math, said, err = diverse(source, "--equality", "math")
    assert by_math == pytest.approx(2 * math.log(4) / 4 + 3 * math.log(8 / 3) / 8 + math.log(8) / 8)
    counts = [said[key] for key in ("answers", "classes", "comparisons", "unreadable", "failed")]
    assert counts == [4, 2, 3, 0, {}]
    assert (
        "answer entropy: wrong answers are compared by `math`: 4 distinct answers in 2 classes"
        in err
    )


def test_the_answer_entropy_depends_on_them_in_a_prompt_without_a_correct_one_too(diverse, jsonl):
    source = jsonl(*rows(("1/2", False), ("0.5", False)), *rows(("1/2", False), name="alone"))
    assert diverse(source)[0] == pytest.approx(math.log(2))
    found, said, _ = diverse(source, "--equality", "math")
    assert found == 0 and (said["answers"], said["classes"]) == (2, 1)


def test_the_entropy_of_scores_goes_by_the_verifier_that_made_them(diverse, scored):
    scores = scored("number", "7", "7", "it is 5", "it is 5.0", "none", "none")
    found, said, _ = diverse(scores)
    assert said["equality"] == "number" and found == pytest.approx(math.log(3))
    found, said, _ = diverse(scores, "--equality", "text")
    assert found == pytest.approx(2 * math.log(3) / 3 + 2 * math.log(6) / 6)
    assert said == {"equality": "text", "why": ""}


@pytest.mark.slow
def test_what_fails_in_the_answer_entropy_is_said_as_in_votes(diverse, jsonl):
    source = jsonl(*rows(*((power, False) for power in ENDLESS)))
    found, said, err = diverse(source, "--equality", "math:timeout_s=0.5")
    assert found == pytest.approx(math.log(2)) and said["failed"] == {"timeout": 1}
    assert "it failed on 1 (1 timeout), counted as unequal" in err


def test_no_answer_entropy_is_measured_where_none_is_wanted_or_nothing_is_an_answer(
    diverse, scored, known
):
    assert diverse(known / "rollouts")[:2] == (None, None)
    assert diverse(known / "scores", "--equality", "none")[:2] == (None, None)
    extra = ("--allow-code-execution", "--unsafe-no-sandbox")
    texts = ("def f(): return 1", "def f(): return 2")
    scores = scored("code", *texts, gold="assert f() == 1", extra=extra)
    assert diverse(scores)[:2] == (None, None)


def test_an_equality_without_answers_or_of_another_directory_is_refused(
    rlvr, refused, jsonl, known, tmp_path
):
    err = refused(2, "diversity", known / "rollouts", "--equality", "math")
    assert "no extracted answers for `math` to compare" in err
    words = ("diversity", jsonl(*rows(*HALVES)), "--out", tmp_path / "made")
    assert rlvr(*words).code == 0
    assert "equality was" in refused(2, *words, "--equality", "math")
