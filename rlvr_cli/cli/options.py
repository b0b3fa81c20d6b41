"""What the commands' signatures share."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer
from typer.models import ArgumentInfo

from rlvr_cli import config, run_config
from rlvr_cli.storage import fetched
from rlvr_cli.terminal import console

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
Out = Annotated[Path | None, typer.Option("--out", help="the directory to write")]
Json = Annotated[
    bool,
    typer.Option(
        "--json", help="print the summary as JSON on stdout", rich_help_panel=config.FILES
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="print what would be done, and stop")]
Limit = Annotated[int | None, typer.Option(min=1, help="take only this many prompts")]
Seed = Annotated[int, typer.Option(min=0, help="every row's seed is a hash of this and its key")]
MicroBatchTokens = Annotated[int, typer.Option(min=1, help="padded tokens in one forward pass")]
# Those of a directory that may be begun already: without a value they are as they were there.
StageSeed = Annotated[
    int | None,
    typer.Option("--seed", min=0, help="every row's seed is a hash of this \\[default: 0]"),
]
StageStep = Annotated[
    int | None, typer.Option("--step", min=0, help="step of the loop; part of every seed")
]
StageTokens = Annotated[
    int | None,
    typer.Option(
        "--micro-batch-tokens",
        min=1,
        help="padded tokens in one forward pass "
        f"\\[default: {config.UpdateOptions.micro_batch_tokens}]",
    ),
]
Nproc = Annotated[
    int, typer.Option("--nproc", min=1, help="processes on this machine, one per GPU")
]
Track = Annotated[
    str | None,
    typer.Option(help="send figures to a tracker during the run, as `rlvr track` does"),
]
PromptsPerStep = Annotated[
    int | None, typer.Option(min=1, help="take only the prompts of this step, this many")
]
Shard = Annotated[str, typer.Option("--shard", help="do only share i of n of the parts, as in 0/4")]
MovedPrompts = Annotated[
    list[Path] | None,
    typer.Option("--prompts", help="where the prompts moved to; repeatable for several inputs"),
]
MovedRollouts = Annotated[
    list[Path] | None,
    typer.Option("--rollouts", help="where the rollouts moved to; repeatable for several inputs"),
]
Logprobs = Annotated[
    Path | None, typer.Option(help="output of `rlvr logprob` \\[default: next to the input]")
]
Model = Annotated[str | None, typer.Option(help="the policy: a model directory, or `builtin`")]
StageAlgo = Annotated[
    str | None,
    typer.Option("--algo", help="the algorithm, as in quatro:delta=0.05+kl \\[default: grpo]"),
]
Algos = Annotated[
    list[str] | None,
    typer.Option("--algo", help="objective and modifiers, as in grpo+iac; repeatable"),
]
GroupSizes = Annotated[
    str | None, typer.Option("--group-size", help="samples per step, as in 4,16")
]
Optimizers = Annotated[
    str | None, typer.Option("--optimizer", help="any of sgd,momentum,adam,adamw")
]
LearningRates = Annotated[str | None, typer.Option("--learning-rate", help="rates, as in 0.1,1")]
Steps = Annotated[int, typer.Option(min=1, help="updates of a policy")]
Seeds = Annotated[int, typer.Option(min=1, help="policies per run, trained together")]
Jobs = Annotated[int | None, typer.Option(min=1, help="processes \\[default: one per core]")]
Format = Annotated[
    str | None,
    typer.Option(help="figure files: svg,png or none \\[default: both, with matplotlib]"),
]
AnswerFrom = Annotated[
    str | None,
    typer.Option(
        help="skip thoughts between OPEN...CLOSE, or read only after a marker, or none to read all "
        "\\[default: \\<think>...\\</think>]"
    ),
]
Workers = Annotated[
    int | None, typer.Option(min=1, help="verifier processes \\[default: one per core]")
]
Cache = Annotated[
    Path | None, typer.Option(help="stored verdicts of earlier runs \\[default: ~/.cache/rlvr]")
]
MaxErrorRate = Annotated[
    float, typer.Option(min=0, max=1, help="exit with 4 above this error rate")
]
AllowCode = Annotated[
    bool, typer.Option("--allow-code-execution", help="let verifiers run model-written code")
]
Unsafe = Annotated[
    bool, typer.Option("--unsafe-no-sandbox", help="run it even where it cannot be isolated")
]
Sources = Annotated[
    list[str], typer.Argument(help="a file, a folder, a Hub data set, task:NAME, or prompts")
]
Layout = Annotated[
    str | None,
    typer.Option(help="the data set's layout, as in gsm8k; none: columns by name"),
]
Weights = Annotated[
    str | None, typer.Option(help="shares of several sources, as in 2,1,1 \\[default: all rows]")
]
DropUnusable = Annotated[
    bool, typer.Option("--drop-unusable", help="leave out rows without a prompt or an answer")
]
Skip = Annotated[int, typer.Option(min=0, help="leave out this many prompts at the start")]
DropAnswerTurn = Annotated[
    bool, typer.Option("--drop-answer-turn", help="leave out a final assistant turn")
]
DropDuplicates = Annotated[
    bool, typer.Option("--drop-duplicates", help="leave out prompts that repeat an earlier one")
]
Without = Annotated[
    list[Path] | None, typer.Option(help="leave out prompts that are in this directory; repeatable")
]
DropEasiest = Annotated[
    float | None, typer.Option(help="leave out this share of the prompts, the easiest")
]
KeepRate = Annotated[
    str | None, typer.Option(help="keep only success rates in this range, as in 0.1,0.9")
]
ScoresOfEasiest = Annotated[
    list[Path] | None,
    typer.Option("--scores", help="scores that measure the success rates; repeatable"),
]
IdColumn = Annotated[str | None, typer.Option(help="the column of the prompt's id")]
PromptColumn = Annotated[str | None, typer.Option(help="the column of the prompt")]
AnswerColumn = Annotated[str | None, typer.Option(help="the column of the gold answer")]
GoldColumn = Annotated[
    str | None,
    typer.Option("--answer-column", help="the column of the gold answer; none: no golds"),
]
Equality = Annotated[
    str | None,
    typer.Option(
        help="how wrong answers are compared: a verifier, text, or none for no Maj@k and no answer "
        "entropy \\[default: the verifier of the scores, else text]"
    ),
]
Power = Annotated[
    float | None,
    typer.Option(help="compute how many prompts would show this Pass@1 difference, as in 0.02"),
]
Ks = Annotated[
    str | None, typer.Option("--k", help="values of k, as in 1,8,64 \\[default: powers of two]")
]
MinN = Annotated[
    int, typer.Option("--min-n", min=1, help="leave out prompts with fewer completions than this")
]
PairBy = Annotated[
    str | None,
    typer.Option(
        help="what must match to pair two prompts \\[default: id,source,text,gold, as far as both "
        "know them]"
    ),
]
Linkage = Annotated[
    Literal["single", "average", "complete"], typer.Option(help="which similarity joins clusters")
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
    if kind not in (config.Columns, config.ImageOptions):
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
