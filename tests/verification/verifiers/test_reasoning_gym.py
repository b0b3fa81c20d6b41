"""reasoning-gym's scorers: as their package says, but for what pays for wrong answers there."""

import ast
import copy
import inspect
import json

import pytest
from hypothesis import given, strategies as st

from rlvr_cli.errors import UsageError
from rlvr_cli.protocols import Verdict
from rlvr_cli.tasks import _reasoning_gym, reasoning_gym as task
from rlvr_cli.verification.parsing import gym
from rlvr_cli.verification.verifiers import reasoning_gym

try:
    _reasoning_gym.require()
    WHY = ""
except UsageError as error:
    WHY = str(error)
needs_package = pytest.mark.skipif(bool(WHY), reason=WHY or "reasoning-gym is installed")


@pytest.fixture(scope="module")
def rows():
    """Two problems of every generator."""
    return task.build(name="all", size=210, seed=5)


def judged(row, answer):
    return reasoning_gym.build().judge(answer, row["answer"], row["extra"])


@pytest.fixture
def one(rows):
    """The first problem of a generator."""

    def first(name):
        return copy.deepcopy(next(r for r in rows if r["source"] == f"reasoning-gym/{name}"))

    return first


@pytest.mark.parametrize(
    ("completion", "finished", "answer"),
    [
        ("<answer>1</answer> no: <answer>\n 2 </answer>", True, "2"),
        ("<answer>1</answer> then \\boxed{3}", True, "1"),
        ("so \\boxed{1 + 2}.", True, "1 + 2"),
        ("so \\boxed{1} or \\boxed{2}.", True, "2"),
        (" 42\n", True, "42"),
        ("42", False, None),
        ("<answer>42", True, None),
        ("<answer> </answer>", True, None),
        ("", True, None),
    ],
)
def test_the_answer_stands_in_tags_else_in_a_box_else_it_is_all_there_is(
    completion, finished, answer
):
    assert gym.answer_of(completion, finished) == answer


@needs_package
def test_tags_are_read_as_the_package_reads_them():
    from reasoning_gym import utils

    for text in (
        "<answer>a</answer>",
        "<answer>\n\na\n b </answer>x<answer>c</answer>",
        "<answer>a b\n</answer> ",
    ):
        assert gym.answer_of(text, True) == utils.extract_answer(text)


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("countdown", "__import__('os').system('id')"),
        ("countdown", "exec(chr(97))"),
        ("countdown", "1.5 + 2"),  # one and five as 1.5
        ("countdown", "2**3"),
        ("countdown", "9//2"),
        ("puzzle24", "eval(input())"),
        ("simple_integration", "().__class__.__bases__"),
        ("simple_integration", "x.func"),
        ("simple_integration", "breakpoint()"),
        ("simple_integration", "open(x)"),
        ("intermediate_integration", "[x for x in ()]"),
        ("polynomial_multiplication", "lambda: 1"),
        ("polynomial_multiplication", "f'x'"),
        ("polynomial_multiplication", "S('x')"),
        ("intermediate_integration", "Integral(x*cos(x), x) + C"),  # the question again
        ("game_of_life_halting", "maybe"),
    ],
)
def test_what_a_scorer_must_not_evaluate_is_no_answer(name, answer):
    assert gym.unreadable(name, answer)


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("countdown", "(1 + 2)*3 - 4/5"),
        ("simple_integration", "x**3/3 + 2.5e-1*sin(2*x) + C"),
        ("intermediate_integration", "-exp(x)*cos(x)/2 + log(Abs(x), 2) + sqrt(x) + x1"),
        ("polynomial_multiplication", "12*x**2 - 3*α*y + .5"),
        ("gcd", "__import__('os')"),  # it is compared as text
        ("game_of_life_halting", "false"),
    ],
)
def test_expressions_are_left_to_the_scorer(name, answer):
    assert gym.unreadable(name, answer) is None


@given(st.text(alphabet="x1C().*_'\"[]= {}", max_size=30))
def test_what_reaches_an_evaluator_has_no_quotes_brackets_or_attributes(text):
    for name in ("simple_integration", "countdown"):
        if gym.unreadable(name, text) is None:
            assert not set(text) & set("'\"[]={}_")
            assert not any(f"{end}." in text for end in "xC)*")


@given(st.text(max_size=200), st.booleans())
def test_reading_an_answer_never_raises(text, finished):
    found = gym.answer_of(text, finished)
    assert found is None or found == found.strip()


