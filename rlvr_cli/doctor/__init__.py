"""What would go wrong with a machine, a model or data, reported before any work is done."""

from dataclasses import replace
from pathlib import Path

from rlvr_cli.config import RunConfig
from rlvr_cli.doctor import data, fit, machine, tokens
from rlvr_cli.doctor.finding import Finding
from rlvr_cli.errors import DataError, UserError
from rlvr_cli.models import engine_choice, policy as policies
from rlvr_cli.stages import row_images
from rlvr_cli.storage import moved
from rlvr_cli.storage.shards import MANIFEST, Shards


def of_data(
    source: Path, model: str | None, run: RunConfig, columns: dict[str, str | None]
) -> list[Finding]:
    """The findings on a directory or a file of prompts, and on a model's reading of them.

    `prompts` is the new place of those that the directory was derived from, if they moved.
    """
    policy = policies.resolve(model) if model else None
    place = Path(run.train.prompts)
    if run.train.prompts and (place / MANIFEST).exists():
        moved.remember(Shards.open(place, "prompts").digest, place)
    findings = data.examine(source, policy=policy, options=run.rollout, columns=columns)
    return [*findings, *(tokens.examine(policy) if policy else ())]


def of_machine(model: str | None, run: RunConfig, processes: int) -> list[Finding]:
    """The findings on this machine, and on a run of a model on it."""
    findings = list(machine.examine())
    if model:
        policy = policies.resolve(model)
        given = [Shards.open(Path(run.train.prompts), "prompts")] if run.train.prompts else []
        images = any(map(row_images.has_images, given))
        trainer = run.train_step.trainer
        engine, _ = engine_choice.resolve(run.rollout.engine, policy, trainer, images=images)
        run = replace(run, rollout=replace(run.rollout, engine=engine))
        findings += tokens.examine(policy)
        findings += (fits := list(fit.examine(policy, run, size=processes)))
        if all(finding.level != "problem" for finding in fits):
            findings += fit.agree(policy, run)
    return findings


def conclude(findings: list[Finding], source: Path | None) -> None:
    """An error that counts the problems, if there are any: of the data, or of the machine."""
    subjects = dict.fromkeys(f.subject for f in findings if f.level == "problem")
    count = sum(f.level == "problem" for f in findings)
    if not count:
        return
    problems = f"{count} problem{'s' if count > 1 else ''}"
    where = f" in `{source}`" if source else ""
    kind = DataError if source else UserError
    raise kind(f"{problems}{where}: {', '.join(subjects)}", "the table says what to do")
