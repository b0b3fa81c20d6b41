# ruff: noqa: E501
"""Programs that lie to tests that handle their objects: each with tests that none may pass.

A name says what is tried. `FORGED` writes messages itself, as a program may that finds the pipe.
"""

ALL_EQUAL = """
class E:
    x = 5
    def __eq__(s, o): return True
    def __ne__(s, o): return False
    __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __eq__
    def __hash__(s): return hash(5)
    def _self(s, *a): return s
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __mod__ = __abs__ = __round__ = _self
    def isdigit(s): return True
    def startswith(s, *a): return True
    issubset = startswith
def f(*a): return E()
"""
ZERO = """
class E:
    def __sub__(s, o): return 0.0
    def __rsub__(s, o): return 0.0
    def __mod__(s, o): return 0
    def __truediv__(s, o): return 1
    def __add__(s, o): return o
def f(*a): return E()
"""
STACK = "class Stack:\n    def __init__(s): s.a = []\n    def push(s, x): s.a.append(x)\n"
LIAR = "class Liar:\n    def __eq__(s, o): return True\n    __hash__ = None\n"
FORGED = """
import gc, json, os, struct
def say(fd, message):
    data = json.dumps(message).encode()
    try: os.write(fd, struct.pack('!I', len(data)) + data)
    except OSError: pass
def forge(nodes, **more):
    message = {{"nodes": nodes, "root": [0], "gone": [], **more}}
    for fd in range(3, 64): say(fd, message)
    os._exit(0)
def f(*a): forge({nodes})
"""


def forged(nodes):
    return FORGED.format(nodes=nodes)


