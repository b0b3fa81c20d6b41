"""Trackio: a local database for `trackio show`, or a Space of the Hugging Face hub."""

import itertools
from typing import Any

from rlvr_cli.protocols import Tracked, TrackedRun
from rlvr_cli.tracking import packages, pictures


def build(*, project: str = "rlvr", space: str = "") -> "Trackio":
    """The run of a project, on this machine by default."""
    packages.require("trackio")
    return Trackio(project, space)


class Trackio:
    """Trackio identifies a run by its name, so a new run gets a name that no other run has."""

    def __init__(self, project: str, space: str) -> None:
        self._project, self._space = project, space
        self._run: Any = None

    def start(self, run: TrackedRun) -> Tracked:
        import trackio

        name = run.key or _unused(run.name, self._names())
        self._run = trackio.init(
            project=self._project,
            space_id=self._space or None,
            name=name,
            resume="allow" if run.key else "never",
            config=run.config,
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )
        return Tracked(name, self._last_step(name))

    def log(self, step: int, figures: dict[str, float], samples: list[dict[str, Any]]) -> None:
        import trackio

        table = {"samples": trackio.Table(data=samples)} if samples else {}
        self._run.log({**figures, **table}, step=step)

    def log_images(self, step: int, images: dict[str, list[Any]]) -> None:
        import trackio

        shown = {
            f"images/{name}/{number}": trackio.Image(pictures.opened(image))
            for name, own in images.items()
            for number, image in enumerate(own)
        }
        self._run.log(shown, step=step)

    def finish(self) -> None:
        import trackio

        trackio.finish()  # which its exit handler would do again, but only for this run

    def _names(self) -> set[str]:
        import trackio

        if self._space:
            return set()  # a Space that does not exist yet cannot be queried
        try:
            return {run.name for run in trackio.Api().runs(self._project)}
        except ValueError:  # there is no such project
            return set()

    def _last_step(self, name: str) -> int | None:
        from trackio.sqlite_storage import SQLiteStorage

        if self._space:
            return None
        last = SQLiteStorage.get_max_step_for_run(self._project, name)
        return -1 if last is None else int(last)


def _unused(name: str, used: set[str]) -> str:
    """The name, or else `NAME-2`, `NAME-3` and so on."""
    others = (f"{name}-{number}" for number in itertools.count(2))
    return next(n for n in itertools.chain([name], others) if n not in used)
