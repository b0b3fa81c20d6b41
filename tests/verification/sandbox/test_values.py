"""Values that pass between a program and its tests."""

import datetime
import json
import math
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from decimal import Decimal
from fractions import Fraction

import pytest

from rlvr_cli.verification.sandbox import launch, objects, values


class Sides:
    """Two sides in one process, with JSON between them."""

    def __init__(self):
        self.answering = objects.Peer(self.refuse, 1)
        self.answering.on_do = lambda function, *given: function(*given)
        self.asking = objects.Peer(self.exchange, 2)
        self.asking.gives_results = False

    def refuse(self, message):
        raise AssertionError

    def exchange(self, message):
        request = self.answering.decode(json.loads(json.dumps(message)))
        return json.loads(json.dumps(self.answering.answer(request)))

    def sent(self, value):
        """The value as it arrives on the other side, and as it comes back."""
        arrived = []
        self.answering.on_do = lambda given: (arrived.append(given), given)[1]
        back = self.asking.ask("do", value)
        return arrived[0], back


@pytest.mark.parametrize(
    "value",
    [
        None, True, 5, -(1 << 80), 10**1000, 0.1, float("inf"), -0.0, 1 + 2j, "x\ud800",
        "\ud83d\ude00",
        b"\0x", [1, [2.0]], (1, "a"), {1, 2}, frozenset({"a"}), {"a": [1], (1, 2): None},
        range(1, 9, 2), int, [str, dict], bool, ..., NotImplemented, slice(1, None, 2),
        Decimal("1.10"), Fraction(1, 3), datetime.datetime(2020, 1, 1, fold=1),
        datetime.time(1, tzinfo=datetime.timezone(datetime.timedelta(hours=1), "x")),
        deque([1], 5), Counter("aab"), OrderedDict(b=1, a=2), bytearray(b"x"), array("d", [1.5]),
        defaultdict(list, {1: [2]}), {"a": 1}.keys(), ValueError, [[[[]]]], [True, 1, 1.0],
    ],
)  # fmt: skip
def test_plain_data_and_its_types_arrive_as_they_were_sent(value):
    arrived, back = Sides().sent(value)
    assert arrived == value and type(arrived) is type(value)
    assert back is value or (back == value and type(back) is type(value))
    assert repr(arrived) == repr(value)


def test_not_a_number_arrives_as_it_was_sent():
    assert math.isnan(Sides().sent(float("nan"))[0])


def test_what_is_contained_twice_or_in_itself_stays_one_object():
    inner, outer = [1], []
    outer += [inner, inner, outer, (inner,)]
    arrived, back = Sides().sent(outer)
    assert arrived[0] is arrived[1] is arrived[3][0] and arrived[2] is arrived
    assert back is outer


def test_a_list_within_a_hundred_thousand_others_arrives():
    value = []
    for _ in range(100_000):
        value = [value]
    arrived, _ = Sides().sent(value)
    depth = 0
    while arrived:
        arrived, depth = arrived[0], depth + 1
    assert depth == 100_000


@pytest.mark.parametrize(
    ("value", "change"),
    [
        ([2, 1], lambda v: v.sort()),
        ([[1]], lambda v: v[0].append(2)),
        ({"a": 1}, lambda v: v.update(b=2)),
        (OrderedDict(a=1, b=2), lambda v: v.move_to_end("a")),
        ({1}, lambda v: v.add(2)),
        (deque([1], 3), lambda v: v.appendleft(0)),
        (bytearray(b"a"), lambda v: v.extend(b"b")),
        (defaultdict(list), lambda v: v[1].append(2)),
    ],
)
def test_what_one_side_changes_has_changed_on_the_other(value, change):
    sides, held = Sides(), []
    expected = value.copy() if not isinstance(value, list) else json.loads(json.dumps(value))
    sides.answering.on_do = lambda given: (change(given), held.append(given))[0]
    sides.asking.ask("do", value)
    change(expected)
    assert value == expected and list(value) == list(expected)
    change(value)
    sides.answering.on_do = lambda: None
    sides.asking.ask("do")
    assert held[0] == value and list(held[0]) == list(value)


def test_containers_that_nobody_refers_to_are_forgotten():
    sides = Sides()
    sides.answering.on_do = lambda given: [given, [5]]
    for _ in range(3):
        assert sides.asking.ask("do", [[1], {"a": [2]}]) == [[[1], {"a": [2]}], [5]]
    sides.answering.on_do = lambda: None
    for _ in range(3):
        sides.asking.ask("do")
    assert not sides.asking._shared._known and not sides.answering._shared._known


@pytest.mark.parametrize(
    "nodes",
    [
        [["q"]], [["type", "open"]], [["type", ["int"]]], [["type"]], [[]], [5], [{"a": 1}],
        [["tuple", [[0]]]], [["tuple", [[7]]]], [["same", 5]], [["record", "os.system", ["x"]]],
        [["int", "x"]], [["list", "a", [], None]], [["known", "os", "system"]], [["yours", 5]],
        [["own", 1, [1], None], ["type", "int"]], [["exception", 1, [1], [1], []], ["tuple", []]],
    ],
)  # fmt: skip
def test_what_no_side_ever_wrote_is_refused(nodes):
    message = {"nodes": nodes, "root": [0], "gone": []}
    with pytest.raises((ValueError, TypeError, KeyError, IndexError, AttributeError)):
        objects.Peer(lambda _: {}, 2).decode(message)


def test_numbers_that_are_as_large_as_a_word_are_written_as_json_has_them():
    encoder = values.Encoder(values.Shared(0), lambda *_: [])
    assert encoder.message((1, [2, 3]))["nodes"][1][2] == [2, 3]


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
        outcome = launch.run(kind, job, given, seconds=60.0, memory_bytes=1 << 30)
        assert outcome["passed"] is passes
