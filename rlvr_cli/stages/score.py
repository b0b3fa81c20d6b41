"""The stage that verifies completions."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from rlvr_cli.errors import DataError, TooManyErrors
from rlvr_cli.protocols import FAULTS
from rlvr_cli.runtime import cores, distributed
from rlvr_cli.stages import common, prompt_rewards
from rlvr_cli.stages.prompt_rewards import PromptRewards
from rlvr_cli.stages.verdicts import Judge, Scored
from rlvr_cli.storage import atomic, schema
from rlvr_cli.storage.begun import begun_with
from rlvr_cli.storage.plan import Plan
from rlvr_cli.storage.shards import MANIFEST, Shards
from rlvr_cli.storage.share import ALL_PARTS, Share
from rlvr_cli.storage.writer import OnPart, PartQueue, write_shards_streaming
from rlvr_cli.verification.parsing import thoughts
from rlvr_cli.verification.sandbox import launch
from rlvr_cli.verification.scoring import rewards
from rlvr_cli.verification.scoring.cache import Cache, default_path
from rlvr_cli.verification.scoring.scorer import Scorer

EARLIER_ANSWERS = thoughts.NONE  # where directories that say nothing took answers from
SUMMARY = (
    "{completions:completion}, mean reward {reward:.4g}, {missing} without a reward; "
    "status: {status}"
)
ROWS_AT_ONCE = 8192  # parts are verified together up to so many rows, so that no worker waits


@dataclass(frozen=True)
class Verification:
    """How completions are verified: by each prompt's verifier or by one, and with what."""

    verifier: str | None = None
    answer_from: str | None = None
    allow_code: bool = False
    scorer: Scorer | None = None
    on_failure: Callable[[str], None] = lambda text: None

    def run(self, rollouts: Shards, out: Path, share: Share = ALL_PARTS) -> Shards | None:
        return run(
            rollouts, out, verifier=self.verifier, answer_from=self.answer_from, share=share,
            allow_code=self.allow_code, with_scorer=self.scorer, on_failure=self.on_failure,
        )  # fmt: skip


def scorer(
    *,
    workers: int | None = None,
    cache: Path | None = None,
    use_cache: bool = True,
    sandbox: str | None = None,
) -> Scorer:
    """The scorer: a process for each core of this one's share, and the stored verdicts."""
    share = cores.available() // distributed.current().size
    stored = Cache(cache or default_path()) if use_cache else None
    environment = {launch.VARIABLE: sandbox} if sandbox else {}
    return Scorer(workers=workers or max(1, share), cache=stored, environment=environment)


def sandbox(*, unsafe: bool) -> str:
    """The kind of sandbox that programs run in here; an error if there is none."""
    return launch.choose(unsafe=unsafe)


def isolation(sandbox: str | None) -> list[str]:
    """How programs are isolated here, in words; nothing where none are run."""
    return [f"programs run in this sandbox: {launch.described(sandbox)}"] if sandbox else []


