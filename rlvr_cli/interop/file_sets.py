"""Decides whether several files are parts of one set of completions, or one set each."""

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from rlvr_cli.interop import parquet_columns

# NeMo-Skills writes a file for each seed, output-rs0.jsonl and on: the samples of one prompt.
_SAMPLES = re.compile(r"-rs\d+(?=\.)")


def are_apart(files: Sequence[Path], batches: Callable[[Path], Iterable[Any]]) -> bool:
    """Whether a prompt occurs in two of the files, as it does in those of several steps or runs.

    Files that number samples may have the same prompts with other samples, and files whose names
    count samples the same prompts. `batches` reads the ids, sources and samples of a file.
    """
    if len(files) < 2 or _name_samples(files):
        return False
    prompts: dict[Any, int] = {}
    samples: dict[Any, int] = {}
    for number, file in enumerate(files):
        for batch in batches(file):
            keys, key_N = parquet_columns.keys(batch.source, batch.prompt_id)
            if batch.sample is None:
                if any(prompts.setdefault(key, number) != number for key in keys):
                    return True
                continue
            for index, sample in zip(key_N.tolist(), batch.sample.tolist(), strict=True):
                key = keys[index]
                shared = prompts.setdefault(key, number) != number
                if sample != sample:
                    if shared:
                        return True
                elif samples.setdefault((key, sample), number) != number:
                    return True
    return False


def _name_samples(files: Sequence[Path]) -> bool:
    names = {str(file.parent / _SAMPLES.sub("", file.name)) for file in files}
    return len(names) == 1 and all(_SAMPLES.search(file.name) for file in files)


def labels(files: Sequence[Path]) -> dict[Path, str]:
    """A name for each file: the shortest ends of their paths that differ, without endings."""
    parts = {file: (*file.parts[:-1], _stem(file.name)) for file in files}
    deepest = max(map(len, parts.values()))
    for depth in range(1, deepest + 1):
        named = {file: "/".join(own[-depth:]) for file, own in parts.items()}
        if len(set(named.values())) == len(files):
            return named
    return {file: str(file) for file in files}


def _stem(name: str) -> str:
    """A file's name without the endings of a table; dots within it stay."""
    return re.sub(r"(\.(jsonl|json|parquet|csv|gz|zst))+$", "", name)
