"""How specs are written: pieces, lists, tables, quoted text, and what is refused."""

import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from rlvr_cli.errors import UsageError
from rlvr_cli.specs import grammar, option_types
from rlvr_cli.specs.grammar import Quoted, Spec

NUMBERS = st.integers(-(10**9), 10**9) | st.floats(allow_nan=False, allow_infinity=False)
PLAIN = NUMBERS | st.booleans() | st.none() | st.text()
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)
)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("code:allow=[numpy,scipy]", {"allow": ["numpy", "scipy"]}),
        ("code:allow=[ numpy , [a,b,[]] ]", {"allow": ["numpy", ["a", "b", []]]}),
        ("code:allow=[a,],n=-1", {"allow": ["a"], "n": "-1"}),
        (
            "gym:config={difficulty=3,words=[a,b],deep={x={y=1}}},seed=1e+3",
            {"config": {"difficulty": "3", "words": ["a", "b"], "deep": {"x": {"y": "1"}}},
             "seed": "1e+3"},
        ),
        (r'a:text="x, y+z ] \" \\ \n ü"', {"text": 'x, y+z ] " \\ \n ü'}),
        ('a:config={"a key"=1,b="[1]"}', {"config": {"a key": "1", "b": "[1]"}}),
        ("a:label=b=c,path=/x[1]/{y}", {"label": "b=c", "path": "/x[1]/{y}"}),
        ("a:x=1,,y=2,", {"x": "1", "y": "2"}),
        ("a:", {}),
    ],
)  # fmt: skip
def test_values_are_text_lists_and_tables(text, options):
    assert dict(grammar.read(text).options) == options


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("grpo+kl:beta=1+iac", ["grpo", "kl:beta=1", "iac"]),
        ("a:x=1e+3+kl", ["a:x=1e+3", "kl"]),
        ("a:x=-.5E+03+kl", ["a:x=-.5E+03", "kl"]),
        ("a:x=1e+kl", ["a:x=1e", "kl"]),
        ("1e+2*math+-1*format", ["1e+2*math", "-1*format"]),
        ('a:x="b+c"+d:y=[e+f,{g="h+i"}]+j', ['a:x="b+c"', 'd:y=[e+f,{g="h+i"}]', "j"]),
        ('"c++/mine.py":build+0.5*"d+.py":f,x=1', ['"c++/mine.py":build', '0.5*"d+.py":f,x=1']),
        ("a+", ["a", ""]),
        ("+a", ["", "a"]),
        ("", [""]),
    ],
)
def test_a_sum_is_cut_at_its_plus_signs_alone(text, pieces):
    assert grammar.pieces(text) == pieces


def test_a_list_of_specs_is_cut_where_no_option_follows():
    text = "edit,embedding:model=m,words=[a,b],jaccard"
    assert grammar.listed(text) == ["edit", "embedding:model=m,words=[a,b]", "jaccard"]
    assert grammar.listed("a,b") == ["a", "b"] and grammar.listed("a,") == ["a", ""]


@pytest.mark.parametrize(
    ("text", "path", "function", "options"),
    [
        ("./mine.py:build:clip=0.3", "./mine.py", "build", {"clip": "0.3"}),
        ("/a/my-file.py:score,timeout_s=2", "/a/my-file.py", "score", {"timeout_s": "2"}),
        ("~/x.py:f", "~/x.py", "f", {}),
        ('"a b:+,.py":f:x=1', "a b:+,.py", "f", {"x": "1"}),
    ],
)
def test_a_file_is_named_with_its_function(text, path, function, options):
    spec = grammar.read(text)
    assert (spec.path, spec.function, dict(spec.options)) == (path, function, options)
    assert grammar.read(spec.name) == Spec(spec.name, (), path, function)


@pytest.mark.parametrize(
    ("text", "why", "hint"),
    [
        ("a:x=[1,[2", "a bracket is not closed", "close it: `a:x=[1,[2]]`"),
        ("a:x=[1,", "a bracket is not closed", "close it: `a:x=[1]`"),
        ('a:x={b="c', "a quote is not closed", 'close it: `a:x={b="c"}`'),
        ("a:x=[1]2,y=3", "`2,y=3` follows the end of a value", "end it: `a:x=[1]`"),
        ("a:x={b=1]}", None, None),
        ("a:x={b}", "the key `b` of a table has no value", "give it one: `a:x={b=1}`"),
        ("a:x=[1,,2]", "a list has an empty item", 'as: `a:x=[1,""]`'),
        ("a:x={b=1,b=2}", "gives the key `b` twice", "once"),
        (r'a:x="\d+\n"', "a backslash within quotes is written twice", r'write `a:x="\\d+\n"`'),
        ("a:x=" + "[" * 10_000, "more than 32 brackets within one another", "fewer"),
    ],
)  # fmt: skip
def test_what_is_no_spec_is_refused_with_one_that_is(text, why, hint):
    if why is None:
        assert grammar.read(text).options == (("x", {"b": "1]"}),)
        return
    with pytest.raises(UsageError, match=re.escape(why)) as caught:
        grammar.read(text)
    assert hint in caught.value.hint
    if "`" in hint:
        grammar.read(caught.value.hint.partition("`")[2][:-1])


@given(st.text(alphabet='ab1e+-.,:=[]{}"\\ \n*', max_size=30))
def test_any_text_is_read_or_refused(text):
    for read in (grammar.read, grammar.pieces, grammar.listed):
        try:
            read(text)
        except UsageError as error:
            assert error.hint


@given(VALUES)
def test_a_value_of_any_type_is_spelled_so_that_it_is_read_again(value):
    assert spelled_and_read(value, Any) == value


@given(st.text())
def test_text_is_spelled_so_that_it_is_read_again(text):
    for kind in (str, str | None, int | str, float | bool | str):
        found = spelled_and_read(text, kind)
        assert found == text and type(found) is str


@given(st.lists(st.text()), st.dictionaries(st.text(), st.lists(st.integers())))
def test_lists_and_tables_are_spelled_so_that_they_are_read_again(texts, table):
    assert spelled_and_read(texts, list[str]) == texts
    assert spelled_and_read(tuple(texts), tuple[str, ...]) == tuple(texts)
    assert spelled_and_read(table, dict[str, list[int]]) == table
    assert spelled_and_read([table, table], list[dict[str, list[int]]]) == [table, table]


def spelled_and_read(value, kind):
    """The value after it was spelled as an option of the first piece of a sum, and read."""
    written = option_types.spell(value, kind, plus_ends=True)
    first, second = grammar.pieces(f"a:x={written},y=2+b")
    assert second == "b"
    (name, found), other = grammar.read(first).options
    assert (name, other) == ("x", ("y", "2"))
    again = option_types.convert(found, kind)
    assert option_types.spell(again, kind, plus_ends=True) == written
    return again


def test_quoted_text_is_neither_number_nor_word():
    assert isinstance(dict(grammar.read('a:x="1"').options)["x"], Quoted)
    with pytest.raises(ValueError):
        option_types.convert(Quoted("1"), int)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("a", list[str]), (["a"], str), (["1", "x"], list[int]), ({"a": "x"}, dict[str, float]),
        (["1"], tuple[int, int]), ("x", int | None), (["a"], dict), ({"a": "1"}, list),
        ("nan", float),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_refused(value, kind):
    with pytest.raises((ValueError, TypeError)):
        option_types.convert(value, kind)
    assert option_types.expected(kind)
    example = option_types.example(kind)
    option_types.convert(dict(grammar.read(f"a:x={example}").options)["x"], kind)
