"""All of, any of, and a verifier for each value of a column."""

import json

import pytest

from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.protocols import Verdict
from rlvr_cli.specs import trust
from rlvr_cli.verification.scoring import joins, rewards
from rlvr_cli.verification.scoring.joins import PerValue

RIGHT = Verdict("ok", 1.0, True, "5")
WRONG = Verdict("ok", 0.0, False, "6")
HALF = Verdict("ok", 0.5, False, "7")
SILENT = Verdict("no_answer", 0.0, False, reason="nothing")
SKIPPED = Verdict("skipped")
BROKEN = Verdict("timeout", reason="slow")
BAD = Verdict("bad_gold", reason="no number")


@pytest.mark.parametrize(
    ("verdicts", "both", "either"),
    [
        ([RIGHT, RIGHT], RIGHT, RIGHT),
        ([RIGHT, WRONG], Verdict("ok", 0.0, False, "5"), RIGHT),
        ([WRONG, RIGHT], WRONG, RIGHT),
        ([WRONG, HALF], WRONG, HALF),
        ([RIGHT, HALF], Verdict("ok", 0.5, False, "5"), RIGHT),
        ([RIGHT, SILENT], Verdict("ok", 0.0, False, "5", "nothing"), RIGHT),
        ([SILENT, SILENT], SILENT, SILENT),
        ([WRONG, SILENT], WRONG, WRONG),
        ([RIGHT, BROKEN], BROKEN, RIGHT),
        ([BROKEN, RIGHT], BROKEN, RIGHT),
        ([WRONG, BROKEN], BROKEN, BROKEN),
        ([BAD, BROKEN], BAD, BAD),
        ([SILENT, BAD], BAD, BAD),
        ([RIGHT, SKIPPED], RIGHT, RIGHT),
        ([SKIPPED, WRONG], WRONG, WRONG),
        ([SKIPPED, SKIPPED], SKIPPED, SKIPPED),
    ],
)
def test_all_is_the_lowest_and_any_the_highest_and_faults_are_no_zeros(verdicts, both, either):
    assert joins.verdict_of("all", verdicts) == both
    assert joins.verdict_of("any", verdicts) == either


def test_a_join_is_a_term_of_a_sum_and_its_parts_have_columns():
    parts = rewards.build("0.9*any:of=[number,expression]+0.1*format")
    assert [p.column for p in parts] == ["reward_number", "reward_expression", "reward_format"]
    assert [(p.term, p.how, p.weight) for p in parts] == [
        (0, "any", 0.9), (0, "any", 0.9), (1, None, 0.1),
    ]  # fmt: skip
    verdicts = [WRONG, RIGHT, Verdict("ok", 1.0, True)]
    assert rewards.combine(parts, verdicts) == Verdict("ok", 1.0, True, "5")
    assert rewards.combine(parts, [WRONG, BROKEN, RIGHT]) == BROKEN
    assert (
        rewards.combine(rewards.build("0.5*all:of=[number,format]"), [RIGHT, RIGHT]).reward == 0.5
    )


def test_the_canonical_spelling_has_every_option_of_every_part_and_is_read_as_itself():
    text = rewards.canonical('any:of=[math,"choice:options=4"]')
    assert text.startswith('any:of=["math:unanchored=false,') and "choice:options=4" in text
    assert rewards.canonical(text) == text == rewards.canonical(text, text)
    by = rewards.canonical("by:of={gsm8k=0.5*number+format,aime*=any:of=[number,choice]}")
    assert rewards.canonical(by) == by and "0.5*number+1*format:form=boxed" in by


