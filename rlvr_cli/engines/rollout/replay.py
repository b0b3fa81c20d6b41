"""Rollouts that another rollout stored, for tests and for dry runs of a pipeline."""

from collections.abc import Callable, Iterator
from pathlib import Path

from rlvr_cli.errors import DataError
from rlvr_cli.protocols import Completion, Request, SamplingParams
from rlvr_cli.storage.shards import Shards


def build(*, path: str = "") -> Callable[..., "ReplayEngine"]:
    """An engine that answers each request with the completion stored under its seed."""
    if not path:
        raise ValueError("path must name a rollouts directory, as in `replay:path=run/rollouts`")
    return lambda policy, loaded=None, lora_rank=0, memory_model=None: ReplayEngine(
        Shards.open(Path(path), "rollouts")
    )


class ReplayEngine:
    supports_continuous_batching = False
    needs_weight_sync = False

    def __init__(self, rollouts: Shards) -> None:
        self._path = rollouts.path
        self._stored = {
            (row["seed"], tuple(row["prompt_token_ids"])): Completion(
                row["token_ids"],
                row["behaviour_logp"],
                row["finish_reason"],
                row.get("policy_logp"),
            )
            for row in rollouts.table().to_pylist()
        }

    def generate(
        self, requests: list[Request], sampling: SamplingParams
    ) -> Iterator[tuple[int, Completion]]:
        return enumerate(map(self._find, requests))

    def _find(self, request: Request) -> Completion:
        key = (request.seed, tuple(request.prompt_token_ids))
        if key not in self._stored:
            raise DataError(
                f"`{self._path}` holds no completion of seed {request.seed} for this prompt",
                "replay with the seed, the step and the prompts of the stored rollouts",
            )
        return self._stored[key]
