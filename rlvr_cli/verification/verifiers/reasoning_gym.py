"""The score that reasoning-gym's own scorer gives, for prompts of `task:reasoning-gym`."""

import functools
import json
import math
from typing import Any

from rlvr_cli.protocols import Equality, Isolated, Limits, Verdict
from rlvr_cli.tasks import _reasoning_gym
from rlvr_cli.verification.parsing import gym

EQUALITY: Equality = "text"  # the scorers ask for the problem, and another answer is none
_LOGIC = "2"
_IMPORTING_S = 60.0
_WHY = 200  # characters of an error
Entry = tuple[str, Any, dict[str, Any]]  # the generator's name, its data set, the entry


def build(*, timeout_s: float = 10.0, memory_mib: int = 4096) -> Isolated:
    r"""The reward that `score_answer` of the prompt's generator gives, from 0 to 1; 1 is correct.

    The answer is the content of the last `<answer>` tags, else in the last `\\boxed{}`, else all
    that follows the thoughts.
    """
    if timeout_s <= 0 or memory_mib <= 0:
        raise ValueError("timeout_s and memory_mib must be above 0")
    _reasoning_gym.require()
    return Isolated(
        extract=gym.answer_of,
        judge=_judge,
        limits=Limits(timeout_s, memory_mib << 20, first_seconds=_IMPORTING_S),
        version=f"{_LOGIC}-{_reasoning_gym.VERSION}",
        reads=("reasoning_gym", "metadata", "question"),
        imports=("rlvr_cli.tasks._reasoning_gym",),
    )


def _judge(extracted: str | None, answer: str, extra: dict[str, Any]) -> Verdict:
    try:
        name, data, entry = _entry(answer, extra)
    except (ValueError, KeyError, TypeError) as error:
        return Verdict("bad_gold", reason=str(error)[:_WHY])
    if extracted is None:
        return _nothing("no <answer> tags, no box, and the text is empty or cut")
    if why := gym.unreadable(name, extracted):
        return _nothing(why, extracted)
    try:
        reward = float(data.score_answer(extracted, entry))
    except MemoryError:
        raise
    except Exception as error:
        if not _reads_its_own(data, _entry(answer, extra)[2]):
            raise
        return _nothing(f"the scorer cannot read it: {type(error).__name__}: {error}", extracted)
    if not math.isfinite(reward):
        raise ValueError(f"the scorer gives {reward}")
    if reward >= 1:
        reward = min(reward, gym.mended(name, extracted, entry))
    return Verdict("ok", reward, reward >= 1, extracted)


def _nothing(reason: str, extracted: str | None = None) -> Verdict:
    return Verdict("no_answer", 0.0, False, extracted, reason=reason[:_WHY])


def _entry(answer: str, extra: dict[str, Any]) -> Entry:
    """The problem that a prompt holds; ValueError where it holds none that can be scored.

    A data set that reasoning-gym's own script wrote has only its `metadata`, in which tuples are
    lists: it will do where the scorer takes the gold for right.
    """
    stored = extra.get("reasoning_gym")
    if stored is not None:
        if stored["version"] != _reasoning_gym.VERSION:
            raise ValueError(f"it is of reasoning-gym {stored['version']}: make the prompts again")
        config = json.dumps(stored["config"])
        data = _data_set(stored["name"], stored["difficulty"], config)
        return stored["name"], data, _reasoning_gym.decoded(stored["entry"])
    metadata = extra.get("metadata")
    metadata = json.loads(metadata) if isinstance(metadata, str) else metadata
    if not isinstance(metadata, dict) or "source_dataset" not in metadata:
        raise ValueError("it has no problem of reasoning-gym: make prompts of task:reasoning-gym")
    name = metadata["source_dataset"]
    entry = {"question": extra.get("question", ""), "answer": answer, "metadata": metadata}
    data = _data_set(name, None, "{}")
    if not _reads_its_own(data, entry):
        raise ValueError(
            f"the scorer of `{name}` does not take its own answer with this `metadata`"
        )
    return name, data, entry


def _reads_its_own(data: Any, entry: dict[str, Any]) -> bool:
    """Whether the scorer takes the answer of an entry for right; one without has none to read."""
    if entry["answer"] is None:
        return True
    try:
        return float(data.score_answer(entry["answer"], entry)) >= 1
    except Exception:
        return False


@functools.lru_cache(maxsize=256)
def _data_set(name: str, difficulty: int | None, config: str) -> Any:
    return _reasoning_gym.data_set(name, difficulty, json.loads(config))
