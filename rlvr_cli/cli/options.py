"""What the commands' signatures share."""

import functools
import inspect
import math
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer
from typer.models import ArgumentInfo

from rlvr_cli import config, registry, run_config
from rlvr_cli.cli import placing
from rlvr_cli.errors import UsageError
from rlvr_cli.runtime import distributed, several, stdin
from rlvr_cli.storage import fetched
from rlvr_cli.terminal import console, escape

Source = Annotated[
    str | None, typer.Argument(help="a directory; `-` or nothing reads its path from stdin")
]
Directories = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[DIR]...",
        help="a directory, or several as one; `-` or nothing reads a path from stdin",
    ),
]
Files = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SOURCE]...",
        help="a directory, or files; `-` or nothing reads rows, or a path, from stdin",
    ),
]
Out = Annotated[Path | None, typer.Option("--out", help="the directory to make")]
Json = Annotated[
    bool,
    typer.Option(
        "--json", help="print the summary as JSON on stdout", rich_help_panel=config.FILES
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="print what would be done, and stop")]
Limit = Annotated[int | None, typer.Option(min=1, help="only the first so many prompts")]
Seed = Annotated[int, typer.Option(min=0, help="every row's seed is a hash of this and its key")]
MicroBatchTokens = Annotated[int, typer.Option(min=1, help="padded tokens in one forward pass")]
# Those of a directory that may be begun already: without a value they are as they were there.
StageSeed = Annotated[
    int | None,
    typer.Option("--seed", min=0, help="every row's seed is a hash of it \\[default: 0]"),
]
StageStep = Annotated[int | None, typer.Option("--step", min=0, help="of the loop, part of seeds")]
StageTokens = Annotated[
    int | None,
    typer.Option(
        "--micro-batch-tokens",
        min=1,
        help="padded tokens in one forward pass "
        f"\\[default: {config.UpdateOptions.micro_batch_tokens}]",
    ),
]
Nproc = Annotated[int, typer.Option("--nproc", min=1, help="processes on this machine, one a GPU")]
Track = Annotated[
    str | None,
    typer.Option(help="send the figures to a tracker meanwhile, as `rlvr track` does"),
]
PromptsPerStep = Annotated[
    int | None, typer.Option(min=1, help="take the prompts of this step only, so many")
]
Shard = Annotated[str, typer.Option("--shard", help="do share i of n of the parts, as in 0/4")]
MovedPrompts = Annotated[
    list[Path] | None,
    typer.Option("--prompts", help="where the prompts moved to; repeatable for several inputs"),
]
MovedRollouts = Annotated[
    list[Path] | None,
    typer.Option("--rollouts", help="where the rollouts moved to; repeatable for several inputs"),
]
Model = Annotated[str | None, typer.Option(help="the policy: a model directory, or `builtin`")]
StageAlgo = Annotated[
    str | None, typer.Option("--algo", help="as in quatro:delta=0.05+kl \\[default: grpo]")
]
Algos = Annotated[
    list[str] | None,
    typer.Option("--algo", help="objective and modifiers, as in grpo+iac; may be repeated"),
]
GroupSizes = Annotated[str | None, typer.Option("--group-size", help="samples a step, as in 4,16")]
Optimizers = Annotated[str | None, typer.Option("--optimizer", help="of sgd,momentum,adam,adamw")]
LearningRates = Annotated[str | None, typer.Option("--learning-rate", help="as in 0.1,1")]
Steps = Annotated[int, typer.Option(min=1, help="updates of a policy")]
Seeds = Annotated[int, typer.Option(min=1, help="policies of each run, trained at once")]
Jobs = Annotated[int | None, typer.Option(min=1, help="processes; one a core by default")]
Format = Annotated[
    str | None, typer.Option(help="of the figures: svg,png or none; both if matplotlib is there")
]
AnswerFrom = Annotated[
    str | None,
    typer.Option(
        help="thoughts, which hold no answer, as OPEN...CLOSE; or what the answer follows; or none "
        "\\[default: \\<think>...\\</think>]"
    ),
]
Workers = Annotated[
    int | None, typer.Option(min=1, help="processes that verify \\[default: one a core]")
]
Cache = Annotated[
    Path | None, typer.Option(help="verdicts of earlier runs \\[default: ~/.cache/rlvr]")
]
MaxErrorRate = Annotated[float, typer.Option(min=0, max=1, help="exit with 4 above this share")]
AllowCode = Annotated[
    bool, typer.Option("--allow-code-execution", help="let verifiers run what a model wrote")
]
Unsafe = Annotated[
    bool, typer.Option("--unsafe-no-sandbox", help="run it also where nothing can isolate it")
]
Sources = Annotated[
    list[str], typer.Argument(help="a file, a folder, a data set of the Hub, task:NAME, or prompts")
]
Layout = Annotated[
    str | None,
    typer.Option(help="what stands in which column, as in gsm8k; none: columns by name"),
]
Weights = Annotated[
    str | None, typer.Option(help="shares of several sources, as in 2,1,1; without it all of each")
]
DropUnusable = Annotated[
    bool, typer.Option("--drop-unusable", help="leave out rows without a prompt or an answer")
]
Skip = Annotated[int, typer.Option(min=0, help="leave out the first so many")]
DropAnswerTurn = Annotated[
    bool, typer.Option("--drop-answer-turn", help="leave out the assistant's turn at the end")
]
DropDuplicates = Annotated[
    bool, typer.Option("--drop-duplicates", help="leave out prompts that repeat an earlier text")
]
Without = Annotated[
    list[Path] | None, typer.Option(help="leave out what stands in these prompts; repeatable")
]
DropEasiest = Annotated[
    float | None, typer.Option(help="leave out this share, those solved most often")
]
KeepRate = Annotated[str | None, typer.Option(help="keep these success rates alone, as in 0.1,0.9")]
ScoresOfEasiest = Annotated[
    list[Path] | None,
    typer.Option("--scores", help="scores that say so; may be given several times"),
]
IdColumn = Annotated[str | None, typer.Option(help="the column that names the prompt")]
PromptColumn = Annotated[str | None, typer.Option(help="the column of the prompt")]
AnswerColumn = Annotated[str | None, typer.Option(help="the column of the gold answer")]
GoldColumn = Annotated[
    str | None,
    typer.Option("--answer-column", help="the column of the gold answer; none: no golds"),
]
Equality = Annotated[
    str | None,
    typer.Option(
        help="what holds wrong answers equal: a verifier, text, or none for no Maj@k and no answer "
        "entropy \\[default: the verifier of the scores, else text]"
    ),
]
Power = Annotated[
    float | None,
    typer.Option(help="say how many prompts would show this difference of Pass@1, as in 0.02"),
]
Ks = Annotated[str | None, typer.Option("--k", help="as in 1,8,64; default: powers of two")]
MinN = Annotated[
    int, typer.Option("--min-n", min=1, help="leave out prompts with fewer completions than this")
]
PairBy = Annotated[
    str | None,
    typer.Option(
        help="what must agree in a prompt of both \\[default: id,source,text,gold, as far as both "
        "know them]"
    ),
]
Linkage = Annotated[
    Literal["single", "average", "complete"], typer.Option(help="what joins a cluster")
]

