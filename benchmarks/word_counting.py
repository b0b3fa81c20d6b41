"""Ways to count the words of the completions of many prompts, which UCC's cosines begin with.

    python -P benchmarks/word_counting.py --texts FILE

takes the texts of evaluation_cost.py and prints the CPU milliseconds a prompt of each way, the
median of alternating rounds. All must find the same counts. The last table of
docs/evaluation-cost.md is what it printed.
"""

import argparse
import os
import pickle
import re
import runpy
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rlvr_cli.evaluation.metrics.tokens import Tokens, tokenize
from rlvr_cli.runtime import malloc

TOKEN = re.compile(r"\w+|[^\w\s]")
Counts = tuple[np.ndarray, np.ndarray, np.ndarray]


def together(prompts: list[list[str]], size: int) -> Iterator[Counts]:
    """The texts of `size` prompts split, hashed and numbered in one pass, counted by prompt."""
    for start in range(0, len(prompts), size):
        group = prompts[start : start + size]
        tokens = tokenize([text for texts in group for text in texts])
        yield from _by_prompt(tokens.term_N, tokens.text_N, group, tokens.terms)


def by_arrow(prompts: list[list[str]]) -> Iterator[Counts]:
    """Arrow splits all texts at white space and numbers the pieces of the complete file; each
    different piece is split into words and symbols once."""
    texts = pa.array([text for texts in prompts for text in texts], pa.large_string())
    pieces = pc.utf8_split_whitespace(texts)
    encoded = pieces.values.dictionary_encode()
    number: dict[str, int] = {}
    split = [
        [number.setdefault(token, len(number)) for token in TOKEN.findall(piece.lower())]
        for piece in encoded.dictionary.to_pylist()
    ]
    size_V = np.array([len(tokens) for tokens in split])
    flat, last_V = np.concatenate([np.array(t, dtype=np.int64) for t in split]), np.cumsum(size_V)
    piece_N = encoded.indices.to_numpy()
    size_N = size_V.take(piece_N)
    end_N = np.cumsum(size_N)
    place_N = np.arange(end_N[-1]) - np.repeat(end_N - last_V.take(piece_N), size_N)
    text_N = np.repeat(np.arange(len(texts)), pc.list_value_length(pieces).to_numpy())
    yield from _by_prompt(flat.take(place_N), np.repeat(text_N, size_N), prompts, len(number))


def _by_prompt(
    term_N: np.ndarray, text_N: np.ndarray, prompts: list[list[str]], terms: int
) -> Iterator[Counts]:
    ends = np.cumsum([len(texts) for texts in prompts])
    for texts, end in zip(prompts, ends.tolist(), strict=True):
        one, other = np.searchsorted(text_N, [end - len(texts), end])
        own_N = text_N[one:other] - (end - len(texts))
        text_E, term_E, count_E = Tokens(term_N[one:other], own_N, len(texts), terms).counts()
        yield text_E, np.cumsum(np.diff(term_E, prepend=-1) > 0) - 1, count_E


WAYS = {
    "each prompt by itself (rlvr)": lambda prompts: together(prompts, 1),
    "5 prompts in a pass": lambda prompts: together(prompts, 5),
    "20 prompts in a pass": lambda prompts: together(prompts, 20),
    "all prompts in a pass": lambda prompts: together(prompts, len(prompts)),
    "all prompts, by pyarrow": by_arrow,
}


def summary(counted: Iterator[Counts]) -> list[tuple[int, int, int]]:
    """Of each prompt the different words, their pairs with a text, and a sum over the counts that
    the numbering of words does not change."""
    found = []
    for text_E, term_E, count_E in counted:
        df_V = np.bincount(term_E)
        found.append((len(df_V), len(term_E), int((df_V[term_E] * count_E * (text_E + 1)).sum())))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--folder", type=Path, default=Path("runs/evaluation-cost"))
    parser.add_argument("--prompts", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    path = given.folder / f"words-{given.prompts}.pickle"
    texts_of = runpy.run_path(str(Path(__file__).with_name("evaluation_cost.py")))["write_texts"]
    texts_of(path, given.texts, given.prompts, 256, 300)
    prompts = pickle.loads(path.read_bytes())
    malloc.keep_freed()
    pa.set_cpu_count(1)
    spent: dict[str, list[float]] = {name: [] for name in WAYS}
    for round_ in range(given.rounds + 1):  # the first one warms up
        found = []
        for name, way in WAYS.items():
            start = time.process_time()
            counted = list(way(prompts))
            spent[name].append(1000 * (time.process_time() - start) / len(prompts))
            found.append(summary(iter(counted)))
        assert all(one == found[0] for one in found), "the ways found different counts"
        print(f"round {round_}, load {os.getloadavg()[0]:.1f}", flush=True)
    print("| | CPU ms a prompt | |\n|---|---|---|")
    mine = median(next(iter(spent.values()))[1:])
    for name, times in spent.items():
        print(f"| {name} | {median(times[1:]):.1f} | {median(times[1:]) / mine:.2f} |")


if __name__ == "__main__":
    main()
