"""Samples for a run: a rollout engine on the policy being trained, step after step.

An engine with weights of its own is kept for the entire run. Before it samples, the trainer's
weights are synced to it, and both must agree on a completion of one prompt; afterwards it sleeps.
"""

import functools
from dataclasses import replace
from pathlib import Path
from typing import cast

from rlvr_cli import registry
from rlvr_cli.config import RolloutOptions, RunConfig
from rlvr_cli.loop.memory_state import MemoryState
from rlvr_cli.loop.policy_state import InMemory
from rlvr_cli.loop.timer import Timer
from rlvr_cli.models import chat, questions
from rlvr_cli.models.policy import Policy
from rlvr_cli.protocols import ColocatedEngine, RolloutEngine
from rlvr_cli.runtime import distributed
from rlvr_cli.stages import agreement, common, rollout
from rlvr_cli.stages.score import Verification
from rlvr_cli.stages.selection import Selection
from rlvr_cli.storage.begun import begun_with
from rlvr_cli.storage.images import Images
from rlvr_cli.storage.shards import MANIFEST, Shards
from rlvr_cli.storage.share import Share


class Sampler:
    """Samples from `trained` as it is then, less `memory` with DLC; `prompts` are to train on."""

    def __init__(
        self,
        config: RunConfig,
        trained: InMemory,
        memory: MemoryState | None,
        prompts: Shards,
        *,
        timer: Timer,
        verification: Verification,
    ) -> None:
        self._options, self._rank = config.rollout, config.train_step.lora_rank
        self._trained, self._memory = trained, memory
        self._prompts, self._timer = prompts, timer
        self._verification = verification
        self._colocated: ColocatedEngine | None = None
        self._synced: Policy | None = None

    def run(
        self, prompts: Shards, out: Path, options: RolloutOptions, selection: Selection
    ) -> Shards:
        """Rollouts of the policy as it is now; an engine with weights of its own sleeps afterwards.

        Every process of the world must call this; each samples its share of the parts.
        """
        here = distributed.current()
        share = Share.of_process(here.rank, here.size)
        rollouts = self.sample(prompts, out, options, selection, share)
        complete = common.together(rollouts, out)
        assert complete is not None, "every process sampled its share"
        if self._colocated:
            self._colocated.sleep()
            self._synced = None
        return complete

    def sample(
        self,
        prompts: Shards,
        out: Path,
        options: RolloutOptions,
        selection: Selection,
        share: Share,
    ) -> Shards | None:
        """Parts of a share; the directory if all are there afterwards."""
        here = distributed.current()
        parts = begun_with(out).get("prompts_per_part", options.prompts_per_part)
        options = replace(options, prompts_per_part=parts)
        if here.size > 1 and not distributed.broadcast((out / MANIFEST).exists()):
            self._engine()  # together, whatever parts each process finds missing
        return rollout.run(
            prompts, out, self._trained.policy, options, selection,
            memory=self._memory.policy if self._memory and options.is_decoupled else None,
            engine=self._engine, share=share, verification=self._verification,
        )  # fmt: skip

    def _engine(self) -> RolloutEngine:
        """The rollout engine on the policy being trained.

        With adapters the first rollouts are of the initial policy without them, as a command's are:
        at B = 0 they change nothing but the rounding.
        """
        trained = self._trained
        if self._colocated is None:
            build = registry.build("rollout", self._options.engine)
            loaded = trained.load_or_reuse(trained.policy) if self._rank else trained.loaded
            extra_models = {"memory_model": self._memory.loaded} if self._memory else {}
            engine = build(trained.policy, loaded, self._rank, **extra_models)
            if not engine.needs_weight_sync:
                return cast(RolloutEngine, engine)
            self._colocated = cast(ColocatedEngine, engine)
        if self._synced is not trained.policy:
            with self._timer("sync_weights"):
                self._sync_weights(self._colocated)
        return self._colocated

    def _sync_weights(self, engine: ColocatedEngine) -> None:
        """Gives the engine the policy as it is now, and sees that both agree on it."""
        trainer = self._trained.trainer
        engine.sync_weights(trainer, self._trained.policy)
        gap = agreement.measure(engine, trainer, [self._probe], max_new_tokens=16)
        agreement.check(gap, engine.dtype)
        self._synced = self._trained.policy

    @functools.cached_property
    def _probe(self) -> agreement.Prompt:
        """The prompt that sampler and trainer are compared on: the first to train on."""
        first = questions.with_raw(self._prompts, [0]).to_pylist()[0]
        name, images = first["prompt_id"], Images.of(self._prompts)
        encoder = chat.encoder(self._trained.initial_policy, self._options)
        own = images.of_prompt(name) if images else ()
        return encoder.encode(name, first["messages"], raw=first["raw"], images=own), own
