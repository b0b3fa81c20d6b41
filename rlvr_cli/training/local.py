"""Training on one device with plain torch: float32 master weights and AdamW."""

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from rlvr_cli import forward, objective
from rlvr_cli.errors import DataError, UserError
from rlvr_cli.objective import Objective, TokenBatch, Totals
from rlvr_cli.policy import TRAINER_STATE, Loaded
from rlvr_cli.protocols import Row


class Engine:
    """The policy, its optimizer, and the way a micro-batch is cut."""

    def __init__(
        self,
        loaded: Loaded,
        *,
        weight_decay: float,
        max_grad_norm: float,
        micro_batch_tokens: int,
    ) -> None:
        self.loaded = loaded
        self._max_grad_norm = max_grad_norm
        self._micro_batch_tokens = micro_batch_tokens
        self._named = dict(loaded.model.named_parameters())
        self._optimizer = torch.optim.AdamW(
            self._named.values(), lr=0.0, weight_decay=weight_decay, fused=True
        )
        self._companions = {
            file.name: file.read_bytes()
            for file in sorted(loaded.policy.path.iterdir())
            if file.suffix in (".json", ".model", ".txt", ".jinja")
            and not file.name.endswith(".index.json")
        }
        self._restore(loaded.policy.path / TRAINER_STATE)

    @torch.no_grad()
    def logp(self, rows: list[Row], temperature: float) -> list[list[float]]:
        logps: list[list[float]] = []
        for batch in forward.micro_batches(rows, self._micro_batch_tokens):
            stats = forward.completion_stats(self.loaded.model, batch, temperature=temperature)
            logps += forward.unpad(stats.logp_BT, batch)
        return logps

    def accumulate(
        self, rows: list[Row], goal: Objective, totals: Totals, temperature: float
    ) -> dict[str, float]:
        sums: dict[str, float] = {}
        for batch in forward.micro_batches(rows, self._micro_batch_tokens):
            stats = forward.completion_stats(
                self.loaded.model,
                batch,
                temperature=temperature,
                entropy_gradient="entropy" in goal.needs,
            )
            tokens = _token_batch(batch, stats, goal)
            result = objective.loss(goal, tokens, totals)
            result.value.backward()
            _merge(sums, objective.token_metrics(goal, tokens, result))
        return sums

    def update(self, learning_rate: float) -> float:
        """One AdamW step; an error, and no step, if the gradient is not finite."""
        limit = self._max_grad_norm or float("inf")
        norm = float(torch.nn.utils.clip_grad_norm_(self._named.values(), limit))
        if not norm < float("inf"):
            raise UserError(
                f"the gradient's norm is {norm}: the update was not made",
                "look at the step's log-probs with `rlvr logprob`; a lower --learning-rate, in "
                "another --out, may help",
            )
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        self._optimizer.step()
        self._optimizer.zero_grad()
        return norm

    def save(self, path: Path) -> None:
        """A Hugging Face directory, with the optimizer's moments in `trainer.safetensors`."""
        self.loaded.model.save_pretrained(path)
        for name, data in self._companions.items():
            if name == "generation_config.json" or not (path / name).exists():
                (path / name).write_bytes(data)
        state = {
            f"{key}.{name}": value.contiguous()
            for name, parameter in self._named.items()
            for key, value in self._optimizer.state[parameter].items()
        }
        save_file(state, path / TRAINER_STATE)

    def _restore(self, path: Path) -> None:
        if not path.exists():
            return
        try:
            state = load_file(path)
        except SafetensorError as error:
            raise DataError(
                f"`{path}` is not whole: {error}", "make that update again, or remove the file"
            ) from error
        for key, value in state.items():
            moment, _, name = key.partition(".")
            self._optimizer.state[self._named[name]][moment] = value


def _token_batch(rows: list[Row], stats: forward.Stats, goal: Objective) -> TokenBatch:
    dtype, device = stats.logp_BT.dtype, stats.logp_BT.device

    def column(name: str) -> torch.Tensor:
        values = [row.columns.get(name, torch.nan) for row in rows]
        return torch.tensor(values, dtype=dtype, device=device)

    return TokenBatch(
        logp_BT=stats.logp_BT,
        old_logp_BT=forward.pad([row.old_logp or [] for row in rows], stats.mask_BT, dtype),
        mask_BT=stats.mask_BT,
        advantage_B=torch.tensor([row.advantage for row in rows], dtype=dtype, device=device),
        entropy_BT=stats.entropy_BT,
        ref_logp_BT=(
            forward.pad([row.ref_logp or [] for row in rows], stats.mask_BT, dtype)
            if "ref_logp" in goal.needs
            else None
        ),
        columns={name: column(name) for name in goal.columns},
    )


def _merge(sums: dict[str, float], new: dict[str, float]) -> None:
    for key, value in new.items():
        join = max if key.endswith("_max") else min if key.endswith("_min") else float.__add__
        sums[key] = join(sums[key], value) if key in sums else value
