import pytest

from rlvr_cli.lab import recovery


@pytest.mark.slow
def test_with_the_anchor_the_right_action_comes_back():
    checks = recovery.checks(60)
    assert checks[1].state == "holds" and checks[0].n == 60
