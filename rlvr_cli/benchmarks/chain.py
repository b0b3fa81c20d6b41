"""Prompts, rollouts, scores, Pass@k and UCC@k of each benchmark, one after the other; each resumes.

OUT/NAME/{prompts,rollouts,scores,passk,ucc}    OUT/summary.json    OUT/report.html
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlvr_cli import config
from rlvr_cli.benchmarks import Definition, data
from rlvr_cli.cli.resumed import Begun
from rlvr_cli.config import RolloutOptions
from rlvr_cli.errors import UsageError
from rlvr_cli.evaluation import clustering, metric_shards, pass_at_k, voting
from rlvr_cli.models import memory_model, policy as policies, prompt_options, which
from rlvr_cli.models.policy import Policy
from rlvr_cli.protocols import RolloutEngine
from rlvr_cli.stages import (
    prompt_rewards,
    rollout,
    rollout_options,
    rollout_remarks,
    score,
    unanswered,
)
from rlvr_cli.stages.selection import Selection
from rlvr_cli.storage.begun import begun_with
from rlvr_cli.storage.manifest import digests
from rlvr_cli.storage.shards import MANIFEST, Shards
from rlvr_cli.terminal import console
from rlvr_cli.verification.scoring import rewards
from rlvr_cli.verification.scoring.scorer import Scorer

THRESHOLD = 0.8  # of UCC@k
_ROOM = 1024  # tokens that are left for a prompt where a benchmark wants more than there is context


@dataclass(frozen=True)
class Settings:
    """The options for all benchmarks; options of `rollout` that are None were not given."""

    out: Path
    model: str | None
    given: dict[str, Any]
    seed: int | None = None
    limit: int | None = None
    places: dict[str, Path] = field(default_factory=dict)
    allow_code: bool = False
    unsafe: bool = False
    workers: int | None = None
    max_error_rate: float = 0.01


@dataclass(frozen=True)
class Prepared:
    """A benchmark that is ready to be sampled."""

    definition: Definition
    folder: Path
    prompts: Shards
    policy: Policy
    options: RolloutOptions
    selection: Selection
    remarks: list[str]


@dataclass(frozen=True)
class Measured:
    """The scores of a benchmark, their figures, and whether anything was left to do."""

    name: str
    folder: Path
    figures: dict[str, Any]
    is_new: bool


def folder_name(model: str) -> str:
    """What the directory of a model's benchmarks is called: `Qwen--Qwen3-8B`, or its folder."""
    return Path(model).resolve().name if Path(model).exists() else model.replace("/", "--")


def run(definitions: list[Definition], settings: Settings) -> list[Measured]:
    """All benchmarks; what can be refused is refused before the first completion is sampled."""
    kind = score.sandbox(unsafe=settings.unsafe) if settings.allow_code else None
    prompts = [_prompts(definition, settings) for definition in definitions]
    prepared = [_prepare(d, p, settings) for d, p in zip(definitions, prompts, strict=True)]
    for one in prepared:
        if not (one.folder / "rollouts" / MANIFEST).exists():
            console.remark(one.definition.name, *one.remarks)
    console.remark("bench", *score.isolation(kind))
    longest = max(one.options.max_new_tokens for one in prepared)
    engines: dict[str, RolloutEngine] = {}  # a model is loaded once for all benchmarks

    def engine(one: Prepared) -> RolloutEngine:
        spec = one.options.engine
        if spec not in engines or one.options.is_decoupled:
            most = dataclasses.replace(one.options, max_new_tokens=longest)
            engines[spec] = rollout.load(one.policy, most, one.prompts.table(), _memory(one))
        return engines[spec]

    with score.scorer(workers=settings.workers, sandbox=kind) as scorer:
        measured = [_measured(one, settings, engine, scorer) for one in prepared]
    console.remark("score", *scorer.remarks())
    return measured


