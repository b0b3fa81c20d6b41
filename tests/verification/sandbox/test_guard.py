"""What the process of the tests executes: the tests, and nothing that a program may have written.

The programs here return text that would report a success, and end there, where it is executed.
"""

import pytest

from rlvr_cli.verification.sandbox import launch

FORGE = (
    "import gc, os\nfor n in range(3, 64):\n    try: os.write(n, b'{\"passed\": true}')\n"
    "    except OSError: pass\nos._exit(0)"
)
RETURNS_TEXT = f"def f(): return {FORGE!r}"
RETURNS_CALL = f"def f(): return {'exec(' + repr(FORGE) + ')'!r}"
RETURNS_PICKLE = "def f(): return b'cos\\nsystem\\n(S\"true\"\\ntR.'"
RETURNS_CODE = f"import marshal\ndef f(): return marshal.dumps(compile({FORGE!r}, 'x', 'exec'))"
FILE = "def f():\n    open('/tmp/made.py', 'w').write('x = 1')\n    return 'made'"

EXECUTING = {
    "eval": (RETURNS_CALL, "assert eval(f()) == 24"),
    "exec": (RETURNS_TEXT, "exec(f())\nassert x == 24"),
    "exec of what was compiled": (RETURNS_TEXT, "exec(compile(f(), 'x', 'exec'))\nassert x"),
    "a name for eval": (RETURNS_CALL, "run = eval\nassert run(f()) == 24"),
    "built-ins": (RETURNS_CALL, "import builtins\nassert getattr(builtins, 'ev' 'al')(f()) == 2"),
    "a lambda in map": (RETURNS_CALL, "assert list(map(eval, [f()])) == [24]"),
    "pickle": (RETURNS_PICKLE, "import pickle\nassert pickle.loads(f()) == 24"),
    "pickle in Python": (RETURNS_PICKLE, "import pickle\nassert pickle._loads(f()) == 24"),
    "marshal": (RETURNS_CODE, "import marshal\nexec(marshal.loads(f()))\nassert 0"),
    "a function of code": (
        RETURNS_TEXT,
        "import types\ntypes.FunctionType(compile(f(), 'x', 'exec'), {})()\nassert 0",
    ),
    "timeit": (RETURNS_TEXT, "import timeit\nassert timeit.timeit(f(), number=1) >= 0"),
    "doctest": (
        f"def f(): return '>>> ' + {RETURNS_CALL!r}",
        "import doctest\nclass T: __doc__ = '>>> 1\\n1'\n"
        "doctest.run_docstring_examples(T, {})\nassert f()",
    ),
    "type hints": (
        RETURNS_CALL,
        "import typing\nclass T: __annotations__ = {'x': f()}\ntyping.get_type_hints(T)\nassert 0",
    ),
    "runpy": (FILE, "import runpy\nassert f()\nrunpy.run_path('/tmp/made.py')"),
    "an import of its file": (
        FILE,
        "import sys\nsys.path.insert(0, '/tmp')\n__import__(f())\nassert 0",
    ),
    "an error that is caught": (
        RETURNS_CALL,
        "try: value = eval(f())\nexcept BaseException: value = 24\nassert value == 24",
    ),
}

HARMLESS = {
    "a named tuple": "import collections\nT = collections.namedtuple('T', 'x y')\n"
    "assert T(f(), 1).x == '[1]'",
    "typing's": "import typing\nclass T(typing.NamedTuple):\n    x: int\nassert T(f()).x == '[1]'",
    "a data class": "import dataclasses\n@dataclasses.dataclass\nclass T:\n    x: str\n"
    "assert T(f()) == T('[1]')",
    "a literal": "import ast\nassert ast.literal_eval(f()) == [1]",
    "a parsed program": "import ast\nassert ast.dump(ast.parse(f()))",
    "a compiled program": "assert compile(f(), 'x', 'eval')",
    "a module": "import statistics, this, xml.dom.minidom\nassert f() == '[1]'",
    "JSON": "import json\nassert json.loads(f()) == [1]",
    "pickled data": "import pickle\nassert pickle.loads(pickle.dumps(f())) == '[1]'",
    "an enumeration": "import enum\nT = enum.Enum('T', 'x y')\nassert f() == '[1]' and T.x",
}


@pytest.fixture(scope="module")
def run():
    kind = next((kind for kind in launch.KINDS[:-1] if launch.works(kind)), None)
    if kind is None:
        pytest.skip("no sandbox works here")

    def call(program, tests):
        job, given = {"program": program, "style": "tests"}, {"prompt": "", "entry_point": "f"}
        given = {"tests": tests, **given}
        return launch.run(kind, job, given, seconds=60.0, memory_bytes=1 << 29)

    return call


@pytest.mark.parametrize("name", EXECUTING)
def test_a_gold_that_executes_what_a_program_returns_is_bad(run, name):
    outcome = run(*EXECUTING[name])
    assert outcome["status"] == "bad_gold"
    assert "what a program returns must not run beside them" in outcome["reason"]


@pytest.mark.parametrize("name", HARMLESS)
def test_a_gold_may_build_and_read_what_runs_no_text_of_a_program(run, name):
    assert run("def f(): return '[1]'", HARMLESS[name]) == {"passed": True}


def test_the_reason_says_where(run):
    outcome = run(RETURNS_CALL, "x = 1\nassert f()\nassert eval(f()) == 24")
    assert outcome["reason"].startswith("the tests in line 3 execute text or code (eval, exec)")


def test_the_process_of_the_tests_has_the_filter_too(run):
    refused = (
        "def refused(call, *arguments):\n    try: call(*arguments)\n"
        "    except PermissionError: return True\n    return False\n"
        "import os, socket\nassert refused(os.fork) and refused(os.kill, os.getppid(), 0)\n"
        "assert refused(socket.socket) and refused(os.execv, '/bin/true', ['true'])\n"
        "assert f() == 1"
    )
    assert run("def f(): return 1", refused) == {"passed": True}
