"""Plain torch on one device: AdamW on float32 master weights."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rlvr_cli.algorithms.objective import Objective, Totals
from rlvr_cli.config import UpdateOptions
from rlvr_cli.models import checkpoint_names
from rlvr_cli.models.policy import Loaded
from rlvr_cli.protocols import Row
from rlvr_cli.runtime import later
from rlvr_cli.runtime.device import Attention, Precision, Switch
from rlvr_cli.runtime.later import torch

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Parameter

    from rlvr_cli.engines.training import _batch, _checkpoint
    from rlvr_cli.models import logprobs, passes
else:
    _batch = later.Later("rlvr_cli.engines.training._batch")
    _checkpoint = later.Later("rlvr_cli.engines.training._checkpoint")
    logprobs = later.Later("rlvr_cli.models.logprobs")
    passes = later.Later("rlvr_cli.models.passes")


EARLIER = {"pack": "false", "fuse": "false", "attention": "torch"}


def build(
    *,
    precision: Precision = "auto",
    pack: Switch = "auto",
    fuse: Switch = "auto",
    attention: Attention = "torch",
) -> Callable[..., LocalEngine]:
    """An engine that computes in a precision: by default in bfloat16 on a GPU, else in float32.

    `pack` leaves out the padding between rows, `fuse` compiles the model's layers; both are on by
    default on a GPU, where the model allows it and is large enough for it to pay. `attention` of
    packed rows is torch's FlashAttention 2 or, faster on Hopper, FlashAttention 4 (flash4).
    """
    return lambda loaded, options, seed=0: LocalEngine(
        loaded,
        options,
        seed=seed,
        precision=precision,
        pack=pack,
        fuse=fuse,
        attention=attention,
    )


class LocalEngine:
    """The policy and its optimizer; in bfloat16 with float32 master weights and gradients."""

    is_sharded = False

    def __init__(
        self,
        loaded: Loaded,
        options: UpdateOptions,
        *,
        seed: int = 0,
        precision: Precision = "auto",
        pack: Switch = "auto",
        fuse: Switch = "auto",
        attention: Attention = "torch",
    ) -> None:
        self.loaded = loaded
        self._max_grad_norm = options.max_grad_norm
        self._recompute = options.recompute_activations
        self._trained = _checkpoint.TrainableWeights(loaded, options, seed)
        model = loaded.model
        dtype = logprobs.dtype_of(precision, model.device)
        self._pass = passes.chosen(model, options.micro_batch_tokens, dtype, pack, fuse, attention)
        self._master: dict[str, Tensor] = dict(self._trained.named)
        if dtype == torch.bfloat16:
            self._master = {n: v.detach().clone() for n, v in self._trained.named.items()}
            model.to(torch.bfloat16)
            self._keep_gradients_in_float32()
        self._optimizer = _batch.adamw(self._master.values(), options)
        for name, state in self._trained.state().items():
            self._optimizer.state[self._master[name]] = {
                key: value.to(model.device) for key, value in state.items()
            }

    def _keep_gradients_in_float32(self) -> None:
        """Moves each gradient to its master weight as soon as it is computed."""
        for name, parameter in self._trained.named.items():
            master = self._master[name]

            def move(updated: Parameter, master: Tensor = master) -> None:
                assert updated.grad is not None
                if master.grad is None:
                    master.grad = updated.grad.float()
                else:
                    master.grad.add_(updated.grad)  # rounds nothing: the sum is of float32
                updated.grad = None

            parameter.register_post_accumulate_grad_hook(move)  # type: ignore[no-untyped-call]

    @contextlib.contextmanager
    def _sharing_head_gradient(self) -> Iterator[None]:
        """Lets the kernels add the output head's gradient to that of its master weight at once."""
        head = self.loaded.model.get_output_embeddings().weight
        for name, parameter in self._trained.named.items():
            master = self._master[name]
            if id(parameter) == id(head) and parameter is not master:
                master.grad = torch.zeros_like(master) if master.grad is None else master.grad
                head.main_grad = master.grad
        yield
        if hasattr(head, "main_grad"):
            del head.main_grad

    @property
    def updates(self) -> int:
        """AdamW's own count, which the checkpoint keeps with the moments.

        A weight that has had no gradient yet has none, as some of a vision tower never have.
        """
        states = filter(None, self._optimizer.state.values())
        return max((int(state["step"]) for state in states), default=0)

    @later.no_grad
    def logp(self, rows: list[Row], temperature: float) -> list[np.ndarray]:
        logps = [np.empty(0, np.float32)] * len(rows)
        with self._pass.here():
            parts = [
                (indices, self._stats([rows[i] for i in indices], temperature=temperature).logp_BT)
                for indices in self._pass.micro_batches(rows)
            ]
        for indices, logp_BT in parts:
            batch = [rows[i] for i in indices]
            for i, logp_T in zip(indices, logprobs.unpad(logp_BT, batch), strict=True):
                logps[i] = logp_T
        return logps

    def accumulate(
        self, rows: list[Row], objective: Objective, totals: Totals, temperature: float
    ) -> dict[str, float]:
        batch_metrics = []
        recomputing = logprobs.recomputing(self.loaded.model, self._recompute)
        with recomputing, self._pass.here(), self._sharing_head_gradient():
            for indices in self._pass.micro_batches(rows):
                batch = [rows[i] for i in indices]
                loss, metrics = _batch.loss(self._stats, batch, objective, totals, temperature)
                loss.backward()  # type: ignore[no-untyped-call]
                batch_metrics.append(metrics)
        return _batch.merge(_batch.numbers(batch_metrics))

    def _stats(self, rows: list[Row], **options: object) -> logprobs.CompletionStats:
        packed = self._pass.least
        return logprobs.completion_stats(self.loaded.model, rows, packed=packed, **options)  # type: ignore[arg-type]

    def update(self, learning_rate: float) -> float:
        """One AdamW step; an error, and no step, if the gradient is not finite."""
        limit = self._max_grad_norm or float("inf")
        norm = float(torch.nn.utils.clip_grad_norm_(self._master.values(), limit))
        if not norm < float("inf"):
            raise _batch.not_finite(norm)
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        self._optimizer.step()
        self._optimizer.zero_grad()
        with torch.no_grad():
            for name, parameter in self._trained.named.items():
                if parameter is not self._master[name]:
                    parameter.copy_(self._master[name])
        return norm

    def save(self, path: Path) -> None:
        known = self._optimizer.state
        state = {name: known.get(value, {}) for name, value in self._master.items()}
        weights = {name: value.detach() for name, value in self._master.items()}
        frozen = {name: value.detach().float() for name, value in self._trained.frozen.items()}
        self._trained.write(path, weights | frozen, state)

    def publish(self, path: Path) -> None:
        named = self._trained.named | self._trained.frozen
        self._trained.publish(path, {n: p.detach() for n, p in named.items()})

    def weights(self) -> Iterator[tuple[str, Tensor]]:
        return checkpoint_names.weights_of(self.loaded.model)
