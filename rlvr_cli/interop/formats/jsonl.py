"""JSON lines, one completion each, with all that is known of it."""

from collections.abc import Callable, Iterable, Iterator

from rlvr_cli.interop.formats._common import Row

SUFFIX = ".jsonl"


def recognises(names: set[str]) -> bool:
    """Nothing: plain rows are read by their columns' names."""
    return False


def reader(file: str) -> Callable[[Row], list[Row]]:
    return lambda row: [row]


def write(groups: Iterable[Row]) -> Iterator[Row]:
    for group in groups:
        shared = {name: value for name, value in group.items() if name != "completions"}
        if not group["completions"]:
            yield shared
        for completion in group["completions"]:
            yield {**shared, **completion}