def _prompts(definition: Definition, settings: Settings) -> Shards:
    """A benchmark's prompts; an error if their verifiers may not run or their service is away."""
    folder = settings.out / definition.name / "prompts"
    place = settings.places.get(definition.name)
    prompts = data.prepare(definition, folder, place, settings.limit)
    golds = prompt_rewards.check(prompts, verifier=None, allow_code=settings.allow_code)
    rewards.require_services(golds.parts)
    return prompts


def _prepare(definition: Definition, prompts: Shards, settings: Settings) -> Prepared:
    folder = settings.out / definition.name
    out = folder / "rollouts"
    engine = settings.given.get("engine") or ""
    policy, of_policy = which.to_sample(prompts, settings.model, out, engine)
    begun = Begun(out, but=("memory_model", "mu", "dlc_min_prob"))
    chosen, capped = _options(definition, policy, settings.given, begun, out)
    selection = Selection(**begun.values(seed=settings.seed))
    rollout_options.check(chosen, selection)
    chosen, of_engine = rollout_options.settle(
        chosen, policy, prompts.rows, 1, out=out, of=[prompts]
    )
    of_prompts = rollout_remarks.prompt_remarks(chosen, policy, prompts, selection, out=out)
    warning = [definition.warning] if definition.warning else []
    remarks = [*warning, *of_policy, *capped, *of_engine, *of_prompts]
    return Prepared(definition, folder, prompts, policy, chosen, selection, remarks)


