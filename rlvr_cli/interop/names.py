"""The names under which tools write the columns that are read, and how ids are written."""

from dataclasses import fields
from pathlib import Path
from typing import Any

from rlvr_cli.config import Columns
from rlvr_cli.errors import UsageError
from rlvr_cli.interop import finish, readers

KNOWN = {
    "id": readers.ID,
    "completion": (
        *("completion", "completions", "response", "responses"),
        *("output", "generation", "solutions", "text"),
    ),
    "correct": ("correct", "is_correct", "passed", "is_passed", "is_solved", "acc"),
    "reward": ("reward", "rewards", "score", "scores"),
    "extracted": ("extracted", "extracted_answer", "pred", "preds", "prediction", "predictions"),
    "source": ("source", "data_source", "dataset", "benchmark"),
    "sample": (
        *("sample_index", "sample_idx", "sample_num", "completion_index", "completion_idx"),
        *("completion_id", "response_index", "response_idx", "response_id", "generation_index"),
        *("generation_idx", "generation_id", "gen_index", "gen_idx", "gen_id", "rollout_index"),
        *("rollout_idx", "rollout_id", "repeat_index", "repeat_idx", "repeat_id", "repeat"),
        *("repetition", "repetition_id", "trial_index", "trial_id", "trial", "attempt_index"),
        *("attempt_id", "attempt", "_identifier", "sample_id", "epoch", "run_index", "run_id"),
        *("run",),
    ),
    "finish": finish.NAMES,
    "prompt": readers.PROMPT,
    "gold": (
        *("reward_model.ground_truth", "ground_truth", "gold", "target", "expected_answer"),
        *("golden_answers", "gold_answer", "ref_answer"),
        *("reference_answer", "correct_answer", "answer", "solution", "label"),
    ),
    "step": ("step", "global_step"),
    "model": ("model", "model_name", "model_id", "generator", "models"),
}
# One value a row; the others may be one list a row.
PER_ROW = ("id", "source", "prompt", "gold", "step")
# Columns of these names may say something else: the prompt, or what all of a file have alike.
MAYBE_SAMPLE = ("sample_id", "epoch", "run_index", "run_id", "run", "attempt")


def id_text(value: Any) -> str:
    """An id as text; 1, 1.0 and "1" are the same one."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def refuse_columns(path: Path, columns: Columns | None) -> None:
    """An error for options that say how to read files of other tools."""
    given = [f for f in fields(Columns) if columns and getattr(columns, f.name) != f.default]
    if given:
        flag = str(given[0].metadata["flag"] or given[0].name).replace("_", "-")
        raise UsageError(
            f"--{flag} is for files of other tools, and `{path}` is a directory of rlvr",
            f"leave --{flag} out",
        )
