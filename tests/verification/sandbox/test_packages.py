"""Packages that programs may import: those that were named and what they need, and no others."""

import textwrap
from importlib import metadata

import pytest

from rlvr_cli.verification.sandbox import launch, packages
from rlvr_cli.verification.sandbox.process import Sandbox
from rlvr_cli.verification.verifiers import code

JOB = {"style": "tests", "seconds": 60.0, "file_bytes": 1 << 20, "output_bytes": 1 << 20}


@pytest.fixture(scope="module", params=launch.KINDS)
def run(request):
    if not launch.works(request.param):
        pytest.skip(f"{request.param} does not work here")
    with Sandbox(request.param, packages.find(("NumPy",))) as sandbox:

        def call(program, tests="assert f() == 1", memory_bytes=1 << 28):
            job = {**JOB, "program": textwrap.dedent(program), "memory_bytes": memory_bytes}
            return sandbox.run(job, {"tests": tests, "prompt": "", "entry_point": "f"}, 60.0)

        yield call


def test_numpy_computes_under_the_least_memory(run):
    program = """
    import numpy as np
    def f():
        a = np.random.default_rng(0).normal(size=(300, 300))
        q, r = np.linalg.qr(a @ a.T)
        return int(np.allclose(q @ r, a @ a.T) and np.fft.fft(a).shape == (300, 300))
    """
    assert run(program) == {"passed": True}


def test_tests_may_import_a_package_too(run):
    tests = "import numpy as np\nassert np.allclose(f(), [1, 2])"
    assert run("def f(): return [1, 2]", tests) == {"passed": True}


def test_arrays_that_are_too_large_are_out_of_memory(run):
    assert run("import numpy\ndef f(): return numpy.ones(1 << 28).sum()")["status"] == "oom"


def test_what_was_not_named_is_not_there(run):
    outcome = run("import pyarrow\ndef f(): return 1")
    assert outcome["passed"] is False and "No module named 'pyarrow'" in outcome["reason"]


def test_what_a_package_needs_comes_with_it():
    found = packages.find(("datasets",))
    assert {"datasets", "pyarrow", "fsspec", "yaml"} <= set(found.tops)
    assert found.modules == ("datasets",)
    assert f"datasets {metadata.version('datasets')}" in found.versions


def test_a_package_that_is_missing_is_named():
    with pytest.raises(ValueError, match="the package nowhere-to-be-found is not installed here"):
        code.build(packages=("nowhere-to-be-found",))


def test_the_versions_of_packages_belong_to_a_verdict():
    version = code.build(packages=("numpy",)).version
    assert version == f"{code.build(packages=()).version} numpy {metadata.version('numpy')}"


def test_the_usual_packages_are_those_that_are_installed_and_none_is_imported_beforehand():
    found = packages.find((packages.AUTO,))
    assert "numpy" in found.tops and "sympy" in found.tops and "mpmath" in found.tops
    assert found.modules == () and "transformers" not in found.tops
    assert packages.find((packages.AUTO, "numpy")).modules == ("numpy",)
    assert packages.find(()) == packages.Packages()
