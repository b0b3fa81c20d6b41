"""In which style a reward function is called."""

import functools

import pytest

from rlvr_cli.errors import UsageError
from rlvr_cli.verification.functions import signatures


def of(source, load=lambda: pytest.fail("it was run")):
    return signatures.of("mine.py:f", source.encode(), "f", load)


@pytest.mark.parametrize(
    ("parameters", "style"),
    [
        ("completion, *, answer, extra", "own"),
        ("text, answer, extra", "own"),
        ("c, **kwargs", "own"),
        ("completion", "own"),
        ("completion, answer, weight=2", "own"),
        ("*args, **kwargs", "own"),
        ("completions, **kwargs", "trl"),
        ("prompts, completions, solution, **kwargs", "trl"),
        ("completion_ids, **kwargs", "trl"),
        ("data_source, solution_str, ground_truth, extra_info=None", "verl"),
        ("solution_str, ground_truth, method='strict', score=1.0", "verl"),
        ("predict_str: str, ground_truth: str", "verl"),
        ("data_sources, solution_strs, ground_truths, extra_infos, **kwargs", "verl-batch"),
        ("tokenized_prediction, prediction, label, query=None", "open-instruct"),
    ],
)
@pytest.mark.parametrize("word", ["def", "async def"])
def test_the_names_of_parameters_say_the_style(parameters, style, word):
    assert of(f"{word} f({parameters}): ...").style == style


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ("", r"it takes \(\)"),
        ("a, b", r"it takes \(a, b\)"),
        ("completion, ground_truth", r"it takes \(completion, ground_truth\)"),
        ("*, answer, extra", r"it takes \(answer, extra\)"),
        ("solution_str, ground_truth, sandbox_url", "nothing here is its `sandbox_url`"),
        ("completions, trainer_state, **kwargs", "nothing here is its `trainer_state`"),
    ],
)
def test_a_signature_that_is_not_known_is_refused_with_those_that_are(parameters, why):
    with pytest.raises(UsageError, match=why) as caught:
        of(f"def f({parameters}): ...")
    assert all(name in caught.value.hint for name in ("TRL", "verl", "open-instruct"))


def test_columns_that_a_function_needs_are_those_that_only_a_prompt_can_have():
    signature = of("def f(prompts, completions, solution, level, log_extra, tags=None, **kw): ...")
    assert signature.required == ("solution", "level")


@pytest.mark.parametrize(
    ("annotation", "form"),
    [("list[list[dict[str, str]]]", "messages"), ("list[str]", "text"), ("list", "")],
)
def test_an_annotation_says_the_form_of_the_completions(annotation, form):
    assert of(f"def f(completions: {annotation}, **kw): ...").form == form


def made_elsewhere(completions: list[list[dict[str, str]]], answer, **kwargs):
    return [1.0] * len(completions)


class Rater:
    def __call__(self, tokenized_prediction, prediction, label, query=None):
        return 1.0


@pytest.mark.parametrize(
    ("source", "value", "style"),
    [
        ("from somewhere import f", made_elsewhere, "trl"),
        ("f = factory()", functools.partial(made_elsewhere, answer="a"), "trl"),
        ("class f: ...", Rater(), "open-instruct"),
        ("def f(completion): ...\nf = wrap(f)", made_elsewhere, "trl"),
        ("@wrapped\ndef f(*args): ...", made_elsewhere, "trl"),
    ],
)
def test_what_is_no_plain_function_is_looked_at_as_it_is(source, value, style):
    assert of(source, lambda: value).style == style