@needs_package
@pytest.mark.slow
def test_rewards_are_those_of_score_answer_for_every_generator(rows):
    assert len(rows) == 210 and len({row["source"] for row in rows}) == 105
    right = wrong = unsolved = 0
    for row in rows:
        stored = row["extra"]["reasoning_gym"]
        data = _reasoning_gym.data_set(stored["name"], None, {})
        for number, answer in enumerate(
            (row["answer"], "zzz", "17", row["answer"] + " zzz", "True", "[[1]]", "0")
        ):
            entry = _reasoning_gym.decoded(stored["entry"])
            verdict = judged(row, answer)
            try:
                theirs = float(data.score_answer(answer, entry))
            except Exception:
                assert verdict.status == "no_answer" and "cannot read it" in verdict.reason
                continue
            if verdict.status == "no_answer":  # never given to the scorer
                assert gym.unreadable(stored["name"], answer)
                if "Integral" in answer:  # the question itself, which its scorer takes for solved
                    unsolved += number == 0
                else:
                    assert theirs < 1 or stored["name"] == "game_of_life_halting"
                continue
            elif verdict.reward != theirs:
                assert verdict.reward == gym.mended(stored["name"], answer, entry) < theirs
                wrong += 1
            if answer == row["answer"] and answer != task.NO_GOLD:
                assert verdict == Verdict("ok", 1.0, True, answer)
                right += number == 0
            else:
                assert verdict.reward <= 1
    assert (right, unsolved, wrong) == (199, 1, 3)


@needs_package
@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("game_of_life_halting", "{other}"),
        ("puzzle24", "6 + 6 + 6 + 6"),
        ("puzzle24", "4 * 6 + 1 / 2"),
        ("coin_flip", "0"),
        ("complex_arithmetic", "nan"),
        ("spell_backward", "{gold} zzz"),
        ("gsm_symbolic", "-{gold}"),
        ("word_sorting", "{gold}, {gold}"),
    ],
)
def test_wrong_answers_that_the_package_pays_in_full_are_wrong_here(one, name, answer):
    row = one(name)
    other = {"True": "False", "False": "True"}.get(row["answer"], "")
    verdict = judged(row, answer.format(gold=row["answer"], other=other))
    assert verdict.status == "ok" and not verdict.correct and verdict.reward < 1


@needs_package
def test_a_scorer_that_raises_on_an_answer_says_why_and_pays_nothing(one):
    verdict = judged(one("prime_factorization"), "2 by 3")
    assert verdict.status == "no_answer" and verdict.reward == 0
    assert verdict.reason.startswith("the scorer cannot read it: ValueError")


@needs_package
@pytest.mark.parametrize(
    "extra",
    [{}, {"metadata": "x"}, {"metadata": {"source_dataset": "nothing"}}, {"metadata": {"a": 1}}],
)
def test_a_prompt_that_holds_no_problem_has_a_bad_gold(extra):
    assert reasoning_gym.build().judge("1", "1", extra).status == "bad_gold"


@needs_package
def test_a_problem_of_another_version_is_a_bad_gold_and_says_so(one):
    row = one("gcd")
    row["extra"]["reasoning_gym"]["version"] = "0.1.24"
    verdict = judged(row, row["answer"])
    assert verdict.status == "bad_gold" and "0.1.24" in verdict.reason


@needs_package
def test_rows_that_the_packages_own_script_wrote_are_scored_by_their_metadata(one):
    row = one("gcd")
    metadata = _reasoning_gym.decoded(row["extra"]["reasoning_gym"]["entry"])["metadata"]
    for stored in (metadata, json.dumps(metadata)):
        judge = reasoning_gym.build().judge
        assert judge(row["answer"], row["answer"], {"metadata": stored}).correct
        assert judge("-3", row["answer"], {"metadata": stored}).reward == 0


@needs_package
def test_what_lists_are_handed_to_eval_are_read_as_literals(one, tmp_path):
    row = one("string_insertion")
    trap = f"[open({str(tmp_path / 'made')!r}, 'w').write('x')]"
    assert judged(row, trap).reward == 0 and not (tmp_path / "made").exists()
    assert judged(row, str(list(row["answer"]))).reward == 0.1


@needs_package
@pytest.mark.slow
def test_no_other_scorer_evaluates_text():
    known = {f"reasoning_gym.{name}" for name in _reasoning_gym._EVALUATING}
    evaluating = {"eval", "exec", "parse_expr", "sympify", "compile", "loads"}
    found = {}
    for name in _reasoning_gym.names():
        module = inspect.getmodule(type(_reasoning_gym.data_set(name, None, {})))
        tree = ast.parse(inspect.getsource(module))
        scorers = [
            n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "score_answer"
        ]
        calls = {
            getattr(n.func, "attr", getattr(n.func, "id", ""))
            for scorer in scorers
            for n in ast.walk(scorer)
            if isinstance(n, ast.Call)
        }
        if hits := (calls & evaluating) - {"loads"}:
            found[name] = (module.__name__, hits)
    literal = {name for name, (module, hits) in found.items() if module in known}
    assert literal == {"binary_matrix", "n_queens", "spiral_matrix", "string_insertion"}
    # The gold, not the answer, is what number_sorting evaluates.
    assert set(found) - literal == gym._ALGEBRA | gym._ARITHMETIC | {"number_sorting"}


@needs_package
def test_sorted_numbers_are_those_that_were_given(one):
    row = one("number_sorting")
    numbers = ast.literal_eval(row["answer"])
    assert judged(row, json.dumps(numbers)).reward == 1
    shifted = [*numbers[:-1], str(float(numbers[-1]) + (1 if numbers[0] < numbers[-1] else -1))]
    verdict = judged(row, json.dumps(shifted))
    assert (verdict.status, verdict.reward) == ("ok", 0.0)
