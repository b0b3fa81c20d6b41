"""Directories that were begun already, whose options stay as they were."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

from rlvr_cli import config, registry
from rlvr_cli.terminal import console, escape


class Begun:
    """What a directory was begun with: an option that is not given is as it was there."""

    def __init__(self, path: Path, *, but: tuple[str, ...] = ()) -> None:
        from rlvr_cli.storage.begun import begun_with

        self._path = path
        self.exists = bool(begun_with(path))
        self._params = {n: value for n, value in begun_with(path).items() if n not in but}

    def dry_run(self, stage: Callable[..., object], *inputs: Any, **options: Any) -> None:
        """Calls `dry_run` if the directory was begun; a new one needs no policy's digest."""
        if self.exists:
            dry_run(stage, *inputs, **options)

    def values(self, **given: Any) -> dict[str, Any]:
        """Those of these options that have a value; the others are left to their defaults."""
        stored = {name: self._params.get(name) for name in given}
        quiet = {"micro_batch_tokens": config.UpdateOptions.micro_batch_tokens}
        news = {n: v for n, v in stored.items() if v and given[n] is None and v != quiet.get(n)}
        self._say({n: v for n, v in news.items() if not self._is_default("objectives", "grpo", v)})
        chosen = {name: stored[name] if v is None else v for name, v in given.items()}
        return {name: value for name, value in chosen.items() if value is not None}

    def options(self, kind: type, given: dict[str, Any]) -> Any:
        """The options of a stage."""
        chosen = config.make(kind, given, self._params)
        defaults: dict[str, Any] = {
            f.name: f.default for f in fields(kind) if given[f.name] is None
        }
        others = {n: v for n, v in vars(chosen).items() if n in defaults and v != defaults[n]}
        folders = {"engine": "rollout", "trainer": "training"}
        self._say(
            {
                name: value
                for name, value in others.items()
                if name not in folders or not self._is_default(folders[name], defaults[name], value)
            }
        )
        return chosen

    @staticmethod
    def _is_default(folder: str, default: str, stored: Any) -> bool:
        """Whether a stored spec is the default one, written out."""
        if default == "auto":  # of engines, it is one of these
            name = str(stored).partition(":")[0]
            return name in ("transformers", "graph") and (
                registry.canonical(folder, stored) == registry.canonical(folder, name)
            )
        if not str(stored).startswith(default):
            return False
        return bool(stored == registry.canonical(folder, default))

    def _say(self, values: dict[str, Any]) -> None:
        if values:
            named = ", ".join(f"{name} {escape.brief(value)}" for name, value in values.items())
            console.say(f"`{self._path}` was begun with {named}: it stays so")


def dry_run(stage: Callable[..., object], *inputs: Any, **options: Any) -> None:
    """Lets a stage refuse what it would refuse before it writes; makes nothing."""
    from rlvr_cli.storage import dry_run as dry_runs

    dry_runs.run(lambda: stage(*inputs, **options))
