"""open-instruct: the JSON lines of saved rollouts, as token ids, and of rejection sampling.

Source: `open_instruct/rl_utils.py` and `rejection_sampling/` of allenai/open-instruct.
"""

from collections.abc import Callable

from rlvr_cli.interop.formats._common import Row, named, rewarded_by


def recognises(names: set[str]) -> bool:
    return {"prompt_tokens", "response_tokens", "reward"} <= names or {
        *("messages", "model_completion", "reference_completion")
    } <= names


def reader(file: str) -> Callable[[Row], list[Row]]:
    """Rollouts have no texts. Equal prompts are one, as their index restarts in each step."""

    def read(row: Row) -> list[Row]:
        if "model_completion" in row:
            prompt = row["messages"][:-1]
            scored = rewarded_by("score", row["score"]) if "score" in row else {}
            return [row | {"prompt_id": named(prompt), "prompt": prompt,
                           "completion": row["model_completion"]} | scored]  # fmt: skip
        fields: Row = {"prompt_id": named(row["prompt_tokens"]), "source": row.get("dataset")}
        return [row | fields | rewarded_by("reward", row["reward"])]

    return read
