"""The json verifier: equal values, valid values, equal calls, and what cannot be read."""

import json
import sys

import pytest
from hypothesis import given, strategies as st

from rlvr_cli import registry
from rlvr_cli.errors import UsageError
from rlvr_cli.protocols import Isolated


def verdict(spec, completion, answer):
    built = registry.build("verifiers", spec)
    if isinstance(built, Isolated):
        return built.judge(built.extract(completion, True), answer, {})
    return built(completion, answer=answer, extra={})


VALUES = [
    ('{"a": 1, "b": [1, 2]}', '{"b": [1.0, 2e0], "a": 1}', True),
    ("[1, 2]", "[2, 1]", False),
    ("1", "true", False),
    ("0", "false", False),
    ("0", "null", False),
    ('"1"', "1", False),
    ("9007199254740993", "9007199254740992", False),
    ('"a"', '"A"', False),
    ('{"a": null}', "{}", False),
    ('"\\u00e9"', '"é"', True),
    ("```json\n[1]\n```", "[1]", True),
    ("So:\n```\n[1]\n```\nDone.", "[1]", True),
    ("```json\n[1]\n```\nand\n```json\n[2]\n```", "[2]", True),
    ('```json\n[1]\n```\nas in\n```python\nprint("[2]")\n```', "[1]", True),
    ("  ```json\n  [1]\n  ```", "[1]", True),
    ("```json\n[1]", "[1]", True),  # not closed, and complete
    ("~~~json\n[1]\n~~~", "[1]", True),
    ('````json\n["```"]\n````', '["```"]', True),
    ("```json\n[1]```", "[1]", True),
    ("``` [1] ```", "[1]", True),
    ("[1]<|im_end|>\n", "[1]", True),
    ("\ufeff[1]", "[1]", True),
    ('I think <answer>{"a": 1}</answer>', '{"a": 1}', True),
]


@pytest.mark.parametrize(("completion", "answer", "correct"), VALUES)
def test_values_are_equal_as_json_has_them(completion, answer, correct):
    result = verdict("json", completion, answer)
    assert (result.status, result.correct, result.reward) == ("ok", correct, float(correct))


LENIENT = [
    ("json:lists=lenient", '[1, {"a": [2, 3]}]', '[{"a": [3, 2]}, 1]', True),
    ("json:lists=lenient", "[1, 1, 2]", "[1, 2, 2]", False),
    ("json:strings=lenient", '"New York, NY"', '"new york ny"', True),
    ("json:strings=lenient", '"THE_SCREAM"', '"The Scream"', True),
    ("json:strings=lenient", '"Scream"', '"The Scream"', False),
    ("json:strings=lenient", '"1.5"', '"15"', False),
]


@pytest.mark.parametrize(("spec", "completion", "answer", "correct"), LENIENT)
def test_what_does_not_count_is_an_option(spec, completion, answer, correct):
    assert verdict(spec, completion, answer).correct is correct
    assert verdict("json", completion, answer).correct is False


UNREADABLE = [
    ("", "it is empty"),
    ("I cannot do this.", "it is no JSON: Expecting value (line 1, column 1)"),
    ('{"a": 1,}', "it is no JSON: a comma before a closing bracket"),
    ("[1, 2,\n]", "it is no JSON: a comma before a closing bracket"),
    ("{'a': 1}", "it is no JSON: Expecting property name"),
    ('{"a": 1} // done', "it is no JSON: text follows the value"),
    ('Here: {"a": 1}', "it is no JSON: Expecting value"),
    ('{"a": 1, "a": 2}', 'it has the key "a" twice'),
    ("[NaN]", "it holds NaN, which is no JSON"),
    ("[-Infinity]", "it holds -Infinity, which is no JSON"),
    ("[1e999]", "it holds the number 1e999"),
    ("9" * 5000, "it holds a number of more than 4,300 digits"),
    ("[" * 101 + "]" * 101, "it is nested more than 100 deep"),
    ("[" * 100_000, "it is nested more than 100 deep"),
    ('{"a": "b', "it is no JSON: Unterminated string"),
    (" " * 200_001 + "1", "it has more than 200000 characters"),
]


@pytest.mark.parametrize(("text", "reason"), UNREADABLE)
@pytest.mark.parametrize(
    ("spec", "gold"),
    [("json", "1"), ("json:against=schema", "true"), ("json:against=calls", '{"name": "f"}')],
)
def test_what_is_no_json_is_no_answer_and_says_why(spec, gold, text, reason):
    result = verdict(spec, text, gold)
    assert (result.status, result.reward, result.correct) == ("no_answer", 0.0, False)
    assert result.reason.startswith(reason)