_SHORT = {"num_generations": ["-n"]}


def takes(**tables: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Puts the options of dataclasses into a command's signature.

    Each keyword names a parameter of the command; it gets a dict of the values that were given.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def wrapper(**values: Any) -> Any:
            for name, kind in tables.items():
                values[name] = {f.name: values.pop(_parameter_name(f)) for f in fields(kind)}
            return command(**values)

        signature = inspect.signature(command)
        own = [p for p in signature.parameters.values() if p.name not in tables]
        implied = _of_the_builtin_run() if config.RunOptions in tables.values() else {}
        options = [_parameter(kind, f, implied) for kind in tables.values() for f in fields(kind)]
        parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own] + options
        parameters.sort(key=lambda p: config.GROUPS.index(_group(p)))
        wrapper.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        wrapper.__annotations__ = {p.name: p.annotation for p in parameters}
        return wrapper

    return decorate


def _parameter(kind: type, field: Any, implied: dict[str, Any]) -> inspect.Parameter:
    name = _parameter_name(field).replace("_", "-")
    flags = [f"--{name}", *_SHORT.get(field.name, [])]
    if field.type is bool and field.default:
        flags = [f"--{name}/--no-{name}"]
    default = f"{getattr(kind, 'BEFORE_DEFAULT', '')}{field.default!r}"
    if implied.get(field.name, field.default) != field.default:
        default += f"; {implied[field.name]!r} in the built-in run"
    text = field.metadata["help"]
    if kind is not config.Columns:
        text += f" \\[default: {default}]"
    option = typer.Option(
        *flags, help=text.replace("<", "\\<"), rich_help_panel=config.group(kind, field) or None
    )
    return inspect.Parameter(
        _parameter_name(field),
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[field.type | None, option],
    )


