"""Which runs a comparison has, and in which order.

A cell is one run: an objective at a learning rate with a seed. It is done if its record is there.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

TUNE_SEED = 100
START = "start"  # no objective: the policy that all start from
# The smallest question first: GRPO against the method of each paper, then what these were compared
# with, then their variants, then the papers' ablations.
TIERS = (
    ("grpo", "quatro:delta=0.1", "apo", "apmpo", "grpo+iac", "grpo+negative-only"),
    (
        "dapo", "gspo:clip_low=0.2,clip_high=0.2", "gmpo", "dr-grpo", "rloo", "reinforce-pp",
        "cispo", "gpg", "nsr", "grpo+kl:beta=0.01",
    ),
    (
        "grpo+iac+dlc", "dapo+iac", "psr", "w-reinforce", "gspo", "gspo+negative-only",
        "quatro:delta=0.01", "quatro:delta=0.001",
    ),
    (
        "apo:k=4", "apo:beta=0", "apo:lam=1", "apmpo:gamma=0.4", "grpo+iac:alpha=0.5",
        "dapo+iac+dlc",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """What all runs of a comparison have in common. `tokens`: how many completion tokens a run
    samples, by which its last steps are chosen; 0: as many as its steps have."""

    task: str
    start: str  # the digest of its adapters, or of the model where there are none
    steps: int = 60
    prompts_per_step: int = 64
    generations: int = 16
    mini_batch: int = 16
    max_new_tokens: int = 32
    tokens: int = 0
    train_prompts: int = 4000
    held_out: int = 200  # prompts to tune on, and as many to test on
    samples: int = 256
    eval_every: int = 20  # steps; the last one is always evaluated

    @property
    def digest(self) -> str:
        return _digest(asdict(self))


@dataclass(frozen=True)
class Cell:
    spec: str
    rate: float
    seed: int
    split: str  # what is evaluated on: tune, or test

    def key(self, setting: Setting) -> str:
        """The name of its file."""
        spec = "".join(c if c.isalnum() else "-" for c in self.spec)
        name = f"{self.split}-{spec}-{self.rate:g}-{self.seed}"
        return f"{name}-{_digest([setting.digest, asdict(self)])}"


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]


def ordered(
    specs: list[str], seeds: list[int], rates: list[float], default: float, done: dict[Cell, dict]
) -> list[Cell]:
    """All cells of some objectives, but for tuned runs of one that is not tuned yet.

    Those at the default rate come first, as they answer a question alone; then the search for the
    rate of each, from the default outwards; then the tuned ones. In each part GRPO's runs come
    before the others, which branch from them.
    """
    near = sorted(rates, key=lambda rate: (abs(rates.index(rate) - rates.index(default)), rate))
    best = {spec: tuned(spec, rates, done) for spec in specs}
    parts = (
        [Cell(spec, default, seed, "test") for seed in seeds for spec in specs],
        [Cell(spec, rate, TUNE_SEED, "tune") for rate in near for spec in specs],
        [Cell(spec, rate, seed, "test") for seed in seeds for spec, rate in best.items() if rate],
    )
    cells = [Cell(START, 0.0, seeds[0], "test")]
    for part in parts:
        cells += sorted(part, key=lambda cell: cell.spec != "grpo")
    return list(dict.fromkeys(cells))


def tuned(spec: str, rates: list[float], done: dict[Cell, dict]) -> float | None:
    """The rate with the highest Pass@1 on the prompts to tune on; None until all were tried."""
    found = {rate: done.get(Cell(spec, rate, TUNE_SEED, "tune")) for rate in rates}
    if any(record is None for record in found.values()):
        return None
    return max(rates, key=lambda rate: last(found[rate] or {}, "pass@1"))


def last(record: dict, name: str) -> float:
    """A held-out metric of a run at its end, at 16 completions a prompt."""
    return float(record["evals"][-1]["eval"][name][0])


def read(paths: list[Path], setting: Setting | None = None) -> list[dict]:
    """The records of cells in JSON files and JSON lines, each once, of one setting if given."""
    records: dict[str, dict] = {}
    for path in paths:
        for line in path.read_text().splitlines():
            record = json.loads(line)
            if "key" in record and (setting is None or record["setting"] == asdict(setting)):
                records[record["key"]] = record
    return list(records.values())


def by_cell(records: list[dict]) -> dict[Cell, dict]:
    names = Cell.__dataclass_fields__
    return {Cell(**{name: record[name] for name in names}): record for record in records}
