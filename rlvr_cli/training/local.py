"""Training on one device with plain torch: float32 master weights and AdamW."""

from collections.abc import Iterable
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from rlvr_cli import adapters, forward, objective
from rlvr_cli.config import UpdateOptions
from rlvr_cli.errors import DataError, UserError
from rlvr_cli.objective import Objective, TokenBatch, Totals
from rlvr_cli.policy import TRAINER_STATE, Loaded
from rlvr_cli.protocols import Row


class Engine:
    """The policy, its optimizer, and the way a micro-batch is cut.

    With a `lora_rank` it trains adapters, injected into `loaded.model` in place: those of the
    policy, or new ones of the seed, with an optimizer that has made no update.
    """

    def __init__(self, loaded: Loaded, options: UpdateOptions, *, seed: int = 0) -> None:
        self.loaded = loaded
        self._lora_targets = options.lora_targets
        self._max_grad_norm = options.max_grad_norm
        self._micro_batch_tokens = options.micro_batch_tokens
        self._base = loaded.policy.base
        resumes = self._base is not None or not options.lora_rank
        if not resumes:
            self._base = loaded.policy
            adapters.inject(loaded.model, options, seed)
        named = loaded.model.named_parameters()
        self._named = {name: value for name, value in named if value.requires_grad}
        self._optimizer = torch.optim.AdamW(
            self._named.values(),
            lr=0.0,
            betas=(options.adam_beta1, options.adam_beta2),
            eps=options.adam_eps,
            weight_decay=options.weight_decay,
            fused=True,
        )
        self._companions = {
            file.name: file.read_bytes()
            for file in sorted(loaded.policy.path.iterdir())
            if file.suffix in (".json", ".model", ".txt", ".jinja")
            and file.name != "config.json"
            and not file.name.endswith(".index.json")
        }
        if resumes:
            self._restore(loaded.policy.path / TRAINER_STATE)

    @property
    def updates(self) -> int:
        """AdamW's own count, which the checkpoint keeps with the moments."""
        return max((int(state["step"]) for state in self._optimizer.state.values()), default=0)

    @torch.no_grad()
    def logp(self, rows: list[Row], temperature: float) -> list[list[float]]:
        logps: list[list[float]] = [[] for _ in rows]
        for indices in forward.micro_batches(rows, self._micro_batch_tokens):
            batch = [rows[i] for i in indices]
            stats = forward.completion_stats(self.loaded.model, batch, temperature=temperature)
            for i, logp_T in zip(indices, forward.unpad(stats.logp_BT, batch), strict=True):
                logps[i] = logp_T.tolist()
        return logps

    def accumulate(
        self, rows: list[Row], goal: Objective, totals: Totals, temperature: float
    ) -> dict[str, float]:
        sums: dict[str, float] = {}
        for indices in forward.micro_batches(rows, self._micro_batch_tokens):
            batch = [rows[i] for i in indices]
            stats = forward.completion_stats(
                self.loaded.model,
                batch,
                temperature=temperature,
                entropy_gradient="entropy" in goal.needs,
                top_k=goal.top_k if "ref_topk" in goal.needs else 0,
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
        """A Hugging Face or adapter directory, with AdamW's moments in `trainer.safetensors`."""
        model = self.loaded.model
        if self._base:
            base = (self._base.named_from(path), self._base.digest, self._lora_targets)
            adapters.save(model, path, adapters.Base(*base))
            model.generation_config.save_pretrained(path)
        else:
            model.save_pretrained(path)
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
    mask_BT, dtype, device = stats.mask_BT, stats.logp_BT.dtype, stats.logp_BT.device

    def per_token(values: Iterable[list[float] | None]) -> torch.Tensor:
        return forward.pad([value_T or [] for value_T in values], mask_BT, dtype)

    def column(name: str) -> torch.Tensor:
        values = [row.columns.get(name, torch.nan) for row in rows]
        return torch.tensor(values, dtype=dtype, device=device)

    needs = goal.needs
    return TokenBatch(
        logp_BT=stats.logp_BT,
        old_logp_BT=per_token(row.old_logp for row in rows),
        mask_BT=mask_BT,
        advantage_B=torch.tensor([row.advantage for row in rows], dtype=dtype, device=device),
        entropy_BT=stats.entropy_BT,
        ref_logp_BT=per_token(row.ref_logp for row in rows) if "ref_logp" in needs else None,
        behaviour_logp_BT=(
            per_token(row.behaviour_logp for row in rows) if "behaviour_logp" in needs else None
        ),
        anchor_logp_BT=stats.anchor_logp_BT,
        anchor_ref_logp_BT=(
            forward.anchor_ref_logp(rows, mask_BT, dtype, top_k=goal.top_k)
            if "ref_topk" in needs
            else None
        ),
        columns={name: column(name) for name in goal.columns},
    )


def _merge(sums: dict[str, float], new: dict[str, float]) -> None:
    for key, value in new.items():
        join = max if key.endswith("_max") else min if key.endswith("_min") else float.__add__
        sums[key] = join(sums[key], value) if key in sums else value
