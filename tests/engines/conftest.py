import sys

import pytest

WEB = ("flask", "flask_cors", "moto")


@pytest.fixture(scope="module", autouse=True)
def _without_web_frameworks():
    """vLLM looks at all that imported modules hold, and what flask's hold raises while idle."""
    hidden = {n: sys.modules.pop(n) for n in list(sys.modules) if n.partition(".")[0] in WEB}
    yield
    sys.modules.update(hidden)
