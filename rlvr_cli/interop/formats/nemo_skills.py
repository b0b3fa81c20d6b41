"""NeMo-Skills: `output.jsonl`, `output-rs0.jsonl` and so on, one sample of each prompt per file.

Source: `nemo_skills/inference/generate.py` and `evaluation/metrics/` of NVIDIA/NeMo-Skills.
"""

import re
from collections.abc import Callable
from typing import Any

from rlvr_cli.interop.formats._common import Row, correct_by, named

_VERDICTS = ("is_correct", "symbolic_correct", "judgement")
_OWN = {"symbolic_correct", "judgement", "predicted_answer", "is_correct-plus",
        "num_generated_tokens", "generation_start_time"}  # fmt: skip
_SEED = re.compile(r"-rs(\d+)")


def recognises(names: set[str]) -> bool:
    """`generation` with another of its columns, or a verdict next to the tokens' number."""
    judged = bool(set(_VERDICTS) & names) and bool(_OWN & names)
    return ("generation" in names and bool(_OWN & names)) or (
        judged and "num_generated_tokens" in names
    )


def reader(file: str) -> Callable[[Row], list[Row]]:
    """The file's name numbers the sample. A prompt is known by its id, its text, or its line.

    One of `is_correct`, `symbolic_correct` and `judgement` is the verdict in all of the file, the
    first that it has. A judge that says neither yes nor no gives none.
    """
    seed = _SEED.search(file)
    chosen: list[str | None] = []
    lines = 0

    def read(row: Row) -> list[Row]:
        nonlocal lines
        if not chosen:
            chosen.append(next((name for name in _VERDICTS if name in row), None))
        prompt = next((row[n] for n in ("problem", "question", "prompt") if row.get(n)), None)
        fields: Row = {"prompt_id": row.get("id", named(prompt) if prompt else str(lines)),
                       "answer": row.get("expected_answer")}  # fmt: skip
        lines += 1
        if prompt:
            fields["prompt"] = prompt
        if "generation" in row:
            fields["completion"] = row["generation"]
        if "predicted_answer" in row:
            fields["extracted"] = row["predicted_answer"]
        if seed:
            fields["sample_index"] = int(seed[1])
        if "judgement" in row:
            fields["judge_correct"] = _judged(row["judgement"])
        verdict = "judge_correct" if chosen[0] == "judgement" else chosen[0]
        return [row | fields | correct_by(chosen[0], (row | fields).get(verdict or ""))]

    return read


def _judged(text: Any) -> bool | None:
    """What a judge says after its last `Judgement:`."""
    _, marker, judgement = str(text).rpartition("Judgement:")
    word = judgement.strip().lower() if marker else ""
    return True if word.startswith("yes") else False if word.startswith("no") else None
