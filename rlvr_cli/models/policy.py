"""Policies on disk: finding, identifying and loading them.

A policy is a Hugging Face directory, or one of adapters that name their base policy. `builtin` and
`builtin-vl`, which reads images, are the tiny ones that are installed with rlvr.
"""

import functools
import hashlib
import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.models import (
    checkpoints,
    file_digests,
    hub,
    loading,
    lora,
    peft_adapters,
    pretrained,
    processors,
    tokenizers,
    weight_files,
)
from rlvr_cli.models.checkpoints import CHECKPOINT
from rlvr_cli.runtime import device
from rlvr_cli.storage import fetched, moved
from rlvr_cli.storage.shards import Shards

BUILTIN = "builtin"
BUILTIN_VL = "builtin-vl"  # reads images
_SERVED = "served "
_FIXTURES = Path(__file__).parents[1] / "fixtures"
BUILTINS = {BUILTIN: _FIXTURES / "policy", BUILTIN_VL: _FIXTURES / "vision_policy"}
_SUFFIXES = (".json", ".safetensors", ".bin", ".model", ".txt", ".jinja")


@dataclass(frozen=True)
class Policy:
    """A policy's directory and the name that a manifest may hold for it.

    A policy that exists only in memory has an `identity`, and the directory of its origin. One that
    `is_served` is known only to a server: it has an `identity` too, and no directory.
    """

    path: Path
    name: str
    identity: str | None = None
    is_served: bool = False

    @functools.cached_property
    def digest(self) -> str:
        """sha256 over the names and contents of the files that define the policy.

        Of adapters also over their base's recorded digest, wherever that base is.
        """
        if self.identity:
            return self.identity
        digest, others = hashlib.sha256(), (checkpoints.OPTIMIZER_BEFORE, lora.BASE)
        files = [path for path in sorted(self.path.iterdir()) if path.suffix in _SUFFIXES]
        files = [path for path in files if path.name not in others]
        names = [path.name for path in files] + weight_files.in_subfolders(self.path)
        read = file_digests.sha256_of(self.path / name for name in names)
        for name, content in zip(names, read, strict=True):
            digest.update(f"{name}\0{content}\n".encode())
        if base := lora.base_of(self.path):
            digest.update(f"{lora.BASE}\0{base.digest}\n".encode())
        return digest.hexdigest()

    @functools.cached_property
    def base(self) -> "Policy | None":
        """The policy that the adapters in this directory are for, None of a full policy."""
        recorded = lora.base_of(self.path)
        if recorded is None:
            return None
        holds = f"`{self.path}` holds adapters of `{recorded.policy}`"
        try:
            base = recorded_in(self.path, recorded.policy)
        except DataError as error:
            if place := moved.place(recorded.digest):
                return resolve(str(place))
            raise DataError(
                f"{holds}, and {error}",
                f"bring that policy back, or write its new path in {lora.BASE} there",
            ) from error
        if base.digest != recorded.digest:
            raise DataError(
                f"{holds}, whose content has changed",
                "restore the policy that they were trained on",
            )
        return base

    @property
    def lora_rank(self) -> int:
        """The rank of the adapters in this directory, 0 of a full policy."""
        return lora.rank_of(self.path)

    @functools.cached_property
    def trainer_digest(self) -> str | None:
        """sha256 of the optimizer's state, None if there is none on disk; of several files' own."""
        files = [] if self.identity else checkpoints.optimizer_state(self.path)
        contents = file_digests.sha256_of(files)
        if len(files) < 2:
            return contents[0] if contents else None
        named = zip(files, contents, strict=True)
        return hashlib.sha256("".join(f"{f.name}\0{c}\n" for f, c in named).encode()).hexdigest()

    def named_from(self, folder: Path) -> str:
        """The name to record in a directory, relative where the policy is a path."""
        is_path = self.identity or Path(self.name).exists()  # of weights that are kept elsewhere
        if self.name in BUILTINS or not is_path:
            return self.name
        return fetched.named_from(Path(self.name), folder)


def _within(path: Path) -> str:
    """For a hint, the last model or run in a folder, or the last snapshot of the Hub's cache."""
    inner = (
        one for depth in ("*", "snapshots/*") for one in sorted(path.glob(depth), reverse=True)
    )
    models = (one for one in inner if checkpoints.is_model(checkpoints.policy_in(one) or one))
    return next((f", such as `{one}`" for one in models), "")


def resolve(name: str) -> Policy:
    """The policy of a name.

    That is `builtin` or `builtin-vl`, a model's directory or hub name, a train-step directory, or a
    run, which means its newest checkpoint.
    """
    if name in BUILTINS:
        return Policy(BUILTINS[name], name)
    path = checkpoints.policy_in(Path(name)) or Path(name)
    if not checkpoints.is_model(path) and (error := checkpoints.missing(path)):
        raise error
    if not path.exists() and (refused := fetched.not_fetched(Path(name))):
        raise refused
    if hub.is_name(name):
        path = hub.download(name)
    if refused := peft_adapters.unmerged(path):
        raise refused
    if hub.is_name(name):
        return Policy(path, name)
    if not path.is_dir():
        raise DataError(f"there is no policy at `{name}`", "name a Hugging Face model directory")
    if not checkpoints.is_model(path):
        raise DataError(
            f"`{path}` is not a model directory: it has no config.json",
            f"name a Hugging Face model directory{_within(path)}",
        )
    if not any((path / file).exists() for file in tokenizers.MAIN_FILES):
        raise DataError(
            f"`{path}` has no tokenizer",
            "save the policy's own there with `tokenizer.save_pretrained(...)`",
        )
    return Policy(path, str(path))


