"""Runs every ZeRO stage on the built-in policy; one JSON object on stdout, from rank 0.

python tests/engines/training/deepspeed_worker.py FOLDER SPEC... [kernels=NAME...]

For every `kernels` FOLDER/NAME.pt has the whole gradients that these make under ZeRO-3.
"""

import dataclasses
import json
import os
import sys
from pathlib import Path

import torch

from rlvr_cli import registry
from rlvr_cli.algorithms import objective
from rlvr_cli.algorithms.objective import Totals
from rlvr_cli.config import UpdateOptions
from rlvr_cli.kernels import dispatch
from rlvr_cli.models import policy
from rlvr_cli.protocols import Row
from rlvr_cli.runtime import distributed

OPTIONS = UpdateOptions(micro_batch_tokens=10, weight_decay=0.01, max_grad_norm=1.0)
TOTALS = Totals(tokens=16, sequences=5, max_length=8)
ROWS = [
    Row([20, 30, 40], [9, 8, 7, 6, 1], advantage=1.5),
    Row([3], [4, 1], advantage=-0.5),
    Row([5, 6, 7, 8, 9], [12, 0], advantage=-0.5),
    Row([50, 51], [3, 4, 5, 1], advantage=-0.5),
    Row([7], [60, 61, 62], advantage=0.7),
]


def start(spec, path="builtin"):
    return registry.build("training", spec)(policy.load(policy.resolve(str(path))), OPTIONS)


def rows_of(engine):
    logps = engine.logp(ROWS, 1.0)
    return [dataclasses.replace(r, old_logp=logp) for r, logp in zip(ROWS, logps, strict=True)]


def updates(engine, rows, count):
    """What each of so many updates on the rows says of itself."""
    algo, said = objective.build("grpo"), []
    for _ in range(count):
        sums = engine.accumulate(rows, algo, TOTALS, 1.0)
        said.append(sums | {"norm": engine.update(1e-4), "updates": engine.updates})
    return said


def run(spec, folder):
    """Two updates, a checkpoint, two more; and those two again by an engine that resumed."""
    engine = start(spec)
    rows = rows_of(engine)
    said = updates(engine, rows, 2)
    engine.save(folder)
    ahead = engine.logp(ROWS, 1.0)
    said += updates(engine, rows, 2)
    again = start(spec, folder)
    resumed_logp = again.logp(ROWS, 1.0)
    resumed = updates(again, rows, 2)
    weights = torch.cat([value.float().flatten() for _, value in again.weights()])
    return {
        "said": said,
        "resumed": resumed,
        "ahead": [logp.tolist() for logp in ahead],
        "resumed_logp": [logp.tolist() for logp in resumed_logp],
        "sum": float(weights.double().sum()),
        "count": len(weights),
    }


def accumulated(spec):
    """An engine with the gradient of rows that need no pass for their old log-probs."""
    engine = start(spec)
    rows = [dataclasses.replace(row, old_logp=[-4.0] * len(row.token_ids)) for row in ROWS]
    engine.accumulate(rows, objective.build("grpo"), TOTALS, 1.0)
    return engine


def gradients(kernels, folder):
    from deepspeed.utils import safe_get_full_grad

    os.environ[dispatch.VARIABLE] = kernels
    named = accumulated("deepspeed:zero=3")._trained.named.items()
    result = {name: safe_get_full_grad(parameter) for name, parameter in named}
    if distributed.current().is_main_process:
        torch.save(result, folder / f"{kernels}.pt")


def main() -> None:
    torch.set_num_threads(1)
    folder, *words = sys.argv[1:]
    specs = [word for word in words if not word.startswith("kernels=")]
    result = {spec: run(spec, Path(folder) / str(number)) for number, spec in enumerate(specs)}
    for word in words[len(specs) :]:
        gradients(word.removeprefix("kernels="), Path(folder))
    if distributed.current().is_main_process:
        print(json.dumps(result))
    distributed.leave()


if __name__ == "__main__":
    main()