def test_parts_that_a_stored_spec_names_mean_what_they_meant(monkeypatch):
    from rlvr_cli import registry

    module = registry.module("verifiers", "choice")
    monkeypatch.setattr(module, "EARLIER", {"options": 7}, raising=False)
    begun = "all:of=[number,choice],golds=shared"
    assert "choice:options=7" in rewards.canonical(begun, begun)
    assert "choice:options=7" in rewards.canonical("all:of=[number,choice]", begun)
    assert "choice:options=0" in rewards.canonical("all:of=[number,choice]")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("all", "it names no verifiers"),
        ("any:of=[]", "it names no verifiers"),
        ("by", "it names no verifiers"),
        ("all:of=[number,nothing]", "unknown verifier `nothing`"),
        ("all:of=[number,number+format]", "holds a sum: `number+format`"),
        ("all:of=[number,0.5*format]", "holds a sum: `0.5*format`"),
        ("all:of=[any:of=[number]]", "holds `any`"),
        ("all:of=[number],golds=some", "option `golds` of `all`"),
        ("number+by:of={a=number}", "`by` is not part of a sum"),
        ("0.5*by:of={a=number}", "`by` is not part of a sum"),
        ("by:of={a=numbr}", "unknown verifier `numbr`"),
    ],
)
def test_what_cannot_be_joined_is_refused(text, words):
    with pytest.raises(UsageError) as caught:
        rewards.build(text)
    assert words in str(caught.value)


def test_files_within_a_join_are_trusted_by_the_command_line_and_pinned(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("def score(completion, *, answer, extra): return 1")
    for spec in (f"all:of=[number,{path}:score]", f"by:of={{a=0.5*number+{path}:score}}"):
        assert str(path) in trust.named_in([f"--verifier={spec}"]).files
        with trust.trusting(trust.Named([path])):
            assert "sha256=" in rewards.pinned(spec)
            assert str(path) in rewards.origins(spec)


def test_a_value_has_the_verifier_that_is_named_for_it_or_for_the_longest_pattern():
    by = PerValue(
        "source", {"*": "choice", "aime*": "math", "aime_2024": "number", "a[1]": "format"}
    )
    found = [by.of_value(v) for v in ("aime_2024", "aime_2025", "mmlu", "a[1]", None)]
    assert found == ["number", "math", "choice", "format", "choice"]
    assert PerValue("source", {"a": "math"}).of_value("b") is None


def test_several_values_are_all_of_their_verifiers_with_a_gold_for_each():
    by = PerValue("dataset", {"gsm8k": "number", "if": "format:form=boxed"})
    assert by.of_value(["gsm8k"]) == "number"
    text = by.of_value(["gsm8k", "if"])
    assert [(p.name, p.place) for p in rewards.build(text)] == [("number", 0), ("format", 1)]
    assert by.of_value(["gsm8k", "other"]) is None and by.of_value([]) is None


def test_values_without_a_verifier_are_refused_with_a_hint_that_can_be_pasted():
    by = PerValue("kind.name", {"a": "number"})
    rows = [{"source": "x", "extra": json.dumps({"kind": {"name": n}})} for n in ("a", "b/c", "d")]
    with pytest.raises(
        DataError, match=r"for the kind\.name `b/c`, `d`; those named are `a`"
    ) as caught:
        by.require(rows, "`rows`")
    spec = caught.value.hint.partition("--verifier ")[2].strip("'")
    again = joins.per_value(spec)
    assert again is not None and all(again.of_row(row) for row in rows)


def test_a_hint_leaves_out_the_options_that_are_the_defaults():
    text = rewards.canonical("by:of={a=math,b=0.5*math:percent=strict+0.5*format}")
    by = joins.per_value(text)
    assert by is not None
    with pytest.raises(DataError) as caught:
        by.require([{"source": "c", "extra": None}], "`rows`")
    assert caught.value.hint.endswith(
        "'by:of={a=math,b=\"0.5*math:percent=strict+0.5*format\",c=math}'"
    )


def test_prompts_without_the_column_that_chooses_are_refused_as_that():
    by = PerValue("kind", {"a": "number"})
    with pytest.raises(DataError, match="1 of 2 prompts have no `kind`, by which the verifier"):
        by.require([{"source": "x", "extra": text} for text in ('{"kind": "a"}', None)], "`rows`")


@pytest.mark.parametrize(
    ("answer", "golds"),
    [('["4", 5]', ["4", "5", None]), ("4", [None] * 3), ("{}", [None] * 3), ("[4", [None] * 3)],
)  # fmt: skip
def test_golds_for_each_are_those_of_a_list(answer, golds):
    assert [joins.gold_of(answer, place) for place in range(3)] == golds
    assert joins.gold_of(answer, None) == answer
