"""Completions of an evaluation, a few rows for a table."""

import json
from pathlib import Path
from typing import Any

from rlvr_cli.storage.images import Image, Images
from rlvr_cli.storage.shards import MANIFEST, Shards
from rlvr_cli.terminal.escape import clipped, shown

MOST_TEXT = 4000  # characters of a text


def of_evaluation(run: Path, step: int, most: int) -> list[dict[str, Any]]:
    """The first completion of each of the first prompts, with its verdict.

    The same prompts at every step, so that their completions can be compared. None where the
    evaluation's shards are not there any more.
    """
    here = run / "eval" / f"{step:06d}"
    if not most or not all((here / kind / MANIFEST).exists() for kind in ("rollouts", "scores")):
        return []
    scores = Shards.open(here / "scores", "scores")
    prompts = scores.parent("prompts").table().select(["prompt_id", "messages", "answer"])
    asked = {row["prompt_id"]: row for row in prompts.to_pylist()}
    columns = ["prompt_id", "sample_index", "completion", "finish_reason"]
    rollouts = Shards.open(here / "rollouts", "rollouts")
    chosen: list[dict[str, Any]] = []
    for index in range(len(rollouts)):
        part = rollouts.part(index, columns).to_pylist()
        verdicts = scores.part(index).to_pylist()
        for row, verdict in zip(part, verdicts, strict=True):
            if row["sample_index"] == 0 and len(chosen) < most:
                chosen.append(_row(asked[row["prompt_id"]], row, verdict))
        if len(chosen) == most:
            break
    return chosen


def images_of(run: Path, step: int, prompt_ids: list[str]) -> dict[str, list[Image]]:
    """The images of these prompts of an evaluation, of those that have some."""
    scores = Shards.open(run / "eval" / f"{step:06d}" / "scores", "scores")
    images = Images.of(scores.parent("prompts"))
    images_by_prompt = {name: [*images.images_of(name)] for name in prompt_ids} if images else {}
    return {name: own for name, own in images_by_prompt.items() if own}


def _row(asked: dict[str, Any], row: dict[str, Any], verdict: dict[str, Any]) -> dict[str, Any]:
    return {
        "prompt_id": row["prompt_id"],
        "prompt": _text(_prompt(asked["messages"])),
        "completion": _text(row["completion"]),
        "answer": _text(asked["answer"]),
        "extracted": _text(verdict["extracted"]),
        "reason": _text(verdict["reason"]),
        "reward": verdict["reward"],
        "status": verdict["status"],
        "finish_reason": row["finish_reason"],
    }


def _prompt(messages: str) -> str:
    prompt = json.loads(messages)
    if isinstance(prompt, str):
        return prompt
    return "\n".join(f"{message['role']}: {_content(message['content'])}" for message in prompt)


def _content(content: Any) -> Any:
    """A message's content; of one with images its texts, and a note for each image."""
    if not isinstance(content, list):
        return content
    return "\n".join(
        f"[image {part['image'][:12]}]" if part["type"] == "image" else part["text"]
        for part in content
    )


def _text(text: str | None) -> str | None:
    if text is None:
        return None
    start, left_out = clipped(text, MOST_TEXT)
    return shown(start) + (f" ... ({left_out} more characters)" if left_out else "")
