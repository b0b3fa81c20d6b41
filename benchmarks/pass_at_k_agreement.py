"""The Pass@k of lm-eval, lighteval and EvalPlus beside rlvr's, on the same stored completions.

    pip install --no-deps lm-eval==0.4.13 lighteval==0.13.0 evalplus==0.3.1 sacrebleu portalocker
    python -P benchmarks/pass_at_k_agreement.py FILE...

The files are read as `rlvr eval-passk --merge` reads them, and each tool's own function gets the
verdicts: lm-eval's `_pass_at_k` of its task cruxeval, the metric `PassAtK` of lighteval with a
document and a response that hold the verdicts as texts, and `estimate_pass_at_k` of EvalPlus.
lighteval's metric is one object for all prompts, as in its own runs. Three more sets of completions
follow where the tools may part: prompts with different numbers of completions, and a k above that
number.
"""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from rlvr_cli.config import Columns
from rlvr_cli.errors import DataError
from rlvr_cli.evaluation.load import tally
from rlvr_cli.evaluation.metrics import passk

Counts = tuple[np.ndarray, np.ndarray]  # completions and correct ones of each prompt


def rlvr(counts: Counts, k: int) -> float:
    return float(passk.pass_at_k_table(*counts, [k]).mean())


def lm_eval(counts: Counts, k: int) -> float:
    found = importlib.util.find_spec("lm_eval")
    assert found and found.submodule_search_locations, "lm-eval is installed"
    file = Path(found.submodule_search_locations[0], "tasks/cruxeval/utils.py")
    spec = importlib.util.spec_from_file_location("cruxeval_utils", file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return float(np.mean([module._pass_at_k(n, c, k) for n, c in zip(*counts, strict=True)]))


def lighteval(counts: Counts, k: int, n: int | None = None) -> float:
    from lighteval.metrics.metrics_sample import ExactMatches, PassAtK
    from lighteval.models.model_output import ModelResponse
    from lighteval.tasks.requests import Doc

    metric = PassAtK(k=k, n=n, sample_scoring_function=ExactMatches())
    values = []
    for size, correct in zip(*counts, strict=True):
        said = ModelResponse(text=["right"] * int(correct) + ["wrong"] * int(size - correct))
        values.append(metric.compute(Doc(query="", choices=["right"], gold_index=0), said))
    return float(np.mean(values))


def evalplus(counts: Counts, k: int) -> float:
    from evalplus.eval import estimate_pass_at_k

    return float(estimate_pass_at_k(counts[0], counts[1], k).mean())


TOOLS: dict[str, Callable[[Counts, int], float]] = {
    "rlvr": rlvr,
    "lm-eval": lm_eval,
    "lighteval": lighteval,
    "EvalPlus": evalplus,
}


def show(name: str, counts: Counts, k: int) -> None:
    cells = []
    for tool in TOOLS.values():
        try:
            cells.append(f"{tool(counts, k):.15f}")
        except (AssertionError, DataError, ValueError) as error:
            cells.append(f"refused ({type(error).__name__})")
    print(f"| {name} | {k} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    print(f"| completions | k | {' | '.join(TOOLS)} |\n|{'---|' * (len(TOOLS) + 2)}")
    for file in sys.argv[1:]:
        tallied, _ = tally(Path(file), columns=Columns(merge=True), answers=False)
        counts = tallied.n_P, tallied.correct_P
        for k in (1, 2, int(tallied.n_P.min())):
            show(Path(file).name.partition(".")[0], counts, k)
    uneven = np.array([8, 4, 4]), np.array([2, 1, 0])
    for k in (1, 4):
        show("8, 4, 4 completions, 2, 1, 0 correct", uneven, k)
        show(
            "4, 8, 4 completions, 1, 2, 0 correct", (uneven[0][[1, 0, 2]], uneven[1][[1, 0, 2]]), k
        )
    show("4 completions, none correct", (np.array([4]), np.array([0])), 8)


if __name__ == "__main__":
    main()
