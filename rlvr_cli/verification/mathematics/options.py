"""What the options of `math` decide; docs/verifiers/math.md has a table."""

from dataclasses import dataclass
from typing import Literal

Choice = Literal["lenient", "strict"]
Units = Literal["lenient", "strict", "convert"]


@dataclass(frozen=True)
class Options:
    percent: Choice
    units: Units
    base: Choice
    degrees: Choice
    intervals: Choice
    sets: Choice
    matrices: Choice
    equations: Choice
    integers: Choice
    tolerance: float
    max_length: int
    unanchored: bool