def _parameter_name(field: Any) -> str:
    return str(field.metadata["flag"] or field.name)


def _group(parameter: inspect.Parameter) -> str:
    """Where help shows a parameter; empty for those that come first."""
    return getattr(get_args(parameter.annotation)[1], "rich_help_panel", None) or config.ESSENTIAL


def _of_the_builtin_run() -> dict[str, Any]:
    """Every option of a run that names no model and no prompts, by its name."""
    tables = vars(run_config.recipe("builtin")[1]).values()
    return {name: value for table in tables for name, value in vars(table).items()}


def announced(name: str, command: Callable[..., Any]) -> Callable[..., Any]:
    """A command whose JSON says its name, and its arguments as what it reads."""
    parameters = inspect.signature(command).parameters.values()
    kinds = {p.name: get_args(p.annotation)[1] for p in parameters if get_args(p.annotation)[1:]}
    arguments = [name for name, kind in kinds.items() if isinstance(kind, ArgumentInfo)]

    @functools.wraps(command)
    def wrapper(**values: Any) -> Any:
        given = [values[name] for name in arguments if values[name] is not None]
        flat = [one for value in given for one in (value if type(value) is list else [value])]
        inputs = [fetched.recorded(Path(one)) or str(one) for one in flat]
        with console.origin(name, inputs):
            return command(**values)

    return wrapper


def source(given: str | None) -> Path:
    """The path that was given, or the one that the command before in the pipe printed."""
    if given not in (None, "-"):
        return Path(str(given))
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("no directory was given", "name one, or pipe its path in")
    lines = [line for line in sys.stdin.read().split("\n") if line.strip()]
    return _only_path(lines, "the path of one directory was expected")


def directories(
    given: list[str] | None, kind: str, out: Path | None, beside: str
) -> tuple[Any, Path]:
    """The directories that were given, as one, and the directory to make: `beside` a single one."""
    from rlvr_cli.storage import joined

    if given and len(given) > 1 and "-" in given:
        raise UsageError("`-` is one of several directories", "name them all")
    paths = [source(one) for one in given] if given else [source(None)]
    if len(paths) > 1 and out is None:
        raise UsageError(
            f"{len(paths)} directories are given, and what is made of them lies beside none",
            f"say where it goes, as in `--out mixed/{beside}`",
        )
    return joined.opened(paths, kind), out or paths[0].parent / beside


def moved_to(given: list[Path] | None, kind: str, source: Any) -> Path | None:
    """Where the parent of one directory is now; those of several are remembered by their digest."""
    from rlvr_cli.storage import moved
    from rlvr_cli.storage.shards import Shards

    if given and len(given) == len(source.inputs) == 1:
        return given[0]
    for path in given or ():
        moved.remember(Shards.open(path, kind).digest, path)
    return None


def files(given: list[str] | None) -> Path:
    """What was given as one path; of stdin the path that it holds, or else the rows."""
    if given and given != ["-"]:
        return several.together(once(list(map(Path, given))))
    if stdin.is_terminal():
        raise UsageError("no directory was given", "name one or files, or pipe rows in")
    lines = stdin.lines()
    if lines is None:
        console.reads(stdin.DASH)
        return stdin.DASH
    return _only_path(lines, "the path of one directory or rows were expected")


def _only_path(lines: list[str], expected: str) -> Path:
    """The path on the one line of stdin, which is then an input of the command."""
    if len(lines) != 1:
        raise UsageError(
            f"stdin holds {len(lines)} lines, {expected}",
            "look at what the command before printed on stderr",
        )
    console.reads(escape.redacted(lines[0]))
    return Path(placing.read(lines[0]))


