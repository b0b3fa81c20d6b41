"""Templates of rubrics and lists of criteria."""

import pytest

from rlvr_cli.errors import DataError, Untrusted, UsageError
from rlvr_cli.specs import trust
from rlvr_cli.verification.parsing import rubrics

# The shapes of HealthBench's rows, of Rubrics as Rewards', and of a plain list.
HEALTHBENCH = [
    {"criterion": "Advises to call 911", "points": 7, "tags": ["level:example"]},
    {"criterion": "Names the dose", "points": 5, "tags": []},
    {"criterion": "Advises to wait", "points": -9, "tags": []},
]
RAR = '[{"title": "Dose", "description": "Essential: names the dose", "weight": 5}]'


def test_fields_are_filled_in_once_and_other_braces_stand():
    text = 'Of {prompt}: {completion} is {answer}? {{word}} {"score": 1} \\boxed{N} \\frac{a}{2}'
    assert rubrics.fields(text) == ["prompt", "completion", "answer"]
    values = {"prompt": "{answer}", "completion": "{{prompt}} {completion}", "answer": "7"}
    assert rubrics.filled(text, values) == (
        'Of {answer}: {{prompt}} {completion} is 7? {word} {"score": 1} \\boxed{N} \\frac{a}{2}'
    )


def test_a_column_that_is_no_text_is_shown_as_json():
    assert rubrics.filled("{notes}", {"notes": ["é", 1]}) == '["é", 1]'


def test_a_template_is_a_name_a_file_or_a_text(tmp_path):
    file = tmp_path / "rubric.txt"
    file.write_text("Is {completion} good?")
    with trust.trusting(trust.Named(texts=[file])):
        assert rubrics.template(str(file)) == "Is {completion} good?"
    with pytest.raises(Untrusted, match=r"rubric\.txt` is a file that .* names, .* not read"):
        rubrics.template(str(file))
    assert rubrics.template("Is {completion} good?") == "Is {completion} good?"
    assert "{answer}" in rubrics.template("equal")
    with trust.trusting(trust.Named(texts=["none.txt", file])):
        with pytest.raises(DataError, match="cannot be read: No such file"):
            rubrics.template("none.txt")
        file.write_text("Is {{completion}} good?")
        with pytest.raises(UsageError, match="shows the judge no completion"):
            rubrics.template(str(file))


@pytest.mark.parametrize(
    ("met", "share"),
    [
        ([True, True, False], 1.0),
        ([True, False, False], 7 / 12),
        ([True, False, True], 0.0),  # -2 of 12
        ([True, True, True], 3 / 12),
        ([False, False, False], 0.0),
    ],
)
def test_the_share_of_points_is_healthbenchs(met, share):
    assert rubrics.share(rubrics.criteria(HEALTHBENCH), met) == share


def test_criteria_are_read_as_others_write_them():
    assert rubrics.criteria(RAR) == [rubrics.Criterion("Essential: names the dose", 5.0)]
    assert rubrics.criteria(["a", "b"]) == [rubrics.Criterion(t, 1.0) for t in "ab"]
    assert rubrics.criteria({"rubrics": ["a"]}) == [rubrics.Criterion("a", 1.0)]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, "no list"),
        ([], "no list"),
        ("be kind", "it is text"),
        ('{"criterion": "a"}', "no list"),
        ([{"points": 1}], "item 1 has no `criterion`"),
        (["a", {"criterion": "b", "points": "many"}], "item 2 has the points `many`"),
        ([{"criterion": "b", "points": True}], "the points `True`"),
        ([{"criterion": "b", "points": 0}], "0 points"),
        ([{"criterion": "b", "points": float("nan")}], "`nan`"),
        ([3], "item 1 is neither"),
        ([{"criterion": "b", "points": -1}], "none of its criteria has points above 0"),
    ],
)
def test_what_holds_no_criteria_is_refused_with_the_reason(value, why):
    with pytest.raises(ValueError, match=why):
        rubrics.criteria(value)
