"""NeMo-RL: the JSON lines of its steps, `train_data_step*.jsonl` and `val_data_step*.jsonl`.

Source: `log_batched_dict_as_jsonl` of `nemo_rl/utils/logger.py` and `nemo_rl/algorithms/grpo.py` of
NVIDIA-NeMo/RL. Each value is a list of one, but for `idx`, which numbers the rows of a file.
"""

from collections.abc import Callable
from typing import Any

from rlvr_cli.errors import DataError
from rlvr_cli.interop.formats._common import Row, named, rewarded_by
from rlvr_cli.interop.spoken import MODEL

_OF_ENVIRONMENT = "Environment:"  # how what follows a completion begins, in mathematics


def recognises(names: set[str]) -> bool:
    return {"content", "rewards", "idx"} <= names


def reader(file: str) -> Callable[[Row], list[Row]]:
    """Prompts have no id, so equal ones are one.

    Those of validation are messages. Those of training are texts without roles, of which a prompt,
    a completion and what the environment said are told apart; any other number is refused.
    """

    def read(row: Row) -> list[Row]:
        [turns], [reward] = row["content"], row["rewards"]
        prompt, completion = _texts(file, turns) if isinstance(turns[0], str) else _messages(turns)
        fields = {"prompt_id": named(prompt), "prompt": prompt, "completion": completion}
        return [row | fields | rewarded_by("rewards", reward)]

    return read


def _texts(file: str, texts: list[str]) -> tuple[str, str]:
    if len(texts) == 3 and texts[2].startswith(_OF_ENVIRONMENT):
        texts = texts[:2]
    if len(texts) != 2:
        raise DataError(
            f"`{file}` has a row of {len(texts)} texts, which do not say who wrote them",
            "read a val_data_step*.jsonl, whose messages have roles",
        )
    return texts[0], texts[1]


def _messages(turns: list[Row]) -> tuple[Any, Any]:
    first = next(at for at, turn in enumerate(turns) if turn["role"] in MODEL)
    return turns[:first], turns[first:]
