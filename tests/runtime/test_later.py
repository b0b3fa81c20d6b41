import gc
import importlib.util
import sys
import textwrap

import pytest

from rlvr_cli.runtime import later
from rlvr_cli.runtime.later import Later


@pytest.fixture
def slow_module(tmp_path, monkeypatch):
    """A module that keeps whether garbage was collected while it was imported."""
    text = "import gc\nIS_COLLECTED = gc.isenabled()\nimport gone_with_the_wind\n"
    (tmp_path / "slow_module.py").write_text(textwrap.dedent(text))
    (tmp_path / "gone_with_the_wind.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in ("slow_module", "gone_with_the_wind"):
        sys.modules.pop(name, None)


def test_a_module_is_imported_when_something_of_it_is_used_and_without_collections(slow_module):
    module = Later("slow_module")
    assert "slow_module" not in sys.modules
    assert module.IS_COLLECTED is False
    assert gc.isenabled()
    with pytest.raises(AttributeError, match="slow_module"):
        _ = module.nothing


def test_an_import_that_fails_is_that_modules_error_and_collections_go_on(slow_module):
    (slow_module / "gone_with_the_wind.py").unlink()
    with pytest.raises(ModuleNotFoundError, match="gone_with_the_wind"):
        _ = Later("slow_module").IS_COLLECTED
    assert gc.isenabled()


def test_functions_without_gradient_have_none_and_keep_their_name():
    torch = pytest.importorskip("torch")

    @later.no_grad
    def doubled(value):
        """Twice the value."""
        return 2 * value

    assert not doubled(torch.ones(1, requires_grad=True)).requires_grad
    assert doubled.__name__ == "doubled" and torch.is_grad_enabled()


def test_transformers_knows_afterwards_what_is_installed():
    from transformers import utils

    later.import_transformers()
    assert utils.is_sklearn_available() == (importlib.util.find_spec("sklearn") is not None)
    assert utils.is_scipy_available()
