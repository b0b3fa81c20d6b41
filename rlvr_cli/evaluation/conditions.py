"""How completions came about: two sets that differ in it differ for more than their policies."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rlvr_cli.errors import DataError, UserError
from rlvr_cli.storage.shards import Shards
from rlvr_cli.verification.scoring import rewards

SAMPLING = (
    "temperature", "top_p", "top_k", "max_new_tokens", "stop", "mu", "chat", "system", "prefix",
    "template", "suffix", "chat_template_kwargs",
)  # fmt: skip
AS_FOUND = "as their file has them"  # verdicts that were imported


@dataclass(frozen=True)
class Conditions:
    """The step of the policy, how it was sampled, and what scored the completions.

    None, and a name that is not there, is not known, as of files of other tools.
    """

    step: int | None = None
    sampling: dict[str, Any] = field(default_factory=dict)
    verifier: str | None = None


def of_scores(scores: Shards) -> Conditions:
    """Those that the manifests of scores and of their rollouts record."""
    try:
        params = dict(scores.parent("rollouts").params)  # of several, what all have alike
    except (DataError, LookupError):
        params = {}
    sampling = {name: params[name] for name in SAMPLING if params.get(name) is not None}
    return Conditions(step_of(scores), sampling, _verifier(scores))


def step_of(scores: Shards) -> int | None:
    """The training or evaluation step that scores of a run belong to."""
    folder = scores.path.absolute().parent
    is_step = folder.parent.name in ("eval", "steps") and folder.name.isdecimal()
    return int(folder.name) if is_step else None


def _verifier(scores: Shards) -> str | None:
    """What scored them, with the versions that are not the first; None where it is not known."""
    if scores.manifest["stage"] != "score":
        return AS_FOUND
    spec: str | None = scores.params["verifier"]
    try:
        specs = [spec] if spec else _of_prompts(scores)
        texts = [rewards.canonical(each, each) for each in specs]
    except (UserError, LookupError):
        return spec
    behaviour = scores.manifest.get("behaviour", {})
    more = [f"version {version} of {name}" for name, version in sorted(behaviour.items())]
    files: dict[str, str] = scores.params.get("files", {})
    more += [f"{name} with sha256 {digest[:8]}" for name, digest in sorted(files.items())]
    if markers := scores.params.get("answer_from"):
        more.append(f"answers from `{markers}`")
    return ", ".join([f"`{' '.join(texts)}`", *more]) if texts else None


def _of_prompts(scores: Shards) -> list[str]:
    """The verifiers that the prompts name."""
    columns = (table["verifier"].to_pylist() for table in scores.parent("prompts").parts())
    return sorted({spec for column in columns for spec in column if spec})


def differences(
    names: tuple[str, str],
    first: Conditions,
    second: Conditions,
    n: tuple[np.ndarray, np.ndarray],
    depends: str,
) -> Iterator[str]:
    """How two sides differ apart from their policies, one line per difference.

    `n` is how many completions each has of the common prompts, [P], and `depends` says what was
    done with the figures that depend on it.
    """
    one, other = names
    if None not in (first.step, second.step) and first.step != second.step:
        yield (
            f"the steps differ: {one} is at step {first.step}, {other} at step {second.step}; "
            "the better one may only have trained for longer"
        )
    if not np.array_equal(*n):
        counts = [_counted(n_P) for n_P in n]
        yield (
            f"the numbers of completions per prompt differ: {counts[0]} in {one}, {counts[1]} in "
            f"{other}; {depends}"
        )
    unlike = [
        f"{name} {first.sampling[name]!r} and {second.sampling[name]!r}"
        for name in SAMPLING
        if name in first.sampling and name in second.sampling
        and first.sampling[name] != second.sampling[name]
    ]  # fmt: skip
    if unlike:
        yield f"they were sampled differently: {', '.join(unlike)} in {one} and {other}"
    if first.verifier and second.verifier and first.verifier != second.verifier:
        yield (
            f"the verdicts come from different verifiers: {first.verifier} in {one}, "
            f"{second.verifier} in {other}; what one calls right the other may not"
        )


def _counted(n_P: np.ndarray) -> str:
    low, high = int(n_P.min()), int(n_P.max())
    return f"{low}" if low == high else f"{low} to {high}"