def once(paths: list[Path]) -> list[Path]:
    """These paths; an error if several are stdin, which is read once."""
    if paths.count(stdin.DASH) > 1:
        raise UsageError("`-` is named twice, and stdin holds one source", "name the other's file")
    return paths


class Begun:
    """What a directory was begun with: an option that is not given is as it was there."""

    def __init__(self, path: Path, *, but: tuple[str, ...] = ()) -> None:
        from rlvr_cli.storage.shards import begun_with

        self._path = path
        self.exists = bool(begun_with(path))
        self._params = {n: value for n, value in begun_with(path).items() if n not in but}

    def rehearse(self, stage: Callable[..., object], *inputs: Any, **options: Any) -> None:
        """As `rehearse`, of a directory that was begun: what is new needs no policy's digest."""
        if self.exists:
            rehearse(stage, *inputs, **options)

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


def rehearse(stage: Callable[..., object], *inputs: Any, **options: Any) -> None:
    """Lets a stage refuse what it would refuse before it writes; makes nothing."""
    from rlvr_cli.storage import rehearsal

    rehearsal.rehearse(lambda: stage(*inputs, **options))


def spawn(nproc: int, given: str | list[str] | None = None, path: Path | None = None) -> None:
    """Runs this command in so many processes and ends this one, unless it is one of them already.

    `given` are the arguments of a source whose `path` is known now: only this process has its
    stdin.
    """
    from rlvr_cli.runtime import launcher, nodes

    place, asked = distributed.current(), nodes.asked()
    if distributed.is_launched() or (place.size > 1 and asked.count == 1):
        return _require_as_launched(place, nproc)
    if nproc * asked.count == 1:
        return None
    words = sys.argv[1:]
    if path is not None and given in (None, "-", [], ["-"]):
        words = [word for word in words if word != "-"] + [str(path)]
    raise typer.Exit(launcher.spawn(nproc, words, asked))


def _require_as_launched(place: distributed.World, nproc: int) -> None:
    """An error if --nproc asks for other processes than those that another launcher started."""
    if nproc not in (1, place.local_size) and place.size > 1:
        here = f"{place.local_size or 'an unknown number of'} on this machine"
        raise UsageError(
            f"--nproc is {nproc}, and {place.size} processes were started already, {here}",
            "leave --nproc out; or, where one command a node was started, add --nnodes "
            f"{place.size}",
        )


def share(shard: str) -> Any:
    """The share that was asked for, or else that of this process among those that were started."""
    from rlvr_cli.storage.shards import ALL_PARTS, Share

    asked, place = Share.parse(shard), distributed.current()
    if place.size == 1:
        return asked
    if asked != ALL_PARTS:
        raise UsageError(
            f"--shard is {shard}, and {place.size} processes were started",
            "leave one of the two out",
        )
    return Share.of_process(place.rank, place.size)


def ks(text: str | None) -> list[int]:
    """The values of k in `1,8,64`, in order; none if nothing was given."""
    if text is None:
        return []
    values = text.split(",")
    if not all(value.strip().isdecimal() and int(value) > 0 for value in values):
        raise UsageError(f"--k is `{text}`", "write whole numbers from 1 on, as in --k 1,8,64")
    return sorted({int(value) for value in values})


def words(text: str | None) -> tuple[str, ...]:
    """The entries of a comma-separated list; none if nothing was given."""
    return tuple(word.strip() for word in (text or "").split(",") if word.strip())


def numbers(name: str, text: str | None, kind: type = float) -> tuple[Any, ...]:
    """The numbers of a comma-separated list, from 0 on; none if nothing was given."""
    try:
        values = tuple(kind(word) for word in words(text))
    except ValueError:
        values = (math.nan,)
    if not all(0 <= value < math.inf for value in values):
        what = "whole numbers" if kind is int else "numbers"
        raise UsageError(f"{name} is `{text}`", f"write {what} from 0 on, as in {name} 1,2")
    return values


def thresholds(text: str) -> list[float]:
    """The numbers in `0.6,0.8`, in order, each once."""
    try:
        return sorted({float(value) for value in text.split(",")})
    except ValueError:
        raise UsageError(
            f"--threshold is `{text}`", "write numbers, as in --threshold 0.6,0.8"
        ) from None
