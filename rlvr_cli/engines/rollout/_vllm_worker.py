"""What vLLM's own processes import before they load a model: they die with the process of rlvr.

vLLM ends them by a thread of theirs, which a long computation keeps waiting, and not before the
model is loaded.
"""

import multiprocessing

from rlvr_cli.engines.rollout import _vllm_images
from rlvr_cli.runtime import parents

if parent := multiprocessing.parent_process():
    parents.die_with_parent(parent.pid)
    _vllm_images.prepare_process()


class Extension:
    """Adds nothing to vLLM's worker."""
