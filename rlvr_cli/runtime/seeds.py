"""Seeds that depend on what a row is, never on where or when it is sampled."""

import hashlib
from collections.abc import Callable


def derive(*parts: int | str) -> int:
    """A seed in [0, 2^63) from the parts that name what it is for."""
    text = "\x1f".join(f"{type(p).__name__}:{p}" for p in parts)
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def deriving(*parts: int | str) -> Callable[[str], int]:
    """`derive` of these parts and a last one, faster for many."""
    text = "\x1f".join([*(f"{type(p).__name__}:{p}" for p in parts), "str:"])
    begun = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8)

    def derived(last: str) -> int:
        digest = begun.copy()
        digest.update(last.encode("utf-8", "surrogatepass"))
        return int.from_bytes(digest.digest(), "big") >> 1

    return derived


def row_seed(run_seed: int, step: int, prompt_id: str, sample_index: int) -> int:
    """The seed of one completion, so that topping up or re-sharding never repeats a sample."""
    return derive("row", run_seed, step, prompt_id, sample_index)
