"""DeepSpeed: ZeRO 0 to 3 with offload, on one process or many.

Every process gets all rows and computes its share of them; losses, metrics and log-probs cover all
rows. One process and many give the same results, up to the order of summation.
"""

import contextlib
import importlib.util
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from rlvr_cli.algorithms.objective import Objective, Totals
from rlvr_cli.config import UpdateOptions
from rlvr_cli.engines.training import _batch
from rlvr_cli.engines.training._checkpoint import TrainableWeights
from rlvr_cli.errors import UsageError
from rlvr_cli.memory_estimate.phases import BUCKET
from rlvr_cli.models import checkpoint_names, logprobs, passes, tensor_files
from rlvr_cli.models.policy import Loaded
from rlvr_cli.protocols import Row
from rlvr_cli.runtime import distributed
from rlvr_cli.runtime.device import Attention, Precision, Switch

Offload = Literal["none", "optimizer", "all"]
EARLIER = {"pack": "false", "fuse": "false", "attention": "torch"}
_MOMENTS = ("exp_avg", "exp_avg_sq")


def build(
    *,
    zero: int = 2,
    offload: Offload = "none",
    precision: Precision = "auto",
    pack: Switch = "auto",
    fuse: Switch = "auto",
    attention: Attention = "torch",
) -> Callable[..., "DeepSpeedEngine"]:
    """ZeRO stage `zero`; `offload` moves the optimizer, or the weights too, to host memory.

    Computes in bfloat16 on a GPU, else in float32; master weights and moments are in float32.
    For `pack`, `fuse` and `attention` see `local`.
    """
    if zero not in (0, 1, 2, 3):
        raise ValueError("zero must be 0, 1, 2 or 3")
    if offload == "all" and zero != 3:
        raise ValueError("offload=all needs zero=3")
    if fuse == "true" and zero == 3:
        raise ValueError("fuse=true needs zero=2 or less")
    if offload == "optimizer" and not zero:
        raise ValueError("offload=optimizer needs zero=1 or more")
    if importlib.util.find_spec("deepspeed") is None:
        raise UsageError(
            "DeepSpeed is not installed",
            "pip install 'rlvr[deepspeed]', or train with --trainer local",
        )

    def engine_of(loaded: Loaded, options: UpdateOptions, seed: int = 0) -> DeepSpeedEngine:
        distributed.start()
        dtype = logprobs.dtype_of(precision, loaded.model.device)
        if not zero and dtype == torch.bfloat16:
            raise UsageError(
                "DeepSpeed's zero=0 in bfloat16 keeps no float32 gradients",
                "use deepspeed:zero=1, which on one process is the same, or precision=float32",
            )
        configuration = _configuration(options, zero, offload, dtype)
        bucket = min(BUCKET, loaded.model.num_parameters())  # allocated in full
        configuration["zero_optimization"]["reduce_bucket_size"] = bucket
        compiles = "false" if zero == 3 else fuse  # which gathers weights within a layer
        tokens = options.micro_batch_tokens
        rows = passes.chosen(loaded.model, tokens, dtype, pack, compiles, attention)
        return DeepSpeedEngine(loaded, options, seed, configuration, rows)

    return engine_of


def _import() -> Any:
    """DeepSpeed, without the extension for faster CPU reductions, which it would compile."""
    os.environ.setdefault("DS_ACCELERATOR", "cuda" if torch.cuda.is_available() else "cpu")
    with contextlib.redirect_stdout(io.StringIO()):
        import deepspeed
        import deepspeed.ops

    deepspeed.ops.__compatible_ops__.pop("deepspeed_shm_comm", None)
    return deepspeed


def _configuration(
    options: UpdateOptions, zero: int, offload: Offload, dtype: torch.dtype
) -> dict[str, Any]:
    stage: dict[str, Any] = {"stage": zero}
    host = {"device": "cpu", "pin_memory": torch.cuda.is_available()}
    if offload != "none":
        stage["offload_optimizer"] = host
    if offload == "all":
        stage["offload_param"] = host
    return {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        "gradient_clipping": options.max_grad_norm,
        "bf16": {"enabled": dtype == torch.bfloat16},
        "data_types": {"grad_accum_dtype": "fp32"},
        "zero_optimization": stage,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "steps_per_print": 1 << 60,
    }


