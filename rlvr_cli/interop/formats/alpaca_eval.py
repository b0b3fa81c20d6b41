"""AlpacaEval: a model's outputs, one per instruction, without verdicts.

Source: `results/*/model_outputs.json` of tatsu-lab/alpaca_eval.
"""

from collections.abc import Callable

from rlvr_cli.interop.formats._common import Row, named


def recognises(names: set[str]) -> bool:
    return {"instruction", "output", "generator"} <= names


def reader(file: str) -> Callable[[Row], list[Row]]:
    """Instructions have no id, so equal ones are one."""
    return lambda row: [
        row
        | {
            "prompt_id": named(row["instruction"]),
            "prompt": row["instruction"],
            "completion": row["output"],
        }
    ]
