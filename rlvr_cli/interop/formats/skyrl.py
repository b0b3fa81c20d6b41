"""SkyRL: the JSON lines of its evaluations, one file per data set.

Source: `dump_per_dataset_eval_results` of `skyrl/train/utils/trainer_utils.py` of
NovaSky-AI/SkyRL.
"""

from collections.abc import Callable

from rlvr_cli.interop.formats._common import Row, named, rewarded_by


def recognises(names: set[str]) -> bool:
    return {"input_prompt", "output_response", "score"} <= names


def reader(file: str) -> Callable[[Row], list[Row]]:
    """Prompts have no id, so equal ones are one; rewards of tokens are added up, as SkyRL does."""

    def read(row: Row) -> list[Row]:
        extras, score = row.get("env_extras") or {}, row["score"]
        gold = extras.get("reward_spec") or extras.get("reward_model") or {}
        fields: Row = {"prompt_id": named(row["input_prompt"]), "prompt": row["input_prompt"],
                       "completion": row["output_response"],
                       "finish_reason": row.get("stop_reason"),
                       "answer": gold.get("ground_truth") if isinstance(gold, dict) else None,
                       }  # fmt: skip
        reward = sum(score) if isinstance(score, list) else score
        return [row | fields | rewarded_by("score", reward)]

    return read