def _options(
    definition: Definition, policy: Policy, given: dict[str, Any], begun: Begun, out: Path
) -> tuple[RolloutOptions, list[str]]:
    """The sampling options: those given, else those it was begun with, else the benchmark's.

    And what there is to say of it.
    """
    remarks: list[str] = []
    own, stored = dict(definition.rollout), begun_with(out)
    if begun.exists:
        meant = vars(prompt_options.resolved(config.make(RolloutOptions, own)))
        kept = {n: value for n, value in own.items() if stored.get(n) == meant[n]}
        options = begun.options(RolloutOptions, _over(kept, given))
    else:
        wanted = own.get("max_new_tokens", 0)
        if given.get("max_new_tokens") is None and wanted and not policy.is_served:
            context = policies.context_length(policy)
            own["max_new_tokens"] = min(wanted, max(context - _ROOM, context // 2))
            if own["max_new_tokens"] < wanted:
                remarks.append(
                    f"at most {own['max_new_tokens']} new tokens, not {wanted}, as "
                    f"`{policy.name}` has a context of {context}"
                )
        options = config.make(RolloutOptions, _over(own, given))
    if options.temperature == 0 and options.num_generations > 1:
        raise UsageError(
            f"`{definition.name}` is measured at temperature 0, which gives "
            f"{options.num_generations} times the same completion",
            "add `--temperature 0.6`, or take one completion with `-n 1`",
        )
    return options, remarks


def _over(own: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    return {n: own.get(n) if value is None else value for n, value in given.items()}


def _memory(one: Prepared) -> Policy | None:
    return memory_model.chosen(one.options, one.policy, one.folder, one.selection.seed)


def _measured(
    one: Prepared,
    settings: Settings,
    engine: Callable[[Prepared], RolloutEngine],
    scorer: Scorer,
) -> Measured:
    name, out = one.definition.name, one.folder
    stages = [console.Parts(f"{name}: {stage}", 1) for stage in ("passk", "ucc")]
    parts = -(-one.prompts.rows // one.options.prompts_per_part)
    with console.Parts(f"{name}: rollout", parts) as sampled:
        rollouts = rollout.run(
            one.prompts, out / "rollouts", one.policy, one.options, one.selection, _memory(one),
            engine=lambda: engine(one), on_part=sampled,
        )  # fmt: skip
    assert rollouts is not None, "all parts are of this share"
    if _is_new(sampled):
        console.finish(sampled, out / "rollouts", rollouts,
                       **rollout_remarks.conclusion(one.options, rollouts))  # fmt: skip
    score.discard_failed(out / "scores", settings.max_error_rate)
    with console.Parts(f"{name}: score", parts, rollouts.rows, "completions") as verified:
        scores = score.run(
            rollouts, out / "scores", allow_code=settings.allow_code, with_scorer=scorer,
            on_part=verified, on_rows=verified.advance,
            on_failure=lambda text: console.remark(f"{name}: score", text),
        )  # fmt: skip
    assert scores is not None, "all parts are of this share"
    if _is_new(verified):
        console.finish(verified, out / "scores", scores, score.SUMMARY,
                       remarks=[*unanswered.remarks(scores, rollouts)])  # fmt: skip
    score.check_error_rate(scores, settings.max_error_rate)
    passed, unique = _evaluate(scores, out, *stages)
    is_new = any(map(_is_new, (sampled, verified, *stages)))
    return Measured(name, out, _figures(one, rollouts, scores, passed, unique), is_new)


def _is_new(parts: console.Parts) -> bool:
    return parts.counts["written"] + parts.counts["rewritten"] > 0


def _evaluate(
    scores: Shards, out: Path, passk: console.Parts, ucc: console.Parts
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The summaries of Pass@k and Maj@k, and of UCC@k; measured unless they are there."""
    paths = [out / "passk", out / "ucc"]
    if all((path / MANIFEST).exists() for path in paths):
        there = [Shards.open(path, "metrics") for path in paths]
        if all(digests(one.manifest, "scores") == [scores.digest] for one in there):
            return there[0].summary, there[1].summary
    tallied = pass_at_k.of_scores(scores, texts=True)
    ks = pass_at_k.default_ks(tallied)
    judge = voting.equality_judge(
        tallied, scores, None, voting.deciding(tallied, max(ks, default=0))
    )
    tallied, majority = judge.count()
    measures = pass_at_k.outcome_measures(tallied, ks)
    params = {"k": ks} | ({"equality": majority["equality"]} if majority else {})
    written = metric_shards.write(paths[0], "eval-passk", scores, tallied, measures, params, passk)
    how: dict[str, Any] = {"linkage": "single", "similarity": "tfidf"}
    clusterings = clustering.of_tally(tallied, thresholds=[THRESHOLD], **how)
    measures = pass_at_k.sweep_measures(tallied, ks, clusterings, [THRESHOLD])
    params = {"k": ks, "threshold": THRESHOLD, **how}
    unique = metric_shards.write(paths[1], "ucc", scores, tallied, measures, params, ucc)
    assert written and unique, "both have a directory"
    return written.summary, unique.summary


def _figures(
    one: Prepared,
    rollouts: Shards,
    scores: Shards,
    passed: dict[str, Any],
    unique: dict[str, Any],
) -> dict[str, Any]:
    """One line of the table; each metric is [mean, low, high]."""
    n = passed["n"][0]
    metrics = {**passed["metrics"], **unique["metrics"]}
    methods = {**passed["interval"], **unique["interval"]}
    names = dict.fromkeys(["pass@1", f"pass@{n}", f"maj@{n}", f"ucc@{n}"])
    return {
        "prompts": one.prompts.rows,
        "of": one.prompts.summary.get("of", one.prompts.rows),
        "n": n,
        "metrics": {name: metrics[name] for name in names if name in metrics},
        "interval": {name: methods[name] for name in names if name in metrics},
        "truncated": rollouts.summary["cut"] / max(rollouts.rows, 1),
        "unanswered": unanswered.share(scores),
        "excluded": passed["excluded"],
        "left_out": len(passed["left_out"]),
        "model": one.policy.name,
        "temperature": one.options.temperature,
        "top_p": one.options.top_p,
        "max_new_tokens": one.options.max_new_tokens,
        "licence": one.definition.licence,
        "scores": str(scores.path),
    }
