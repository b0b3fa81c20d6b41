"""The share of a directory's parts that one of several processes makes."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlvr_cli.errors import UsageError


@dataclass(frozen=True)
class Share:
    """Which parts a process begins with: those whose index is `index` modulo `count`.

    A process whose share is not `fixed` continues with the parts of others. Without `waits` it does
    not wait for parts that others hold, even if its share is all parts.
    """

    index: int = 0
    count: int = 1
    fixed: bool = False
    waits: bool = True

    @staticmethod
    def of_process(rank: int, size: int) -> "Share":
        """That of a process started together with the others; it takes no part of theirs."""
        return Share(rank, size, fixed=True)

    def of(self, parts: int) -> range:
        """The indices of this share among so many parts."""
        return range(self.index, parts, self.count)

    def others(self, parts: int) -> Iterator[int]:
        """Those that follow; of each other share those first that its process comes to last."""
        for further in range(1, 1 if self.fixed else self.count):
            yield from reversed(range((self.index + further) % self.count, parts, self.count))

    @staticmethod
    def parse(text: str) -> "Share":
        index, _, count = text.partition("/")
        if not (index.isdecimal() and count.isdecimal() and int(index) < int(count)):
            raise UsageError(f"--shard is `{text}`", "write i/n with i from 0 to n-1, as in 0/4")
        return Share(int(index), int(count))


ALL_PARTS = Share()