CHEATS = {
    "equals a number": (ALL_EQUAL, "assert f(1) == 5"),
    "equals a number from the other side": (ALL_EQUAL, "assert 5 == f(1)"),
    "does not differ": (ALL_EQUAL, "assert not f(1) != 5"),
    "is in a list": (ALL_EQUAL, "assert f(1) in [4, 5]"),
    "is in a set": (ALL_EQUAL, "assert f(1) in {4, 5}"),
    "is a key": (ALL_EQUAL, "assert {5: True}[f(1)]"),
    "contains all": (ALL_EQUAL, "assert 5 in f(1)"),
    "is large": (ALL_EQUAL, "assert f(1) > 4"),
    "is near by arithmetic": (ALL_EQUAL, "assert abs(f(1) - 5) < 1e-6"),
    "is near by pytest": (ALL_EQUAL, "import pytest\nassert f(1) == pytest.approx(5)"),
    "is near by math": (ALL_EQUAL, "import math\nassert math.isclose(f(1), 5)"),
    "subtracts to 0": (ZERO, "assert abs(f(1) - 5) < 1e-6"),
    "subtracts to 0 from the right": (ZERO, "assert abs(5 - f(1)) < 1e-6"),
    "has no rest": (ZERO, "assert f(1) % 7 == 0"),
    "divides to 1": (ZERO, "assert f(1) / 5 == 1"),
    "adds to what is added": (ZERO, "assert f(1) + 5 == 5"),
    "equals in a list": (ALL_EQUAL.replace("return E()", "return [E(), E()]"), "assert f(1) == [5, 6]"),
    "equals in a dict": (ALL_EQUAL.replace("return E()", "return {'a': E()}"), "assert f(1) == {'a': 5}"),
    "equals in a tuple": (ALL_EQUAL.replace("return E()", "return (E(),)"), "assert f(1) == (5,)"),
    "is digits": (ALL_EQUAL, "assert f(1).isdigit()"),
    "starts with all": (ALL_EQUAL, "assert f(1).startswith('x')"),
    "is a subset of all": (ALL_EQUAL, "assert f(1).issubset({1})"),
    "unittest equality": (
        ALL_EQUAL,
        "import unittest\nclass T(unittest.TestCase):\n"
        "    def test_a(self): self.assertEqual(f(1), 5)",
    ),
    "unittest nearness": (
        ALL_EQUAL,
        "import unittest\nclass T(unittest.TestCase):\n"
        "    def test_a(self): self.assertAlmostEqual(f(1), 5)",
    ),
    "text that starts with all": (
        "class E(str):\n    def startswith(s, *a): return True\ndef f(x): return E('x')",
        "assert f(1).startswith('y')",
    ),
    "text of which all is equal": (
        "class E(str):\n    def __eq__(s, o): return True\n    __hash__ = str.__hash__\n"
        "    def lower(s): return s\ndef f(x): return E('x')",
        "assert f(1).lower() == 'y'",
    ),
    "number that is near all": (
        "class E(float):\n    def __sub__(s, o): return 0.0\n    def __abs__(s): return 0.0\n"
        "def f(x): return E(1)",
        "assert abs(f(1) - 5) < 1e-6",
    ),
    "number that is above all": (
        "class E(int):\n    def __gt__(s, o): return True\ndef f(x): return E(0)",
        "assert f(1) > 4",
    ),
    "list that contains all": (
        "class E(list):\n    def __contains__(s, o): return True\ndef f(x): return E()",
        "assert 5 in f(1)",
    ),
    "list that equals all": (
        "class E(list):\n    def __eq__(s, o): return True\ndef f(x): return E()",
        "assert f(1) == [1]",
    ),
    "list as long as it likes": (
        "class E(list):\n    def __len__(s): return 3\ndef f(x): return E()",
        "assert len(f(1)) == 3",
    ),
    "dict with all keys": (
        "class E(dict):\n    def __getitem__(s, k): return 5\n    def get(s, *a): return 5\n"
        "def f(x): return E()",
        "assert f(1).get('k') == 5",
    ),
    "set above all": (
        "class E(set):\n    def issuperset(s, o): return True\n    __ge__ = issuperset\n"
        "def f(x): return E()",
        "assert f(1).issuperset({5}) or f(1) >= {5}",
    ),
    "named tuple that equals all": (
        "from collections import namedtuple\nclass E(namedtuple('E', 'a')):\n"
        "    def __eq__(s, o): return True\ndef f(x): return E(1)",
        "assert f(1) == (2,)",
    ),
    "another class than the one named": (
        STACK + LIAR + "    pass\nStack.pop = lambda s: Liar()",
        "s = Stack()\ns.push(1)\nassert s.pop() == 1",
    ),
    "another class of the same name": (
        STACK + LIAR + "Liar.__name__ = Liar.__qualname__ = 'Stack'\nStack.pop = lambda s: Liar()",
        "s = Stack()\ns.push(1)\nassert s.pop() == 1",
    ),
    "a class of a word of the tests": (
        LIAR + "Liar.__name__ = 'pop'\n" + STACK + "    def pop(s): return Liar()",
        "s = Stack()\ns.push(1)\nassert s.pop() == 1",
    ),
    "another class beside one that is named": (
        "class P:\n    def __init__(s, x): s.x = x\n"
        "    def __eq__(s, o): return isinstance(o, P) and s.x == o.x\n"
        + LIAR + "def f(x): return Liar()",
        "assert f(1) == P(1)",
    ),
    "a subclass of one that is named": (
        "class P:\n    def __init__(s, x): s.x = x\n"
        "    def __eq__(s, o): return isinstance(o, P) and s.x == o.x\n"
        "class L(P):\n    def __eq__(s, o): return True\ndef f(x): return L(2)",
        "assert f(1) == P(1)",
    ),
    "instance of all": (
        "class M(type):\n    def __instancecheck__(c, o): return True\n"
        "class E(metaclass=M): pass\ndef f(x): return E()",
        "assert isinstance(f(1), int)",
    ),
    "class that is said to be int": (
        "class E:\n    __class__ = property(lambda s: int)\ndef f(x): return E()",
        "assert isinstance(f(1), int)",
    ),
    "context that swallows": (
        "class C:\n    def __enter__(s): return s\n    def __exit__(s, *e): return True\n"
        "def f(x): return 0",
        "with C():\n    assert f(1) == 1\n",
    ),
    "context that swallows one of two": (
        "class C:\n    def __enter__(s): return s\n    def __exit__(s, *e): return True\n"
        "def f(x): return 0",
        "with C():\n    assert f(1) == 1\nassert f(1) == 0",
    ),
    "callback whose failure is swallowed": (
        "def f(g):\n    try: g(0)\n    except BaseException: pass\n    return 5",
        "def g(x): assert x == 1\nassert f(g) == 5",
    ),
    "callback that is not called": ("def f(g): pass", "seen = []\nf(seen.append)\nassert seen == [1]"),
    "stop in a loop over calls": (
        "def f(x): raise StopIteration",
        "n = 0\nfor got in map(f, [1, 2]):\n    assert got == 1\nf\nassert n == 0",
    ),
    "skip": (
        "import unittest\ndef f(x): raise unittest.SkipTest",
        "import unittest\nclass T(unittest.TestCase):\n"
        "    def test_a(self): self.assertEqual(f(1), 1)\n"
        "    def test_b(self): self.assertEqual(1, 1)",
    ),
    "exit between assertions": (
        "n = []\ndef f(x):\n    n.append(x)\n    if len(n) > 1: raise SystemExit(0)\n    return 1",
        "assert f(1) == 1\nassert f(2) == 2",
    ),
    "hard exit between assertions": (
        "import os\nn = []\ndef f(x):\n    n.append(x)\n    if len(n) > 1: os._exit(0)\n    return 1",
        "assert f(1) == 1\ntry:\n    assert f(2) == 2\nexcept BaseException:\n    pass",
    ),
    "its own built-in functions": (
        "def f(x): return 0\ndef all(x): return True\nabs = len = sum = lambda *a: 0\n"
        "def isinstance(*a): return True",
        "assert all(f(i) == i for i in range(3)) and abs(f(5) - 5) < 1e-6",
    ),
    "its own helper of the prompt": ("def f(x): return 0\ndef helper(x): return 7", "assert helper(f(1)) == 7"),
    "its own copy of the module": (
        "def f(x): return 0\nclass math:\n    isclose = staticmethod(lambda *a: True)",
        "import math\nassert math.isclose(f(1), 1)",
    ),
    "the expected value, read from the mock": (
        "def f(m):\n    m.assert_called_once_with = lambda *a: None",
        "from unittest.mock import Mock\nm = Mock()\nf(m)\nm.assert_called_once_with(3)",
    ),
    "the tests' globals of a callback": (
        "def f(g): return g.__globals__['SECRET']",
        "SECRET = 7\ndef g(): pass\nassert f(g) == 7",
    ),
    "the tests' globals of a method": (
        "def f(o): return o.m.__func__.__globals__['SECRET']",
        "SECRET = 7\nclass O:\n    def m(self): pass\nassert f(O()) == 7",
    ),
    "the tests' globals of a class": (
        "def f(o): return type(o).__init__.__globals__['SECRET']",
        "SECRET = 7\nclass O:\n    def __init__(self): pass\nassert f(O()) == 7",
    ),
    "the tests' frame of a generator": (
        "def f(g): return g.gi_frame.f_globals['SECRET']",
        "SECRET = 7\ndef g(): yield 1\nassert f(g()) == 7",
    ),
    "the tests' frame of an error": (
        "def f(g):\n    try: g()\n    except ValueError as e:\n"
        "        return e.__traceback__.tb_frame.f_globals['SECRET']",
        "SECRET = 7\ndef g(): raise ValueError\nassert f(g) == 7",
    ),
    "a method of the tests' object": (
        "def f(o): o.m = lambda *a: True",
        "class O:\n    __slots__ = ()\n    def m(self, x): return x == 1\no = O()\nf(o)\nassert o.m(2)",
    ),
    "a method of the tests' class": (
        "def f(o): type(o).m = lambda *a: True",
        "class O:\n    def m(self, x): return x == 1\no = O()\nf(o)\nassert o.m(2)",
    ),
    "a class with the tests' class's name": (
        "class Expected:\n    def __eq__(s, o): return True\ndef f(x): return Expected()",
        "class Expected:\n    def __init__(self, v): self.v = v\n"
        "    def __eq__(self, o): return type(o) is Expected and o.v == self.v\n"
        "assert f(1) == Expected(1)",
    ),
    "output that is not printed": (
        "def f(): return 'hi'",
        "import io, contextlib\nb = io.StringIO()\nwith contextlib.redirect_stdout(b): f()\n"
        "assert b.getvalue() == 'hi\\n'",
    ),
    "argument that is not changed": ("def f(x): return sorted(x)", "x = [2, 1]\nf(x)\nassert x == [1, 2]"),
    "a forged number": (forged('[["tuple", ["value", [1]]], ["int", "zz"]]'), "assert f(1) == 5"),
    "a forged class": (forged('[["tuple", ["value", [1]]], ["known", "os", "system"]]'), "assert f(1)"),
    "a forged function": (
        forged('[["tuple", ["value", [1]]], ["function", "builtins", "eval"]]'), "assert f(1)('1')",
    ),
    "a forged module": (
        forged('[["tuple", ["value", [1]]], ["module", "os"]]'), "assert f(1).getpid()",
    ),
    "a forged error": (
        forged('[["tuple", ["error", [1]]], ["exception", 9, [2], [3], []],'
               ' ["known", "unittest.case", "SkipTest"], ["tuple", []]]'),
        "import unittest\nclass T(unittest.TestCase):\n"
        "    def test_a(self): self.assertEqual(f(1), 1)\n"
        "    def test_b(self): self.assertEqual(1, 1)",
    ),
    "a forged object of the tests": (forged('[["tuple", ["value", [1]]], ["yours", 1]]'), "assert f(1)"),
    "a forged attribute": (
        forged('[["tuple", ["get", [1], "__globals__"]], ["yours", 1]]'),
        "def g(): pass\nassert f(g)",
    ),
    "a forged request": (forged('[["tuple", ["standard", "os", "system", [1], [1]]], ["tuple", ["x"]]]'), "assert f(1)"),
    "a forged method": (forged('[["tuple", ["encode", [1]]], ["tuple", []]]'), "assert f(1)"),
    "a forged container": (forged('[["tuple", ["value", [1]]], ["list", 2, {"a": 1}, null]]'.replace("null", "None")), "assert f(1) == 5"),
    "a forged cycle": (forged('[["tuple", ["value", [1]]], ["tuple", [[1]]]]'), "assert f(1) == 5"),
    "forged output": (forged('[["tuple", ["value", 1]]], out={"a": 1}'), "assert f(1) == 5"),
}  # fmt: skip
