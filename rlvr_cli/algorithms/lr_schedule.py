"""The learning rate of each optimizer update."""

import math

from rlvr_cli.config import UpdateOptions
from rlvr_cli.errors import UsageError


def rate(options: UpdateOptions, update: int) -> float:
    """The learning rate of an update, counted from 0 over the policy's complete training.

        update < W:   rate = learning_rate (update + 1) / W
        then:         rate = learning_rate (m + (1 - m) fall(x)),
                      x = (update - W) / (D - W), 1 at most

    W is `warmup_updates`, D `decay_updates`, m `min_rate`; fall(x) is 1 (constant), 1 - x (linear)
    or (1 + cos(pi x)) / 2 (cosine). The last update of the warm-up and the one after it have the
    full rate; update D, the one after the first D, is the first of m times it.
    """
    warmup = options.warmup_updates
    if update < warmup:
        return options.learning_rate * (update + 1) / warmup
    if options.schedule == "constant":
        return options.learning_rate
    share = min(1.0, (update - warmup) / (options.decay_updates - warmup))
    fall = 1 - share if options.schedule == "linear" else (1 + math.cos(math.pi * share)) / 2
    return options.learning_rate * (options.min_rate + (1 - options.min_rate) * fall)


def check(options: UpdateOptions) -> None:
    """Refuses a decay without an end, or an end without a decay."""
    given = f"--schedule is {options.schedule}, --decay-updates is {options.decay_updates}"
    if options.schedule == "constant":
        if options.decay_updates or options.min_rate:
            raise UsageError(
                f"{given}, --min-rate is {options.min_rate}: a constant rate does not fall",
                "leave both out, or choose --schedule linear or cosine",
            )
    elif options.decay_updates <= options.warmup_updates:
        raise UsageError(
            f"{given}, --warmup-updates is {options.warmup_updates}",
            "set --decay-updates to more than those of the warm-up: the number of updates after "
            "which the rate has fallen",
        )
