"""reasoning-gym's generators of puzzles, mathematics, games and code, at levels of difficulty."""

from typing import Any, Literal

from rlvr_cli.tasks import _reasoning_gym

Split = Literal["train", "heldout"]
# What reasoning-gym's own runs put before a question, by its names; all ask for <answer> tags.
System = Literal["default", "simple", "direct", "chain_of_draft", "DeepSeekZero", "none"]

_HELD_OUT = 2**31  # added to the seed: problem i of a seed s is drawn with the seed s + i
_SEVERAL = "the same for every generator; make one data set for each, and mix them"
NO_GOLD = "(no single answer)"


def build(
    *,
    name: str | list[str] = "countdown",
    split: Split = "train",
    difficulty: int | None = None,
    config: dict[str, Any] | None = None,
    size: int = 500,
    seed: int = 0,
    weights: list[float] | None = None,
    system: System = "default",
) -> list[dict[str, Any]]:
    """`size` problems of a generator, those of its `create_dataset(name, seed=seed, size=size)`.

    Several names share them by their `weights`; `name=all` takes every generator. `difficulty` is a
    level of the generator's curriculum from 0 on, `config` sets its values. `system` is the system
    message. The held-out split draws with seeds from seed + 2^31 on.
    """
    if size < 1 or not 0 <= seed < _HELD_OUT - size:
        raise ValueError(f"size must be 1 or more, and seed 0 to {_HELD_OUT} - size")
    _reasoning_gym.require()
    listed = [name] if isinstance(name, str) else list(name)
    chosen = _reasoning_gym.names() if listed == ["all"] else listed
    if not chosen or len(set(chosen)) < len(chosen):
        raise ValueError("name one generator, or several different ones")
    if config and len(chosen) > 1:
        raise ValueError(f"`config` cannot be {_SEVERAL}")
    drawn = seed + (_HELD_OUT if split == "heldout" else 0)
    asked = [
        {
            "name": one,
            "difficulty": difficulty,
            "config": config or {},
            "seed": drawn,
            "size": count,
        }
        for one, count in zip(chosen, _shares(size, weights, len(chosen)), strict=True)
        if count
    ]
    rows, texts = _reasoning_gym.rows(asked)
    given = {request["name"]: request for request in asked}
    return [_prompt(row, given[row["name"]], split, texts.get(system)) for row in rows]


def _shares(size: int, weights: list[float] | None, names: int) -> list[int]:
    """The size in parts as the weights say, rounded so that none is lost."""
    weights = weights or [1.0] * names
    if len(weights) != names or min(weights) <= 0:
        raise ValueError(
            f"weights has {len(weights)} numbers, each must be above 0, for {names} names"
        )
    ends = [round(size * sum(weights[: i + 1]) / sum(weights)) for i in range(names)]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]


def _prompt(
    row: dict[str, Any], request: dict[str, Any], split: Split, system: str | None
) -> dict[str, Any]:
    messages = [{"role": "user", "content": row["question"]}]
    if system:
        messages.insert(0, {"role": "system", "content": system})
    answer = NO_GOLD if row["answer"] is None else str(row["answer"])
    origin = {key: request[key] for key in ("difficulty", "config", "seed", "size")}
    own = {"name": row["name"], "index": row["index"], "version": _reasoning_gym.VERSION, **origin}
    level = "" if request["difficulty"] is None else f"-level-{request['difficulty']}"
    return {
        "prompt_id": f"{row['name']}{level}-{split}-{row['index']:06d}",
        "prompt": messages,
        "answer": answer,
        "verifier": "reasoning-gym",
        "source": f"reasoning-gym/{row['name']}",
        "raw": False,
        "extra": {"reasoning_gym": {**own, "entry": row["entry"]}},
    }
