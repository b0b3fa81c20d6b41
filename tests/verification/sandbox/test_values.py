"""Values that pass between a program and its tests."""

import json

import pytest

from rlvr_cli.verification.sandbox import launch, values


@pytest.mark.parametrize(
    "value",
    [
        None, True, 5, -(1 << 80), 0.1, float("inf"), 1 + 2j, "x\ud800", b"\0x", [1, [2.0]],
        (1, "a"), {1, 2}, frozenset({"a"}), {"a": [1], (1, 2): None}, range(1, 9, 2), int,
        [str, dict], bool,
    ],
)  # fmt: skip
def test_plain_data_and_its_types_arrive_as_they_were_sent(value):
    decoded = values.decode(json.loads(json.dumps(values.encode(value))))
    assert decoded == value and type(decoded) is type(value)


@pytest.mark.parametrize("value", [object(), object, ValueError, len, type("int", (), {}), open])
def test_what_is_no_plain_data_equals_nothing(value):
    decoded = values.decode(json.loads(json.dumps(values.encode(value))))
    assert isinstance(decoded, values.Opaque) and decoded != value and decoded != decoded


@pytest.mark.parametrize("data", [["q"], ["y", "open"], ["y", ["int"]], ["y"], [], 5, {"a": 1}])
def test_what_encode_never_made_is_refused(data):
    with pytest.raises((ValueError, TypeError, KeyError, IndexError)):
        values.decode(data)


def test_tests_use_the_modules_that_a_program_would_have_imported():
    """As MBPP has it: the tests read `math` and `sys`, which some programs alone import."""
    kind = next((kind for kind in launch.KINDS[:-1] if launch.works(kind)), None)
    if kind is None:
        pytest.skip("no sandbox works here")
    program = "def half(x, kind): return kind(x) / 2\ndef copy(): pass"
    for tests, passes in (
        ("assert math.isclose(half(3, float), 1.5)", True),
        ("assert copy.copy(half(4, int)) == 2", False),  # the program's own copy has none
    ):
        given = {"tests": tests, "prompt": "", "entry_point": "half"}
        job = {"program": program, "style": "tests"}
        outcome = launch.run(kind, job, given, seconds=20.0, memory_bytes=1 << 30)
        assert outcome["passed"] is passes
