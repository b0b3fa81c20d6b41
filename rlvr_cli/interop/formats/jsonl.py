"""JSON lines, one completion each, with everything known about it."""

from collections.abc import Callable, Iterable, Iterator

from rlvr_cli.interop.formats._common import Row, with_urls

SUFFIX = ".jsonl"
KEEPS_IMAGES = True


def recognises(names: set[str]) -> bool:
    """Nothing: plain rows are read by their columns' names."""
    return False


def reader(file: str) -> Callable[[Row], list[Row]]:
    return lambda row: [row]


def write(groups: Iterable[Row]) -> Iterator[Row]:
    for group in groups:
        left_out = ("completions", "images")  # which are parts of the messages
        shared = {name: value for name, value in group.items() if name not in left_out}
        shared["messages"] = with_urls(group["messages"], group.get("images") or ())
        if not group["completions"]:
            yield shared
        for completion in group["completions"]:
            yield {**shared, **completion}