def run(
    rollouts: Shards,
    out: Path,
    *,
    verifier: str | None = None,
    prompts: Path | None = None,
    share: Share = ALL_PARTS,
    with_scorer: Scorer | None = None,
    allow_code: bool = False,
    answer_from: str | None = None,
    on_part: OnPart = lambda index, state: None,
    on_rows: Callable[[int], None] = lambda count: None,
    on_failure: Callable[[str], None] = lambda text: None,
) -> Shards | None:
    """A scores directory: one verdict a completion, by each prompt's verifier or the one given.

    A fault of the verifier is a status with a null reward, never a 0. Where a reward has several
    parts, each has a column. `answer_from` marks where a completion's answer begins. `on_rows`
    is called with the number of rows that got their verdict, `on_failure` with each verifier's
    first error.
    """
    begun = begun_with(out)
    stored = begun.get("verifier")
    spec = None if verifier is None else rewards.canonical(verifier, stored)
    answer_from = answer_from or markers_of(begun)
    golds = _golds(rollouts, prompts, spec, allow_code=allow_code)
    columns = tuple(dict.fromkeys(name for one in golds for name in one.columns))
    markers = thoughts.read(answer_from)
    judges = {id(one): Judge(one, markers, on_rows, on_failure) for one in golds}

    def make(queue: PartQueue, asked: Scorer) -> Iterator[tuple[int, pa.Table]]:
        for indices in _batches(rollouts, queue):
            job = judges[id(golds[rollouts.input_of(indices[0])])]
            tables = [rollouts.part(index) for index in indices]
            names = [*_READ, "token_ids"] if job.reads_tokens else _READ
            rows = pa.concat_tables(t.select(names) for t in tables).to_pylist()
            verdicts = job.verdicts(rows, asked)
            start = 0
            for index, table in zip(indices, tables, strict=True):
                part = verdicts[start : start + table.num_rows]
                start += table.num_rows
                yield index, common.add_input(_table(table, part, columns), rollouts, index)

    def make_with(queue: PartQueue) -> Iterator[tuple[int, pa.Table]]:
        if with_scorer is not None:
            yield from make(queue, with_scorer)
            return
        with scorer() as own:
            yield from make(queue, own)

    return write_shards_streaming(
        out,
        _plan(rollouts, golds, columns, spec, answer_from),
        make_with,
        share=share,
        summarise=summarise,
        on_part=on_part,
    )


def check(
    rollouts: Shards, prompts: Path | None, verifier: str | None, *, allow_code: bool
) -> None:
    """Refuses what `run` would refuse of the prompts and their verifiers; verifies nothing."""
    for one in _golds(rollouts, prompts, verifier, allow_code=allow_code):
        rewards.require_services(one.parts)


def _golds(
    rollouts: Shards, prompts: Path | None, verifier: str | None, *, allow_code: bool
) -> list[PromptRewards]:
    """What the completions of each input are verified with: by the prompts of that input."""
    known: dict[str, PromptRewards] = {}
    golds = []
    for one in rollouts.inputs:
        parent = one.parent("prompts", prompts)
        if parent.digest not in known:
            rewards_of = prompt_rewards.check(parent, verifier=verifier, allow_code=allow_code)
            known[parent.digest] = rewards_of
        golds.append(known[parent.digest])
        if golds[-1].needs_tokens:
            common.require_tokens(one, one.part(0))
    return golds


def markers_of(begun: dict[str, Any]) -> str:
    """Where a directory takes answers from that was begun with these params, if with any."""
    return str(begun.get("answer_from", EARLIER_ANSWERS)) if begun else thoughts.DEFAULT


def _plan(
    rollouts: Shards,
    golds: list[PromptRewards],
    columns: tuple[str, ...],
    spec: str | None,
    answer_from: str,
) -> Plan:
    params: dict[str, Any] = {"verifier": spec and rewards.identity(spec)}
    if answer_from != EARLIER_ANSWERS:
        params["answer_from"] = answer_from
    if files := {name: sha256 for one in golds for name, sha256 in one.files.items()}:
        params["files"] = files
    return Plan(
        "scores",
        "score",
        params,
        {"rollouts": rollouts},
        len(rollouts),
        extra=columns,
        only=common.only_with_input("scores", rollouts),
        earlier={"answer_from": EARLIER_ANSWERS},
        specs={
            "verifier": meaning,
            "files": lambda kept: {meaning(s): v for s, v in kept.items()},
        },
        optional=("files", "answer_from"),
        behaviour={name: version for one in golds for name, version in one.versions.items()},
    )


def meaning(spec: str) -> str:
    """A stored spec with all options of this version."""
    return rewards.identity(rewards.canonical(spec, spec))


_READ = ["prompt_id", "sample_index", "completion", "finish_reason"]


def _batches(rollouts: Shards, indices: Iterator[int]) -> Iterator[list[int]]:
    """Parts of one input in order, as many at once as hold ROWS_AT_ONCE rows."""
    batch: list[int] = []
    rows = 0
    for index in indices:
        if batch and rollouts.input_of(batch[0]) != rollouts.input_of(index):
            yield batch
            batch, rows = [], 0
        batch.append(index)
        rows += rollouts.manifest["parts"][index]["rows"]
        if rows >= ROWS_AT_ONCE:
            yield batch
            batch, rows = [], 0
    if batch:
        yield batch