@pytest.mark.parametrize(("text", "reason"), UNREADABLE)
@pytest.mark.parametrize("spec", ["json", "json:against=schema", "json:against=calls"])
def test_a_gold_that_is_no_json_is_bad_and_says_why(spec, text, reason):
    result = verdict(spec, '{"name": "f"}', text)
    assert (result.status, result.reward) == ("bad_gold", None)
    assert result.reason.startswith(reason)


AREA = '[{"area": {"base": [10], "height": [5, 5.5], "unit": ["cm", ""]}}]'  # of BFCL
NESTED = '{"trip": {"to": [{"city": ["Oslo", "Oslo, Norway"], "zip": [1, ""]}], "days": [[1, 2]]}}'
QWEN = (
    "<tool_call>\n<function=area>\n<parameter=base>\n{}\n</parameter>\n<parameter=height>\n{}\n"
    "</parameter>\n<parameter=unit>\n{}\n</parameter>\n</function>\n</tool_call>"
)
CALLS = [
    ('{"name": "f", "arguments": {"x": 1}}', '{"name": "f", "arguments": {"x": 1.0}}', True),
    ('{"name": "g", "arguments": {"x": 1}}', '{"name": "f", "arguments": {"x": 1}}', False),
    ('{"name": "f", "arguments": {"x": "1"}}', '{"name": "f", "arguments": {"x": 1}}', False),
    ('{"name": "f", "arguments": {}}', '{"name": "f", "arguments": {"x": null}}', False),
    ('{"name": "f"}', '{"name": "f", "arguments": {}}', True),
    ('{"name": "f", "parameters": {"x": 1}}', '{"name": "f", "arguments": {"x": 1}}', True),
    (  # OpenAI's message, and xLAM's list
        '{"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": '
        '{"name": "f", "arguments": "{\\"x\\": [1, 2]}"}}]}',
        '[{"name": "f", "arguments": {"x": [1, 2]}}]',
        True,
    ),
    (
        'Two.\n<tool_call>\n{"name": "g"}\n</tool_call>\n<tool_call>\n{"name": "f"}\n</tool_call>',
        '[{"name": "f"}, {"name": "g"}]',
        True,
    ),
    ('{"name": "f"}', '<tool_call>\n{"name": "f"}\n</tool_call>', True),
    ("```python\n[f(x=1)]\n```", '{"name": "f", "arguments": {"x": 1}}', True),
    ("```python\n[f(x=2)]\n```", '{"name": "f", "arguments": {"x": 1}}', False),
    (
        '```python\n[f(x=2)]\n```\n```json\n{"name": "f"}\n```',
        '{"name": "f"}',
        True,
    ),
    ('[{"name": "f"}, {"name": "f"}]', '[{"name": "f"}]', False),
    ('[{"name": "f"}]', '[{"name": "f"}, {"name": "f"}]', False),
    ('{"name": "area", "arguments": {"base": 10, "height": 5.5}}', AREA, True),
    ("[area(base=10, height=5, unit='cm')]", AREA, True),
    ("area(base=10, height=5)", AREA, True),
    ("area(base=10, height=5, unit='m')", AREA, False),
    ("area(base=10)", AREA, False),
    ("area(base=10, height=5, depth=1)", AREA, False),
    ("area(base=True, height=5)", AREA.replace("[10]", "[1]"), False),
    ('trip(to={"city": "Oslo"}, days=[1, 2])', NESTED, True),
    ('trip(to={"city": "Oslo, Norway", "zip": 1}, days=(1, 2))', NESTED, True),
    ('trip(to={"city": "Rome"}, days=[1, 2])', NESTED, False),
    ('trip(to={"city": "Oslo"}, days=[2, 1])', NESTED, False),
    ("math.area(x=-1.5)", '{"math.area": {"x": [-1.5]}}', True),
    ('<tool_call>\n```json\n{"name": "f"}\n```\n</tool_call>', '{"name": "f"}', True),
    ('[TOOL_CALLS] [{"name": "f"}]', '{"name": "f"}', True),
    ('<|python_tag|>{"name": "f", "parameters": {}}', '{"name": "f"}', True),
    ("<|python_tag|>f()", '{"name": "f"}', True),
    ('{"function": "f", "arguments": {"x": 1}}', '{"name": "f", "arguments": {"x": 1}}', True),
    ('{"tool": "f", "args": {"x": 2}}', '{"name": "f", "arguments": {"x": 1}}', False),
    ('<function=area>{"base": 10, "height": 5}</function>', AREA, True),
    ('<function=area>{"base": 10, "height": 6}</function>', AREA, False),
    (QWEN.format(10, 5, "cm"), AREA, True),  # of texts, those are numbers that the gold has so
    (QWEN.format("10.0", 5, "cm"), AREA, True),
    (QWEN.format(10, 5, "m"), AREA, False),
    (QWEN.format("ten", 5, "cm"), AREA, False),
    (QWEN.format(10, 5, "cm") * 2, AREA, False),
    (
        QWEN.format(10, 5, "007"),
        '{"name": "area", "arguments": {"base": 10, "height": 5, "unit": "007"}}',
        True,
    ),
    (
        QWEN.format(10, 5, "7"),
        '{"name": "area", "arguments": {"base": 10, "height": 5, "unit": "007"}}',
        False,
    ),
    (  # only one way to give each gold a call of its own
        "[f(x=1), f(x=2)]",
        '[{"f": {"x": [1, 2]}}, {"f": {"x": [1]}}]',
        True,
    ),
]


