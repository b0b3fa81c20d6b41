"""What vLLM's processes import ends them with the process that started them."""

import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

STARTING = """
import multiprocessing, sys, time

def work(ready):
    from rlvr_cli.engines.rollout import _vllm_worker
    ready.send(_vllm_worker.Extension.__name__)
    time.sleep(600)

if __name__ == "__main__":
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context(sys.argv[1]).Process(target=work, args=(theirs,))
    process.start()
    print(ours.recv(), flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_a_process_of_vllm_dies_with_the_one_that_started_it(family, tmp_path, method):
    (tmp_path / "starting.py").write_text(STARTING)
    words = [sys.executable, "-P", tmp_path / "starting.py", method]
    process = family.start(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout.readline() == "Extension\n"
    assert len(family.members()) > 1
    process.kill()
    process.wait()
    assert family.left() == []
