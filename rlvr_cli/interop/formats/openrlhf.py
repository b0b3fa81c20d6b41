"""OpenRLHF: the JSON lines of its batch inference, with the reward model's score or without.

Source: `openrlhf/cli/batch_inference.py` of OpenRLHF/OpenRLHF, to 0.9.
"""

from collections.abc import Callable

from rlvr_cli.interop.formats._common import Row, named, rewarded_by


def recognises(names: set[str]) -> bool:
    """`input` and `output`, and at most `reward`."""
    return {"input", "output"} <= names <= {"input", "output", "reward"}


def reader(file: str) -> Callable[[Row], list[Row]]:
    """Prompts have no id, so equal ones are one."""

    def read(row: Row) -> list[Row]:
        fields: Row = {"prompt_id": named(row["input"]), "prompt": row["input"],
                       "completion": row["output"]}  # fmt: skip
        return [row | fields | (rewarded_by("reward", row["reward"]) if "reward" in row else {})]

    return read
