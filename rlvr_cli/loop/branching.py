"""New runs from a step of a run, which differ from it in the objective, the verifier or both.

A branch is an ordinary run directory. It shares what the run stored up to that step, and the
completions of the next one, which are of the same policy. This module plans the branches and
refuses what cannot be one; branch_directories.py makes them. Nothing is trained.
"""

import contextlib
import itertools
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rlvr_cli import run_config
from rlvr_cli.algorithms import objective as objectives
from rlvr_cli.config import RunConfig
from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.loop import branch_checks, input_places, setup, stored_config
from rlvr_cli.loop.run_directory import RunDirectory
from rlvr_cli.specs import trust
from rlvr_cli.stages import score
from rlvr_cli.stages.score import Verification
from rlvr_cli.storage import branch_origins, moved
from rlvr_cli.terminal import console
from rlvr_cli.verification.scoring import rewards

_OWN = "own"  # in the name of a branch: each prompt's own verifier
_LONGEST_NAME = 80


@dataclass(frozen=True)
class Choice:
    """An objective or a verifier of a branch, and whether it does what the run's own does.

    `text` is as it was typed or stored, and `origins` are the digests of the files that it names.
    """

    text: str
    origins: dict[str, str]
    is_own: bool


@dataclass(frozen=True)
class Branch:
    """A planned run: its path, its configuration, and how it differs from the others."""

    path: Path
    config: RunConfig
    algo: Choice
    verifier: Choice

    @property
    def command(self) -> str:
        """The line that trains it: what its configuration names of code and services is in it."""
        specs = {
            "algo": self.config.train.algo, "verifier": self.config.train.verifier,
            "engine": self.config.rollout.engine, "trainer": self.config.train_step.trainer,
        }  # fmt: skip
        words = ["rlvr", "train", "--out", str(self.path)]
        for name, spec in specs.items():
            if any(vars(trust.named_in([spec])).values()):
                words += [f"--{name}", spec]
        return shlex.join(words)


@dataclass(frozen=True)
class Plan:
    """The branches of a step of a run, which nothing is known to be wrong with."""

    run: Path
    at: int
    config: RunConfig  # the run's own
    branches: list[Branch]

    def verification(self, verifier: Choice) -> Verification:
        """How the completions that branches share are scored by a verifier of theirs."""
        train = self.branches[0].config.train
        allow_code = train.allow_code_execution
        sandbox = score.sandbox(unsafe=False) if allow_code else None
        return Verification(
            verifier.text or None, train.answer_from, allow_code, score.scorer(sandbox=sandbox),
            console.say,
        )  # fmt: skip


def plan(
    run: Path,
    at: int,
    out: Path,
    *,
    algos: Sequence[str],
    verifiers: Sequence[str],
    steps: int | None = None,
    allow_code: bool = False,
) -> Plan:
    """The branches of all combinations; an error about an impossible one before any is made.

    Without `algos` or `verifiers` they have the run's own, without `steps` as many as the run.
    """
    own = _config(run)
    branch_checks.require_outside(run, out)
    input_places.require(run, own)
    is_decoupled = objectives.build(own.train.algo).decoupled
    branch_checks.require_step(RunDirectory(run, with_memory=is_decoupled), at, own)
    steps = own.train.steps if steps is None else steps
    branch_checks.require_more_steps(run, at, steps)
    common = replace(
        own.train, steps=steps, allow_code_execution=own.train.allow_code_execution or allow_code
    )
    inputs = RunDirectory(run).require_inputs({})
    if wrong := branch_origins.damage(run, inputs):
        raise wrong
    chosen = (_choices(name, given, own, inputs)
              for name, given in (("algo", algos), ("verifier", verifiers)))  # fmt: skip
    pairs = list(itertools.product(*chosen))
    names = _names([[a.text, v.text or _OWN][: 1 + bool(verifiers)] for a, v in pairs])
    branches = []
    for (algo, verifier), name in zip(pairs, names, strict=True):
        branch_checks.require_same_sampling(run, algo.text, is_decoupled)
        train = replace(common, algo=algo.text, verifier=verifier.text)
        branches.append(Branch(out / name, replace(own, train=train), algo, verifier))
    with _quietly():
        for branch in branches:
            checked = setup.check(branch.path, branch.config)
        setup.dry_run(replace(checked, config=own, directory=RunDirectory(run)))
    plan = Plan(run, at, own, branches)
    _require_golds(plan)
    return plan


def _config(run: Path) -> RunConfig:
    """The configuration of a run, in the words of this version, as short as it was written."""
    begun = RunDirectory(run).begun()
    if begun is None:
        raise DataError(
            f"`{run}` is not a run of train: it has no config.toml", "name a run directory"
        )
    config = stored_config.resumed(run_config.load([], {}, stored=begun), begun)
    tables = {}
    for table, options in vars(config).items():
        stored = begun.get(table, {})
        short = {
            name: stored[name]
            for name, value in vars(options).items()
            if name in stored and stored_config.meaning(name, stored[name], None) == value
        }
        tables[table] = replace(options, **short)
    return RunConfig(**tables)


def _choices(
    name: str, given: Sequence[str], own: RunConfig, inputs: dict[str, str]
) -> list[Choice]:
    """The values given for `algo` or `verifier`, each once; without any, the run's own."""
    stored: str = vars(own.train)[name]
    files_of = objectives.origins if name == "algo" else rewards.origins
    meant = stored_config.decides(name, stored, None)
    choices: dict[tuple[str, ...], Choice] = {}
    for text in given or [stored]:
        decides = stored_config.decides(name, text, None)
        files = files_of(text) if text else {}
        is_own = decides == meant and all(inputs.get(f, d) == d for f, d in files.items())
        same = stored_config.meaning(name, text, None) == stored_config.meaning(name, stored, None)
        if (key := (decides, *files.values())) in choices:
            raise UsageError(f"--{name} names `{text or _OWN}` twice", "name each once")
        choices[key] = Choice(stored if same else text, files, is_own)
    return list(choices.values())


def _names(specs: list[list[str]]) -> list[str]:
    """A folder name for each branch from its specs; equal names are numbered."""
    plain = ["-".join(map(_slug, texts))[:_LONGEST_NAME] for texts in specs]
    seen: Counter[str] = Counter()
    names = []
    for name in plain:
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return names


def _slug(spec: str) -> str:
    """A spec as a file name, without the folders that it names."""
    short = re.sub(r"[^,=:+*]*/", "", spec)
    return "".join(c if c.isalnum() or c in "-." else "-" for c in short).strip("-.")


def _require_golds(plan: Plan) -> None:
    prompts = branch_checks.prompts_of(plan.run, plan.at, plan.config)
    for given, _ in prompts:
        moved.remember(given.digest, given.path)
    others = {b.verifier.text: b.verifier for b in plan.branches if not b.verifier.is_own}
    for verifier in others.values():
        verification = plan.verification(verifier)
        assert verification.scorer
        with verification.scorer:
            limit = plan.config.train.max_error_rate
            branch_checks.require_golds(prompts, verification, limit)


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Suppresses remarks that `train` makes again when it starts each run."""
    terminal = console.stderr()
    before, terminal.quiet = terminal.quiet, True
    try:
        yield
    finally:
        terminal.quiet = before