@pytest.mark.parametrize(("completion", "answer", "correct"), CALLS)
def test_calls_are_equal_by_name_and_arguments(completion, answer, correct):
    result = verdict("json:against=calls", completion, answer)
    assert (result.status, result.correct, result.reward) == ("ok", correct, float(correct))
    assert isinstance(json.loads(result.extracted), list)


def test_the_order_of_calls_may_count():
    words = ('[{"name": "g"}, {"name": "f"}]', '[{"name": "f"}, {"name": "g"}]')
    assert verdict("json:against=calls", *words).correct is True
    assert verdict("json:against=calls,calls=strict", *words).correct is False


NO_CALLS = [
    ('<tool_call>\n{"name": "f"', "its last <tool_call> is not closed"),
    ("<tool_call>\nf(1)\n</tool_call>", "it is no JSON"),
    ("<function=f>{}", "its last <function> is not closed"),
    ("<function=f>x</function>", "its <function> holds more than parameters"),
    (
        "<function=f><parameter=x>1</parameter><parameter=x>2</parameter></function>",
        "an argument is given twice",
    ),
    ('{"area": {"base": [10], "height": [5]}}', "its call has no name"),
    ('{"name": 3}', "its call has no name"),
    ('{"name": "f", "arguments": [1]}', "the arguments of `f` are no object"),
    ('{"name": "f", "arguments": "{"}', "it is no JSON"),
    ('["f"]', 'it holds "f", a call was expected'),
    ("f(1)", "its calls are no Python: a call with named arguments was expected"),
    ("f(**{'x': 1})", "its calls are no Python: `**` is no argument"),
    ("f(x=__import__('os').system('true'))", "its calls are no Python"),
    ("f(x={1})", "its calls are no Python: {1} is nothing that JSON has"),
    ("f(x=1e999)", "its calls are no Python: inf is nothing that JSON has"),
    ("f(x=" + "-" * 19_000 + "1)", "its calls are no Python"),
    ("f(x=" + "1+" * 9_000 + "1)", "its calls are no Python"),
    ("f" + "()" * 9_000, "its calls are no Python"),
    ("f(x=" + "1, " * 9_000, "its calls have more than 20000 characters"),
    (json.dumps([{"name": "f"}] * 65), "it has more than 64 calls"),
]


@pytest.mark.parametrize(("completion", "reason"), NO_CALLS)
def test_what_is_no_call_is_no_answer_and_says_why(completion, reason):
    result = verdict("json:against=calls", completion, AREA)
    assert (result.status, result.reward) == ("no_answer", 0.0)
    assert result.reason.startswith(reason)


@pytest.mark.parametrize(
    ("gold", "reason"),
    [
        ("[]", "it holds no call"),
        ('{"f": {"x": 1}}', "its call has no name"),
        ('{"f": {"x": []}}', "its call has no name"),  # no value is allowed
        ('{"f": {}, "g": {}}', "its call has no name"),
    ],
)
def test_a_gold_without_calls_is_bad(gold, reason):
    result = verdict("json:against=calls", '{"name": "f"}', gold)
    assert (result.status, result.reason) == ("bad_gold", reason)


