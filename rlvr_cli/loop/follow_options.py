"""The options of commands that work for a run which others work for too; imports nothing heavy."""

import inspect
from pathlib import Path
from typing import Annotated, Any

import typer

from rlvr_cli import config
from rlvr_cli.cli import followed, launch
from rlvr_cli.cli.added import Command, taking
from rlvr_cli.errors import UsageError

Follow = Annotated[
    Path | None, typer.Option("--follow", help="work on this run, step by step, until it ends")
]
Ahead = Annotated[
    int | None, typer.Option(min=0, help="with --follow: sample at most this many steps ahead")
]
Config = Annotated[
    Path | None,
    typer.Option("--config", help="with --follow: a TOML file of `rlvr train`, for a new run"),
]
Async = Annotated[
    bool,
    typer.Option(
        "--async", help="sample and score in separate processes", rich_help_panel=config.ASYNC
    ),
]
SamplerGpus = Annotated[
    str | None,
    typer.Option(
        help="with --async: GPUs that run one sampler each, as in 0,1", rich_help_panel=config.ASYNC
    ),
]
TrainerGpus = Annotated[
    str | None,
    typer.Option(help="with --async: GPUs of the trainer", rich_help_panel=config.ASYNC),
]


def samples(command: Command) -> Command:
    """Lets `--follow RUN` sample the steps of a run."""

    def follow(run: Path, ahead: int | None) -> None:
        from rlvr_cli.loop import following

        following.sample(run, ahead=ahead)

    return _follows(command, follow, added={"ahead": Ahead})


def scores(command: Command) -> Command:
    """Lets `--follow RUN` score the steps of a run."""

    def follow(run: Path, workers: int | None, unsafe_no_sandbox: bool) -> None:
        from rlvr_cli.loop import following

        following.verify(run, workers=workers, unsafe=unsafe_no_sandbox)

    return _follows(command, follow)


def trains(command: Command) -> Command:
    """Lets `--follow RUN` train a run."""

    def follow(run: Path, configuration: Path | None, nproc: int, json: bool) -> None:
        from rlvr_cli.loop import display

        launch.spawn(nproc)
        display.follow(run, configuration, as_json=json)

    return _follows(command, follow, added={"configuration": Config})


def launches(command: Command) -> Command:
    """Gives a command the `places` of the processes that `--async` starts, None without it."""
    added = {"asynchronous": Async, "sampler_gpus": SamplerGpus, "trainer_gpus": TrainerGpus}

    def wrapper(
        asynchronous: bool, sampler_gpus: str | None, trainer_gpus: str | None, **values: Any
    ) -> Any:
        from rlvr_cli.loop.launching import Places

        places = Places.parse(sampler_gpus, trainer_gpus, asynchronous=asynchronous)
        return command(**values, places=places)

    return taking(wrapper, command, defaults={"asynchronous": False}, without="places", **added)


def _follows(command: Command, follow: Command, *, added: dict[str, Any] | None = None) -> Command:
    """The command, which calls `follow` instead where `--follow` is given.

    Of the command's options `follow` takes those that it names. With any other an error: the run
    itself says the rest.
    """
    names = list(inspect.signature(follow).parameters)[1:]
    plain = inspect.signature(command).parameters

    def wrapper(**values: Any) -> Any:
        run = values.pop("follow")
        if run is None:
            return command(**{name: values[name] for name in plain})
        given = {n for n, p in plain.items() if n not in names and _is_given(values[n], p.default)}
        given |= {
            other
            for value in values.values()
            for other in (value if type(value) is dict else ())
            if value[other] is not None
        }
        for other in sorted(given):
            raise UsageError(
                f"--follow takes all from its run, and `{other.replace('_', '-')}` was given",
                followed.instead(run, other) or "leave it out, or leave --follow out",
            )
        return follow(run, **{name: values[name] for name in names})

    return taking(wrapper, command, follow=Follow, **(added or {}))


def _is_given(value: Any, default: Any) -> bool:
    return type(value) is not dict and value != default
