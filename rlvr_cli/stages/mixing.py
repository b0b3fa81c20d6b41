"""Prompts of several sources in one directory, in given shares.

    taken_i = floor(w_i * min over j of n_j / w_j)

of the n_i prompts of a source with weight w_i: the shares are those of the weights, and the source
that is scarcest for its weight is taken completely. Without weights all prompts are taken.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from rlvr_cli.config import ImageOptions
from rlvr_cli.errors import UsageError
from rlvr_cli.runtime import seeds
from rlvr_cli.stages import overlap, prompts
from rlvr_cli.stages.reading import Source
from rlvr_cli.terminal import plural

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Prepared:
    """What is read from each source: the options of `prompts.load`."""

    split: str | None
    verifier: str | None
    columns: dict[str, str | None]
    layout: str | None
    drop_unusable: bool
    drop_answer_turn: bool
    limit: int | None
    skip: int
    images: ImageOptions = ImageOptions()


def load(
    sources: Sequence[str],
    weights: Sequence[float],
    options: Prepared,
    *,
    drop_duplicates: bool,
    without: list[Path],
) -> Source:
    """The prompts of one source or of several; with several, every option is for each of them.

    Those that are in a directory of `without` are removed from each before they are mixed.
    """
    _check(sources, weights)
    loaded = [
        _prepared(source, options, drop_duplicates=drop_duplicates, without=without)
        for source in sources
    ]
    chosen = (
        loaded[0] if len(loaded) == 1 else mix(dict(zip(sources, loaded, strict=True)), weights)
    )
    return overlap.without_repeats(chosen, drop=drop_duplicates)


def described(chosen: Source, sources: Sequence[str]) -> str:
    """So many prompts of these sources, in words."""
    return f"{plural.of(len(chosen.rows), 'prompt')} of `{'`, `'.join(sources)}`"


def _prepared(
    source: str, options: Prepared, *, drop_duplicates: bool, without: list[Path]
) -> Source:
    """The prompts of one source; a limit counts those that are left."""
    is_late = drop_duplicates or bool(without)
    early = replace(options, limit=None) if is_late else options
    source_prompts = overlap.without(prompts.load(source, **vars(early)), without)
    if drop_duplicates:
        source_prompts = overlap.without_repeats(source_prompts, drop=True)
    if not is_late or not options.limit:
        return source_prompts
    params = source_prompts.params | {"limit": options.limit}
    return replace(source_prompts, rows=source_prompts.rows[: options.limit], params=params)


def _check(sources: Sequence[str], weights: Sequence[float]) -> None:
    for source, count in Counter(sources).items():
        if count > 1:
            raise UsageError(
                f"`{source}` is given {count} times",
                "name it once, and take more of it with --weights",
            )
    if weights and len(weights) != len(sources):
        raise UsageError(
            f"--weights has {len(weights)} numbers, there are {len(sources)} sources",
            f"give one a source, as in --weights {','.join('1' for _ in sources)}",
        )
    if weights and (len(sources) == 1 or not all(weights)):
        raise UsageError(
            f"--weights is {','.join(f'{w:g}' for w in weights)}",
            "name several sources and a number above 0 for each",
        )


def mix(loaded: dict[str, Source], weights: Sequence[float]) -> Source:
    """The rows of all sources one after the other, as many of each as its weight says.

    Ids and sources that occur in several of them get the name of theirs in front.
    """
    names = _names(list(loaded))
    parts = list(loaded.values())
    taken = _taken([len(part.rows) for part in parts], weights)
    rows = [_sample(part.rows, count) for part, count in zip(parts, taken, strict=True)]
    rows = _with_distinct_names(names, rows)
    mixed = {
        name: {"prompts": count, "left_out": len(part.rows) - count}
        for name, part, count in zip(names, parts, taken, strict=True)
    }
    digests = [{role: p.digest for role, p in part.parents.items()} for part in parts]
    params = [part.params | digest for part, digest in zip(parts, digests, strict=True)]
    shown = [
        f"{m['prompts']} of `{name}`" + (f" ({m['left_out']} left out)" if m["left_out"] else "")
        for name, m in mixed.items()
    ]
    remarks = [
        f"{n}: {text}" for n, part in zip(names, parts, strict=True) for text in part.remarks
    ]
    facts: Counter[str] = Counter()
    for part in parts:
        facts.update(part.facts)
    return Source(
        [row for part in rows for row in part],
        {"sources": params} | ({"weights": list(weights)} if weights else {}),
        facts={**facts, "mixed": mixed},
        remarks=(*remarks, f"mixed {', '.join(shown)}"),
    )


def _taken(sizes: list[int], weights: Sequence[float]) -> list[int]:
    if not weights:
        return sizes
    exact = [Fraction(str(weight)) for weight in weights]
    scale = min(size / weight for size, weight in zip(sizes, exact, strict=True))
    return [math.floor(weight * scale) for weight in exact]


def _sample(rows: Rows, count: int) -> Rows:
    """So many of the rows, by a hash of their ids, in their order."""
    if count == len(rows):
        return rows
    order = sorted(row["prompt_id"] for row in rows)
    chosen = set(sorted(order, key=lambda name: (seeds.derive("mix", name), name))[:count])
    return [row for row in rows if row["prompt_id"] in chosen]


def _with_distinct_names(names: list[str], parts: list[Rows]) -> list[Rows]:
    """The rows with ids and sources that no two of the parts share."""
    ids = _shared([{row["prompt_id"] for row in rows} for rows in parts])
    sources = _shared([{row["source"] for row in rows} for rows in parts])
    distinct = []
    for name, rows in zip(names, parts, strict=True):
        has_shared_id = any(row["prompt_id"] in ids for row in rows)
        own = {row["source"] for row in rows}
        named = {s: name if len(own) == 1 else f"{name}:{s}" for s in own & sources}
        distinct.append(
            [
                row
                | {"source": named.get(row["source"], row["source"])}
                | ({"prompt_id": f"{name}:{row['prompt_id']}"} if has_shared_id else {})
                for row in rows
            ]
        )
    return distinct


def _shared(sets: list[set[str]]) -> set[str]:
    counts = Counter(item for one in sets for item in one)
    return {item for item, count in counts.items() if count > 1}


def _names(sources: list[str]) -> list[str]:
    """The shortest ends of the sources that differ from one another, without file endings."""
    depth = max(len(Path(source).parts) for source in sources)
    for kept in range(1, depth + 1):
        names = ["/".join(Path(source).parts[-kept:]) for source in sources]
        bare = [
            name.partition(".")[0] if name[:1] not in "." and ".py:" not in name else name
            for name in names
        ]
        if len(set(bare)) == len(bare):
            return bare
    return sources
