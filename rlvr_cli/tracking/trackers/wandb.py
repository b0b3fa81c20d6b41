"""Weights & Biases: its service, a server of your own, or offline files for `wandb sync`."""

from typing import Any, Literal

from rlvr_cli.protocols import Tracked, TrackedRun
from rlvr_cli.tracking import packages, pictures


def build(
    *,
    project: str = "rlvr",
    entity: str = "",
    mode: Literal["", "online", "offline"] = "",
) -> "WeightsAndBiases":
    """The run of a project; `mode` and the account are those of wandb's own settings by default."""
    packages.require("wandb")
    return WeightsAndBiases(project, entity, mode)


class WeightsAndBiases:
    def __init__(self, project: str, entity: str, mode: str) -> None:
        self._project, self._entity, self._mode = project, entity, mode
        self._run: Any = None

    def start(self, run: TrackedRun) -> Tracked:
        import wandb

        self._run = wandb.init(
            project=self._project,
            entity=self._entity or None,
            mode=self._mode or None,
            name=run.name,
            id=run.key,
            resume="allow" if run.key else None,
            config=run.config,
            dir=str(run.path),
        )
        has_step = run.key is not None and not self._run.offline
        return Tracked(str(self._run.id), self._run.step - 1 if has_step else None)

    def log(self, step: int, figures: dict[str, float], samples: list[dict[str, Any]]) -> None:
        import wandb

        table = {}
        if samples:
            columns = list(samples[0])
            cells = [[row[name] for name in columns] for row in samples]
            # The reward of one may be None, and of another a number.
            table["samples"] = wandb.Table(columns=columns, data=cells, allow_mixed_types=True)
        self._run.log({**figures, **table}, step=step)

    def log_images(self, step: int, images: dict[str, list[Any]]) -> None:
        import wandb

        shown = {
            f"images/{name}": [wandb.Image(pictures.opened(image)) for image in own]
            for name, own in images.items()
        }
        self._run.log(shown, step=step)

    def finish(self) -> None:
        self._run.finish()
