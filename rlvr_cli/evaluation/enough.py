"""Prompts with enough completions for a k, and what becomes of those with fewer."""

from collections.abc import Sequence

import numpy as np

from rlvr_cli.errors import DataError
from rlvr_cli.evaluation.pairing import counted_few
from rlvr_cli.evaluation.tallies import Tally, with_verdicts


def default_ks(tallied: Tally) -> list[int]:
    """The powers of two up to the smallest n, and that n."""
    smallest = int(tallied.n_P.min()) if len(tallied.n_P) else 0
    return sorted(
        {2**i for i in range(smallest.bit_length()) if 2**i <= smallest} | {smallest} - {0}
    )


def chosen(
    tallied: Tally, min_n: int, ks: Sequence[int], metric: str = "pass"
) -> tuple[Tally, list[int]]:
    """The prompts `with_at_least` so many completions, and the k that were given, or the default
    ones; an error for a k that a prompt has too few for."""
    tallied = with_at_least(tallied, min_n)
    require_ks(tallied.n_P, ks, metric)
    return tallied, list(ks) or default_ks(tallied)


def with_at_least(tallied: Tally, n: int, where: object = None) -> Tally:
    """The prompts that have n completions with a verdict; an error if there are none."""
    most = int(tallied.n_P.max(initial=0))
    if n > most > 0:
        whose = f" of `{where}`" if where else ""
        raise DataError(
            f"no prompt{whose} has {n} completions with a verdict, the most is {most}",
            f"use `--min-n` up to {most}",
        )
    return with_verdicts(tallied, n) if n > 1 else tallied


def require_ks(n_P: np.ndarray, ks: Sequence[int], metric: str = "pass") -> None:
    """An error for a k above the smallest n; its hint names the --min-n that allows it."""
    largest = max(ks, default=0)
    fewer = int((n_P < largest).sum())
    if not fewer:
        return
    smallest, prompts = int(n_P.min()), len(n_P)
    otherwise = ""
    if fewer < prompts:
        otherwise = f", or leave out the {fewer:,} of {prompts:,} prompts with fewer: "
        otherwise += f"--min-n {largest}"
    raise DataError(
        f"`{metric}@{largest}` needs {largest} completions of every prompt, but the smallest "
        f"number is {smallest}",
        f"use `--k` up to {smallest}{otherwise}",
    )


def short(tallied: Tally, name: str) -> str:
    """Which prompts were left out for `--min-n`, the first few by name; nothing if none were."""
    if tallied.least < 2 or not (ids := tallied.left_out):
        return ""
    prompts = "prompt" if len(ids) == 1 else "prompts"
    return counted_few(f"{prompts} of `{name}` {left_out_for(tallied)} left out", ids)


def left_out_for(tallied: Tally) -> str:
    """What the prompts that are left out have too few of."""
    if tallied.least < 2:
        return "without any verdict"
    return f"with fewer than {tallied.least} verdicts"


def params(min_n: int) -> dict[str, int]:
    """What `--min-n` adds to the params of a metrics directory: nothing where all prompts count."""
    return {"min_n": min_n} if min_n > 1 else {}