PERSON = json.dumps(
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "pattern": "^[A-Z]"},
            "age": {"type": "integer", "minimum": 0},
            "mail": {"format": "email"},
        },
        "required": ["name"],
        "additionalProperties": False,
    }
)
SCHEMAS = [
    ('{"name": "Ann", "age": 3}', PERSON, True),
    ('```json\n{"name": "Ann", "age": 3.0}\n```', PERSON, True),
    ('{"name": "ann"}', PERSON, False),
    ('{"name": "Ann", "age": -1}', PERSON, False),
    ('{"name": "Ann", "age": "3"}', PERSON, False),
    ('{"name": "Ann", "age": true}', PERSON, False),
    ('{"age": 3}', PERSON, False),
    ('{"name": "Ann", "x": 1}', PERSON, False),
    ("[1, 2]", '{"$ref": "#/$defs/l", "$defs": {"l": {"maxItems": 2}}}', True),
    ("[1, 2, 3]", '{"$ref": "#/$defs/l", "$defs": {"l": {"maxItems": 2}}}', False),
    ("[3]", '{"$schema": "http://json-schema.org/draft-07/schema#", "items": [true]}', True),
    ("3", "false", False),
    ("3", "{}", True),
]


@pytest.mark.parametrize(("completion", "schema", "correct"), SCHEMAS)
def test_a_value_is_valid_or_says_where_it_is_not(completion, schema, correct):
    result = verdict("json:against=schema", completion, schema)
    assert (result.status, result.correct, result.reward) == ("ok", correct, float(correct))
    assert (result.reason is None) == correct
    if not correct:
        assert result.reason.startswith("$") or "False schema" in result.reason


def test_formats_are_checked_if_one_says_so():
    words = ('{"name": "Ann", "mail": "nobody"}', PERSON)
    assert verdict("json:against=schema", *words).correct is True
    assert verdict("json:against=schema,formats=true", *words).correct is False


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("[1]", "it is no JSON Schema: an object was expected"),
        ('{"name": "Ann"}', "it has no keyword that says what is valid"),
        ('{"type": "objct"}', "it is no JSON Schema: $.type: 'objct'"),
        ('{"$schema": "http://example.com/s", "type": "object"}', "its $schema `http://exam"),
        ('{"$ref": "http://localhost:9/s"}', "it refers to `http://localhost:9/s`, which"),
        ('{"$ref": "#/$defs/none"}', "it refers to `/$defs/none`, which it does not hold"),
        ('{"$ref": "#"}', "it refers to itself without end"),
        (
            '{"properties": {"a": {"pattern": "\\\\p{Lu}"}}}',
            "it is no JSON Schema: $.properties.a.pattern",
        ),
    ],
)
def test_a_schema_that_validates_nothing_is_a_bad_gold(schema, reason):
    result = verdict("json:against=schema", '{"a": "x"}', schema)
    assert (result.status, result.reward) == ("bad_gold", None)
    assert result.reason.startswith(reason)


def test_a_deep_value_is_no_fault_of_a_schema_that_refers_to_itself():
    tree = '{"items": {"$ref": "#"}}'
    assert verdict("json:against=schema", "[" * 20 + "]" * 20, tree).correct is True
    deep = verdict("json:against=schema", "[" * 100 + "]" * 100, tree)
    assert deep.status in ("ok", "no_answer")


def test_a_schema_without_the_package_is_refused_with_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    with pytest.raises(UsageError, match="needs jsonschema") as refused:
        registry.build("verifiers", "json:against=schema")
    assert refused.value.hint == "pip install 'rlvr[json]'"


def test_a_value_that_no_text_file_can_hold_is_stored_escaped():
    assert verdict("json", '"\\ud800"', '"\\ud800"').extracted == '"\\ud800"'


def test_a_time_limit_must_be_above_0():
    with pytest.raises(UsageError, match="timeout_s"):
        registry.build("verifiers", "json:timeout_s=0")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)  # fmt: skip


@given(JSON)
def test_a_value_equals_itself_however_it_is_written(value):
    for text in (json.dumps(value), json.dumps(value, indent=2, ensure_ascii=False)):
        for spec in ("json", "json:lists=lenient,strings=lenient"):
            assert verdict(spec, text, json.dumps(value, sort_keys=True)).correct is True


@given(
    st.text() | st.text('{}[]"f(x=1,), :<tool_call>/\n`', max_size=40), st.text() | st.just(AREA)
)
def test_it_never_raises(completion, answer):
    for spec in ("json", "json:against=calls"):
        verdict(spec, completion, answer)
