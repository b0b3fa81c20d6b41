"""The trainable weights of a policy and their checkpoints: any engine resumes those of any other.

A checkpoint is a Hugging Face or adapter directory that also has AdamW's moments, in a folder of
their own that no loader of models reads. Weights and moments are complete and in float32, however
many processes trained them, in whatever precision.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import Parameter

from rlvr_cli.config import UpdateOptions
from rlvr_cli.errors import DataError
from rlvr_cli.models import checkpoints, lora, tensor_files, vision_part
from rlvr_cli.models.policy import Loaded

_SUFFIXES = (".json", ".model", ".txt", ".jinja")


class TrainableWeights:
    """The weights of a loaded policy that are trained, and how they are written.

    With a `lora_rank` these are adapters, injected into `loaded.model` in place: those of the
    policy, or new ones of the seed, with an optimizer that has taken no step. What is `frozen` of
    a full policy, as its vision part is unless that is trained, is in its checkpoints too.
    """

    def __init__(self, loaded: Loaded, options: UpdateOptions, seed: int) -> None:
        self._model, self._policy = loaded.model, loaded.policy
        self._base, self._lora_targets = loaded.policy.base, options.lora_targets
        self._resumes = self._base is not None or not options.lora_rank
        if not self._resumes:
            self._base = loaded.policy
            reads_images = loaded.processor is not None
            lora.inject(loaded.model, options, seed, reads_images=reads_images)
        elif loaded.processor and not self._base and not options.train_vision:
            vision_part.freeze(loaded.model)
        named = dict(loaded.model.named_parameters())
        self.named: dict[str, Parameter] = {n: p for n, p in named.items() if p.requires_grad}
        self.frozen: dict[str, Parameter] = (
            {} if self._base else {n: p for n, p in named.items() if not p.requires_grad}
        )
        self._companions = {
            file.name: file.read_bytes()
            for file in sorted(loaded.policy.path.iterdir())
            if file.suffix in _SUFFIXES
            and file.name != "config.json"
            and not file.name.endswith(".index.json")
        }

    def state(self) -> dict[str, dict[str, Tensor]]:
        """The optimizer's state of each weight by its name, empty where there is none yet."""
        by_name: dict[str, dict[str, Tensor]] = {}
        for path in checkpoints.optimizer_state(self._policy.path) if self._resumes else []:
            try:
                state = load_file(path)
            except SafetensorError as error:
                raise DataError(
                    f"`{path}` is damaged: {error}", "run that update again, or remove the file"
                ) from error
            for key, value in state.items():
                moment, _, name = key.partition(".")
                by_name.setdefault(name, {})[moment] = value
        return by_name

    def write(
        self, path: Path, weights: dict[str, Tensor], state: dict[str, dict[str, Tensor]]
    ) -> None:
        """A checkpoint of named float32 weights and of the optimizer's state of each."""
        place = path / checkpoints.OPTIMIZER
        place.parent.mkdir(parents=True, exist_ok=True)
        flat = {
            f"{key}.{name}": value
            for name, values in state.items()
            for key, value in values.items()
        }
        with tensor_files.saving() as save:
            tensor_files.write_split(save, flat, place)
            self._write_weights(path, weights, save, tensor_files.FILE_SIZE)
        self._write_companions(path)

    def publish(self, path: Path, weights: dict[str, Tensor]) -> None:
        """A model or adapters of named weights, in whatever precision they are."""
        with tensor_files.saving() as save:
            self._write_weights(path, weights, save, tensor_files.PUBLISHED_SIZE)
        self._write_companions(path)

    def _write_companions(self, path: Path) -> None:
        for name, data in self._companions.items():
            if name == "generation_config.json" or not (path / name).exists():
                (path / name).write_bytes(data)

    def _write_weights(
        self, path: Path, weights: dict[str, Tensor], save: tensor_files.Save, size: int
    ) -> None:
        model = self._model
        if self._base:
            base = (self._base.named_from(path), self._base.digest, self._lora_targets)
            lora.save(model, path, weights, lora.Base(*base))
            model.generation_config.save_pretrained(path)
            return
        with _transformers_saving_by(save):
            model.save_pretrained(
                path,
                state_dict=self._state_dict(weights),
                max_shard_size=size,
            )

    def _state_dict(self, weights: dict[str, Tensor]) -> dict[str, Any]:
        """The weights under each of their names (tied ones have several), and the saved buffers."""
        every = dict(self._model.named_parameters(remove_duplicate=False))
        own = self.named | self.frozen
        name_of = {id(parameter): name for name, parameter in own.items()}
        tied = {n: weights[name_of[id(p)]] for n, p in every.items() if id(p) in name_of}
        return {n: v for n, v in self._model.state_dict().items() if n not in tied} | tied


@contextlib.contextmanager
def _transformers_saving_by(save: tensor_files.Save) -> Iterator[None]:
    """Has transformers, which decides on names and files, write them by `save`."""
    from transformers import modeling_utils

    own = modeling_utils.safe_save_file
    modeling_utils.safe_save_file = save
    try:
        yield
    finally:
        modeling_utils.safe_save_file = own
