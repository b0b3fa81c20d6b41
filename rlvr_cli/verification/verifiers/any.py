"""Right if any of several verifiers says so; the reward is the highest of theirs."""

from rlvr_cli.protocols import Equality
from rlvr_cli.verification.scoring.joins import Golds, Joined

EQUALITY: Equality = "text"


def build(*, of: tuple[str, ...] = (), golds: Golds = "shared") -> Joined:
    """The verifiers of `of`, which all read the same completion; `golds` each: gold i for part i.

    Golds for each are those of a JSON list.
    """
    if not of:
        raise ValueError("it names no verifiers: write them as in any:of=[math,format]")
    return Joined("any", of, golds)
