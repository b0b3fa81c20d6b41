"""Updates on rows with images by several engines; one JSON object on stdout, from rank 0.

python tests/engines/training/deepspeed_images.py POLICY PICTURE FOLDER SPEC...

FOLDER/NUMBER has the checkpoint of each after two updates.
"""

import json
import sys
from pathlib import Path

from rlvr_cli import registry
from rlvr_cli.algorithms import objective
from rlvr_cli.algorithms.objective import Totals
from rlvr_cli.config import UpdateOptions
from rlvr_cli.models import images, policy as policies
from rlvr_cli.protocols import Row
from rlvr_cli.runtime import distributed

TOTALS = Totals(tokens=12, sequences=5, max_length=8)


def rows_of(loaded, picture):
    """Two rows with an image, one with two, and two without any."""
    token = loaded.tokenizer.convert_tokens_to_ids
    begin, end = token("<|vision_start|>"), token("<|vision_end|>")
    shown = [*images.expanded(loaded.processor, loaded.processor.image_token, [picture])]
    prompt = [begin, *shown, end]
    return [
        Row([*prompt, 9, 8], [20, 21, 22], advantage=1.5, images=(picture,)),
        Row([*prompt, *prompt, 7], [30, 31], advantage=-0.5, images=(picture, picture)),
        Row([4, *prompt], [25], advantage=-0.5, images=(picture,)),
        Row([5, 6, 7], [40, 41, 42, 43], advantage=0.7),
        Row([5, 6], [50, 51], advantage=-1.2),
    ]


def run(spec, policy, picture, folder, train_vision):
    """What two updates say of themselves, and the log-probs after them."""
    options = UpdateOptions(micro_batch_tokens=10, train_vision=train_vision)
    loaded = policies.load(policies.resolve(policy))
    engine = registry.build("training", spec)(loaded, options)
    algo, rows, said = objective.build("reinforce"), rows_of(loaded, picture), []
    for _ in range(2):
        sums = engine.accumulate(rows, algo, TOTALS, 1.0)
        said.append([sums["loss"], sums["entropy"], engine.update(1e-3)])
    engine.save(folder)
    return {"said": said, "logps": [logp.tolist() for logp in engine.logp(rows, 1.0)]}


def main(policy, picture, folder, *specs):
    data = Path(picture).read_bytes()
    results = []
    for number, spec in enumerate(specs):
        name, _, trains = spec.partition("+")
        place = Path(folder) / str(number)
        results.append(run(name, policy, data, place, train_vision=bool(trains)))
    if distributed.current().is_main_process:
        print(json.dumps(results))
    distributed.leave()


if __name__ == "__main__":
    main(*sys.argv[1:])