def _table(rows: pa.Table, scored: list[Scored | None], columns: tuple[str, ...]) -> pa.Table:
    verdicts = [s and rewards.combine(*s) for s in scored]
    table = {
        "prompt_id": rows["prompt_id"],
        "sample_index": rows["sample_index"],
        "reward": [v and v.reward for v in verdicts],
        "correct": [v and v.correct for v in verdicts],
        "extracted": [v and _storable(v.extracted) for v in verdicts],
        "reason": [v and _storable(v.reason) for v in verdicts],
        "status": [v.status if v else "aborted" for v in verdicts],
    }
    for column in columns:
        table[column] = [
            None
            if s is None
            else next((v.reward for p, v in zip(*s, strict=True) if p.column == column), None)
            for s in scored
        ]
    return pa.table(table, schema.schema("scores", columns))


def _storable(text: str | None) -> str | None:
    """The text with lone surrogates, which are no UTF-8, as question marks."""
    if text is None or text.isascii():
        return text
    return text.encode(errors="replace").decode()


def summarise(scores: Shards) -> dict[str, Any]:
    """Counts by status, the mean reward and the share of correct completions."""
    status: Counter[str] = Counter()
    sums: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for table in scores.parts():
        status.update(table["status"].to_pylist())
        for name in ("reward", "correct"):
            values = [value for value in table[name].to_pylist() if value is not None]
            sums[name] += sum(values)
            counts[name] += len(values)
    means = {name: sums[name] / count if count else None for name, count in counts.items()}
    return {
        "completions": scores.rows,
        "status": dict(sorted(status.items())),
        "reward": means.get("reward"),
        "correct": means.get("correct"),
        "missing": scores.rows - counts["reward"],
    }


def discard_failed(out: Path, limit: float) -> None:
    """Removes scores on which the verifier failed too often, so that they are verified again."""
    if (out / MANIFEST).exists() and _error_rate(Shards.open(out, "scores"))[1] > limit:
        atomic.remove(out)


def _error_rate(scores: Shards) -> tuple[dict[str, int], float]:
    """The faults of the verifier by their status, and the share of rows without reward for them.

    What exceeds a limit has a reward where the verifier says `exceeding=wrong`.
    """
    status = scores.summary["status"]
    faults: dict[str, int] = {str(name): status[name] for name in FAULTS if name in status}
    others = sum(status.get(name, 0) for name in ("skipped", "aborted"))
    missing = min(sum(faults.values()), scores.summary["missing"] - others)
    return faults, missing / max(scores.rows, 1)


def _are_imported(scores: Shards) -> bool:
    """Whether another tool sampled the completions, whose file may have no golds."""
    try:
        return bool(scores.parent("rollouts").manifest["stage"] == "import")
    except (DataError, LookupError):
        return False


def check_error_rate(scores: Shards, limit: float) -> None:
    """An error if the verifier failed on a larger share of the rows than the limit."""
    faults, rate = _error_rate(scores)
    if rate > limit:
        listed = ", ".join(f"{count} {name}" for name, count in faults.items())
        hint = "the same command asks it again; allow more with --max-error-rate"
        if set(faults) == {"bad_gold"}:
            hint = (
                "`rlvr doctor PROMPTS` lists such golds: correct them, or name the verifier that "
                "reads them; allow more with --max-error-rate"
            )
            if rate == 1 and _are_imported(scores):
                hint = f"`rlvr import FILE --prompts PROMPTS` takes those of prompts; {hint}"
        elif set(faults) <= {"timeout", "oom"}:
            hint = (
                "the same command asks it again; with `exceeding=wrong`, an option of code and sql,"
                " such answers are wrong; allow more with --max-error-rate"
            )
        raise TooManyErrors(
            f"`{scores.path}` is done, but the verifier failed on {rate:.1%} of its rows: {listed}",
            hint,
        )