def served(name: str) -> Policy:
    """What a server calls `name`: its files are not here, and it may change unseen."""
    return Policy(Path(), name, f"{_SERVED}{name}", is_served=True)


def served_before(identity: str) -> Policy | None:
    """The policy of such an identity, None of any other."""
    return served(identity.removeprefix(_SERVED)) if identity.startswith(_SERVED) else None


def of(rollouts: Shards, given: str | None) -> Policy:
    """The policy that was given, or the one that all of the rollouts were sampled from."""
    for one in rollouts.inputs:
        refuse_served(one)
    if given:
        return resolve(given)
    by_digest = {one.params.get("policy"): one for one in reversed(rollouts.inputs)}
    if len(by_digest) > 1:
        raise UsageError(
            f"`{rollouts.path}` were not sampled from one policy", "name the policy with --model"
        )
    (first,) = by_digest.values()
    recorded = first.manifest["paths"].get("policy")
    if recorded is None:
        raise UsageError(
            f"`{rollouts.path}` does not say which policy it was sampled from",
            "name the policy with --model",
        )
    return recorded_in(first.path, recorded)


def refuse_served(rollouts: Shards) -> None:
    """An error if only a server has their policy: such rollouts are text without tokens."""
    if served := served_before(rollouts.params.get("policy") or ""):
        raise DataError(
            f"`{rollouts.path}` holds text without token ids, of `{served.name}`, which only a "
            "server has",
            "sample again with --model DIR, the policy's files, from a server that gives token "
            "ids, as vLLM and SGLang do",
        )


def recorded_in(folder: Path, name: str, flag: str = "--model") -> Policy:
    """The policy of a name that a directory holds: a path from there, if there is one."""
    paths = [os.path.normpath(folder / name), os.path.realpath(folder / name)]
    path = next(filter(os.path.exists, paths), paths[0])
    is_path = os.path.exists(path) or os.path.basename(path) == CHECKPOINT
    if fetched.is_url(name):
        raise DataError(
            f"`{folder}` names the policy `{name}`, which only the command line may have fetched",
            f"name it with `{flag} {shlex.quote(name)}`",
        )
    if not is_path and name.startswith(os.pardir):
        near = (str(place) for place in moved.nearby(folder, name) if checkpoints.is_model(place))
        raise DataError(
            f"there is no policy at `{path}`, which `{folder}` names",
            f"say where it is now: `{flag} {shlex.quote(next(near, 'DIR'))}`",
        )
    return resolve(path if name not in BUILTINS and is_path else name)


def checkpoint_state(steps: Shards) -> Literal["whole", "damaged", "weights alone", "absent"]:
    """Whether the policy that an update wrote exists, unchanged.

    `train` removes old checkpoints (`--keep`), or keeps only their weights (`--keep-weights`), and
    leaves their steps.
    """
    if not (steps.path / CHECKPOINT).exists():
        kept = checkpoints.is_model(steps.path / checkpoints.WEIGHTS)
        return "weights alone" if kept else "absent"
    try:
        policy = resolve(str(steps.path))
        digests = (policy.digest, policy.trainer_digest)
    except DataError:
        return "damaged"
    recorded = (steps.summary["policy"], steps.summary["optimizer"])
    return "whole" if digests == recorded else "damaged"


@dataclass(frozen=True)
class Loaded:
    """A policy in memory."""

    policy: Policy
    model: Any
    tokenizer: Any
    eos_ids: tuple[int, ...]
    pad_id: int
    context: int
    processor: Any = None  # of a policy that reads images


def reads_images(policy: Policy) -> bool:
    """Whether the policy reads images, by its files; nothing is loaded."""
    return not policy.is_served and processors.reads_images((policy.base or policy).path)


def context_length(policy: Policy) -> int:
    """The longest sequence in tokens that the policy's positions allow."""
    config = pretrained.config((policy.base or policy).path).get_text_config()
    return int(getattr(config, "max_position_embeddings", 1 << 30))


def load(policy: Policy, *, frozen: bool = False) -> Loaded:
    """The policy in float32, in evaluation mode, with every end-of-sequence id it declares.

    On the GPU if there is one; there in bfloat16 if it is `frozen`, never to be trained.
    """
    from transformers import GenerationConfig

    tokenizer = tokenizers.load(policy)
    eos_ids = tokenizers.end_ids(policy, tokenizer)
    base, processor = policy.base or policy, tokenizers.load_processor(policy)
    size = tokenizers.vocabulary(tokenizer, eos_ids)
    model = loading.load(base.path, base.name, size, device.torch_device(), processor)
    if policy.base:
        lora.attach(model, policy.path)
    if frozen and model.device.type == "cuda":
        import torch

        model.to(torch.bfloat16)
    pad_id = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else eos_ids[0]
    model.generation_config = GenerationConfig(eos_token_id=list(eos_ids), pad_token_id=pad_id)
    context = context_length(policy)
    return Loaded(policy, model, tokenizer, eos_ids, pad_id, context, processor)
