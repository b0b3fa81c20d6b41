"""What tests of programs share: a sandbox that judges them."""

import pytest

from rlvr_cli.protocols import Limits
from rlvr_cli.verification.sandbox import launch
from rlvr_cli.verification.workers.pool import Pool, Task


@pytest.fixture(scope="session")
def judged():
    """Verdicts on completions, each with its gold and what is known beside it."""
    kind = next((kind for kind in launch.KINDS[:-1] if launch.works(kind)), None)
    if kind is None:
        pytest.skip("no sandbox works here")
    with Pool(2, environment={launch.VARIABLE: kind}) as pool:

        def judge(questions, spec="code:timeout_s=60"):
            tasks = [
                Task(spec, text, gold, extra, Limits(120.0, 2 << 30))
                for text, gold, extra in questions
            ]
            verdicts = dict(pool.run(tasks))
            return [verdicts[index] for index in range(len(tasks))]

        yield judge