class _Policy(torch.nn.Module):
    """The statistics of rows as one forward pass, so that ZeRO-3 gathers the output head too."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, rows: list[Row], options: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(logprobs.completion_stats(self.model, rows, **options))


class DeepSpeedEngine:
    """The policy and its optimizer, sharded across the processes."""

    def __init__(
        self,
        loaded: Loaded,
        options: UpdateOptions,
        seed: int,
        configuration: dict[str, Any],
        rows: passes.Pass,
    ) -> None:
        self.loaded = loaded
        self._world = distributed.current()
        self._pass = rows
        self._recompute = options.recompute_activations
        self._trained = TrainableWeights(loaded, options, seed)
        optimizer = _batch.adamw(self._trained.named.values(), options)
        float32_weights = {n: p.detach().cpu().clone() for n, p in self._named}
        with contextlib.redirect_stdout(io.StringIO()):
            self._engine, self._optimizer, _, _ = _import().initialize(
                model=_Policy(loaded.model), optimizer=optimizer, config=configuration
            )
        if self._engine.bfloat16_enabled():
            loaded.model.get_output_embeddings().to(torch.bfloat16)  # its buffers too, if any
            self._set_master_weights(float32_weights)
        self._restore(self._trained.state())

    @property
    def is_sharded(self) -> bool:
        return self._world.size > 1 and self._engine.zero_optimization_stage() == 3

    @property
    def _adam(self) -> torch.optim.AdamW:
        """The torch optimizer below ZeRO's, over flat float32 shares."""
        adam: torch.optim.AdamW = getattr(self._optimizer, "optimizer", self._optimizer)
        return adam

    @property
    def updates(self) -> int:
        return max((int(state["step"]) for state in self._adam.state.values()), default=0)

    def _local_batches(self, rows: list[Row]) -> list[tuple[list[int], list[Row]]]:
        """This process' micro-batches: indices, and the rows to pass, which are never none.

        The processes have as many each: the shortest row fills up for one that has no index left.
        Rows with images are passed after the others, by all processes at the same time, as weights
        that are divided are gathered, and gradients exchanged, by all of them.
        """
        kinds = ([i for i, row in enumerate(rows) if not row.images],
                 [i for i, row in enumerate(rows) if row.images])  # fmt: skip
        return [batch for own in kinds if own for batch in self._batches_of(rows, own)]

    def _batches_of(self, rows: list[Row], own: list[int]) -> list[tuple[list[int], list[Row]]]:
        """The micro-batches of some of the rows.

        They are dealt longest first, so the processes have nearly the same number of tokens.
        """
        order = sorted(own, key=lambda i: -rows[i].size)
        shares = [order[rank :: self._world.size] for rank in range(self._world.size)]
        cuts = [
            [
                [share[i] for i in indices]
                for indices in self._pass.micro_batches([rows[i] for i in share])
            ]
            for share in shares
        ]
        most, mine = max(map(len, cuts)), cuts[self._world.rank]
        filled: list[tuple[list[int], list[Row]]] = [(c, [rows[i] for i in c]) for c in mine]
        return filled + [([], [rows[order[-1]]])] * (most - len(mine))

    @torch.no_grad()
    def logp(self, rows: list[Row], temperature: float) -> list[np.ndarray]:
        ends = np.cumsum([len(row.token_ids) for row in rows])
        logp_N = np.zeros(int(ends[-1]), np.float32)
        logps = np.split(logp_N, ends[:-1])  # views
        with self._pass.here():
            for indices, batch in self._local_batches(rows):
                stats = self._stats(batch, temperature=temperature)
                for i, value_T in zip(indices, logprobs.unpad(stats.logp_BT, batch), strict=False):
                    logps[i][:] = value_T
        if self._world.size > 1:
            all_N = torch.from_numpy(logp_N).to(self._engine.device)
            torch.distributed.all_reduce(all_N)
            logps = np.split(all_N.cpu().numpy(), ends[:-1])
        return logps

    def _stats(self, rows: list[Row], **options: object) -> logprobs.CompletionStats:
        return logprobs.CompletionStats(*self._engine(rows, options | {"packed": self._pass.least}))

    def accumulate(
        self, rows: list[Row], objective: Objective, totals: Totals, temperature: float
    ) -> dict[str, float]:
        """Adds the gradient of all of an update's rows: call it once before `update`."""
        batch_metrics = []
        cuts = self._local_batches(rows)
        for number, (indices, batch) in enumerate(cuts):
            # ZeRO-2 keeps only the last micro-batch unless it knows which one is the last.
            self._engine.set_gradient_accumulation_boundary(number == len(cuts) - 1)
            with logprobs.recomputing(self.loaded.model, self._recompute), self._pass.here():
                loss, metrics = _batch.loss(self._stats, batch, objective, totals, temperature)
                # DeepSpeed averages over processes; a padding batch adds nothing.
                self._engine.backward(loss * (self._world.size if indices else 0))
            if indices:
                batch_metrics.append(metrics)
        return _batch.merge(
            metrics
            for part in distributed.gather(_batch.numbers(batch_metrics))
            for metrics in part
        )

    def update(self, learning_rate: float) -> float:
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        without_zero = self._norm_without_zero()
        self._engine.step()
        norm = self._engine.get_global_grad_norm() if without_zero is None else without_zero
        norm = float(norm)
        if not norm < float("inf"):
            raise _batch.not_finite(norm)
        return norm

    def _norm_without_zero(self) -> Tensor | None:
        """The gradient's norm where DeepSpeed leaves the gradients with the weights."""
        gradients = [p.grad for p in self._trained.named.values() if p.grad is not None]
        unpartitioned = (
            self._engine.zero_optimization_stage() == 0 and not self._engine.bfloat16_enabled()
        )
        return torch.nn.utils.get_total_norm(gradients) if unpartitioned else None

    def weights(self) -> Iterator[tuple[str, Tensor]]:
        return checkpoint_names.as_stored(self.loaded.model, self._gathered())

    def _gathered(self, only: dict[str, Any] | None = None) -> Iterator[tuple[str, Tensor]]:
        """The model's parameters in full, one after the other, or `only` those."""
        from deepspeed.runtime.zero import GatheredParameters

        named = self.loaded.model.named_parameters() if only is None else only.items()
        for name, parameter in named:
            with GatheredParameters([parameter], enabled=hasattr(parameter, "ds_id")):
                yield name, parameter.detach()

    @property
    def _named(self) -> list[tuple[str, Any]]:
        return list(self._trained.named.items())

    def save(self, path: Path) -> None:
        """Every process must call this; the main process writes."""
        from deepspeed.utils import safe_get_full_fp32_param

        weights = {name: _host(safe_get_full_fp32_param(p), p) for name, p in self._named}
        frozen = self._trained.frozen
        weights |= {n: _host(value, value) for n, value in self._gathered(frozen)}
        step = torch.tensor(float(self.updates))
        state = {
            name: {"step": step.clone()} | {key: self._moment(p, key) for key in _MOMENTS}
            for name, p in self._named
        }
        if self._world.is_main_process:
            self._trained.write(path, weights, state)
        distributed.barrier()

    def publish(self, path: Path) -> None:
        """Every process must call this; the main process writes."""
        own = self._trained.named | self._trained.frozen
        weights = {n: tensor_files.on_host(value) for n, value in self._gathered() if n in own}
        if self._world.is_main_process:
            self._trained.publish(path, weights)
        distributed.barrier()

    def _moment(self, parameter: Any, key: str) -> Tensor:
        from deepspeed.utils import safe_get_full_optimizer_state

        if self._engine.zero_optimization_stage():
            return _host(safe_get_full_optimizer_state(parameter, key), parameter)
        return _host(self._adam.state[parameter][key], parameter)

    def _set_master_weights(self, weights: dict[str, Tensor]) -> None:
        """Restores the master weights, which DeepSpeed derives from rounded bfloat16 ones."""
        from deepspeed.utils import safe_set_full_fp32_param

        for name, parameter in self._named:
            safe_set_full_fp32_param(parameter, weights[name])

    def _restore(self, state: dict[str, dict[str, Tensor]]) -> None:
        """Gives every process its share of AdamW's moments."""
        from deepspeed.utils import safe_set_full_optimizer_state

        if not state:
            return
        step = next(iter(state.values()))["step"]
        groups = [share for group in self._adam.param_groups for share in group["params"]]
        for share in getattr(self._optimizer, "fp32_partitioned_groups_flat", groups):  # of ZeRO-3
            self._adam.state[share] = {"step": step.to(share.device).clone()} | {
                key: torch.zeros_like(share) for key in _MOMENTS
            }
        if hasattr(self._optimizer, "_lazy_init_hp_params_optimizer_state"):
            self._optimizer._lazy_init_hp_params_optimizer_state()
        for name, parameter in self._named:
            for key in _MOMENTS if name in state else ():  # some of a vision tower have none
                if self._engine.zero_optimization_stage():
                    safe_set_full_optimizer_state(parameter, state[name][key], key)
                else:
                    self._adam.state[parameter][key].copy_(state[name][key])


def _host(value: Tensor | None, parameter: Any) -> Tensor:
    """A full value in host memory; without ZeRO, `value` is None and the parameter is the value."""
    full = (parameter if value is None else value).detach().float()
    return tensor_files.on_host(full)
