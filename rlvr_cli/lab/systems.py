"""The papers' small systems: a few actions, their rewards, and what the policy sees.

Shapes: A actions, D features. A policy is a table of weights [A, D]; its logits are the weights
times the features of a query.
"""

import math
from dataclasses import dataclass

from rlvr_cli.errors import UsageError

Floats = tuple[float, ...]


@dataclass(frozen=True)
class System:
    """Actions with their rewards, features of the queries, and the weights to start from.

    The first query is the trained one, the others are held out. An action is correct if its
    reward is above 0. The reference policy is the start, unless `reference` has its weights.
    """

    name: str
    actions: tuple[str, ...]
    reward: Floats
    queries: dict[str, Floats]
    start: tuple[Floats, ...]
    reference: tuple[Floats, ...] | None = None

    @property
    def correct(self) -> tuple[bool, ...]:
        return tuple(reward > 0 for reward in self.reward)


_FEATURES: dict[str, Floats] = {
    "cat": (0.5, 0.5, 0.5, 0.1),
    "dog": (0.1, 0.1, 0.1, 0.9),
    "persian": (0.75, 0.5, 0.25, 0.1),
    "siamese": (0.25, 0.5, 0.75, 0.1),
}
# Features of the held-out class, by its similarity to the trained one.
SIAMESE: dict[str, Floats] = {
    "high": _FEATURES["siamese"],
    "mid": (0.1, 0.5, 0.9, 0.1),
    "low": (0.0, 0.5, 1.0, 0.1),
}
INITS = ("uniform", "embeddings")


def classes(init: str = "uniform") -> System:
    """Cat, Dog, Persian and Siamese; Persian is trained, Cat and Persian are right.

    Siamese is held out at three similarities. The start is not published: weights of 0, or each
    class's own features. (When Sharpening Becomes Collapse, sec. 2.4 and G)
    """
    if init not in INITS:
        raise UsageError(f"--init is `{init}`", f"write one of {', '.join(INITS)}")
    zero = (0.0,) * 4
    return System(
        name=f"classes:{init}",
        actions=tuple(_FEATURES),
        reward=(1.0, 0.0, 1.0, 0.0),
        queries={"persian": _FEATURES["persian"]}
        | {f"siamese-{name}": features for name, features in SIAMESE.items()},
        start=tuple(_FEATURES.values()) if init == "embeddings" else (zero,) * 4,
    )


def bandit(rewards: Floats, initial: Floats, reference: Floats | None = None) -> System:
    """Actions a1, a2 ... of one query, by their rewards and initial probabilities.

    (Two-stage, arXiv:2510.04028, sec. 3.2 and C.4)
    """
    for name, given in {"initial": initial, "reference": reference}.items():
        if given is None:
            continue
        if len(given) != len(rewards):
            raise UsageError(
                f"{len(rewards)} rewards, but {len(given)} {name} probabilities",
                f"give one of each to every action, as in --rewards 0.5,1,0 --{name} 0.6,0.05,0.35",
            )
        if not (min(given) > 0 and math.isclose(sum(given), 1, abs_tol=1e-6)):
            raise UsageError(
                f"the {name} probabilities are {_words(given)}",
                "they must be above 0 and sum to 1",
            )
    logits = tuple((math.log(p),) for p in initial)
    return System(
        name=f"bandit:{_words(rewards)}:{_words(initial)}:{_words(reference or initial)}",
        actions=tuple(f"a{index + 1}" for index in range(len(rewards))),
        reward=rewards,
        queries={"": (1.0,)},
        start=logits,
        reference=None if reference is None else tuple((math.log(p),) for p in reference),
    )


def _words(values: Floats) -> str:
    return ",".join(f"{value:g}" for value in values)
