"""Random files and command lines: each is taken or refused in a line, whatever is in them.

    python tests/fuzz/inputs.py --cases 20000 --seed 0 --jobs 2
    python tests/fuzz/inputs.py --case 1234567

A case is made of its number alone: other tools' layouts, rows of prompts, recipes and definitions
of benchmarks, mutated in their values, their bytes and their containers, and a command with options
of any value. It fails by a traceback, "a defect of rlvr", an exit code that is none, an error that
is not one line, control characters on stderr, or more than two minutes.
"""

import argparse
import contextlib
import copy
import csv
import gzip
import io
import json
import multiprocessing
import os
import random
import runpy
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"  # before anything that reads it is imported

from rlvr_cli.cli import app
from rlvr_cli.terminal import streams

TESTS = Path(__file__).parents[1]
PACKAGE = Path(app.__file__).parents[1]
CODES = {0, 1, 2, 3, 4}
LONGEST_S = 120
DEEP = 100_000

TEXTS = [
    "", " ", "\n", "\x00", "\x1b[31mred\x1b[0m", "\x1b]8;;http://a\x07b\x1b]8;;\x07", "\x9b2J",
    "\u202eabc", "a\rb", "\b\b", "[red]x[/red]", "[link=http://a]x[/link]", ":smile:", "[/]", "[",
    "\ud800", "\udcff", "\ufeff", "é", "漢字", "٣", "²", "👩‍👩‍👧", "a" * 5_000,
    "\\", "`", "'", '"', "{}",
    "{", "[1", "null", "nan", "-", "--", "..", "/", "~", "=", ",", ":", "1e400", "9" * 400,
    "0" * 5000,
    "2024-01-01", "true", r"\frac{1}{", r"\boxed{" * 50, "1/0", "x" * 300, "math:",
    "math:timeout_s=nan",
    "all:of=[all:of=[]]", "qa:threshold=inf", "builtin", "prompt", "answer", "id", "completion",
]  # fmt: skip
NUMBERS: list[Any] = [
    0, -1, 1, 2, 10**9, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**30, 10**400, 0.0, -0.0,
    0.5, 1e-300, 1e300, float("inf"), float("-inf"), float("nan"), True, False,
]  # fmt: skip
VALUES: list[Any] = [None, [], {}, [[]], [{}], {"": None}, [None], {"a": {"b": [1, "x"]}}, *NUMBERS]
WORDS = ["0", "-1", "1", "2", "3.5", "nan", "inf", "-inf", "1e-300", "1e400", "1" + "0" * 30, "٣",
         "²", "0x10", "1_000", "true", "none", "auto", "1,2,4", "1,,2", "0.5", "a=b", "a=", "=b",
         "math", "text", "tfidf", "levenshtein", "1/2", "0/2", "3/2", "id", "prompt", "answer",
         "acc", "score", "reward", "correct"]  # fmt: skip
SPECS = ["math", "text:match=regex", "number", "choice", "qa:metric=f1", "json:against=schema",
         "format:form=think", "all:of=[math,text]", "0.9*math+0.1*format", "by:of=none", "ifeval",
         "expression", "judge:model=m,url=http://127.0.0.1:9,rubric=r", "sql:databases=x",
         "code", "custom:path=nope.py", "tfidf", "rouge-l", "grpo",
         "dapo:clip_high=0.3"]  # fmt: skip
LEFT_OUT = {"watch", "interval", "trust_file", "workers", "allow_code_execution", "cache", "nproc",
            "nnodes", "node_rank", "rdzv_endpoint", "unsafe_no_sandbox", "help", "engine",
            "trainer", "out", "json", "slurm", "docker", "config", "recipe",
            "model", "prompts", "heldout"}  # fmt: skip


@dataclass(frozen=True)
class Known:
    """What cases begin with: directories that are whole, and rows in the layouts of tools."""

    chain: Path
    layouts: dict[str, tuple[str, Any]]


class Hung(BaseException):
    """A command that runs too long; nothing of rlvr catches it."""


@dataclass(frozen=True)
class Ran:
    code: int | None
    out: bytes
    err: bytes
    raised: str
    seconds: float


# ---- what is mutated


def value(rng: random.Random) -> Any:
    kind = rng.random()
    return copy.deepcopy(rng.choice(TEXTS if kind < 0.5 else NUMBERS if kind < 0.7 else VALUES))


def places(tree: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    if not isinstance(tree, dict | list):
        return
    for key, below in tree.items() if isinstance(tree, dict) else enumerate(tree):
        yield from places(below, (*at, key))


def mutated(rng: random.Random, tree: Any) -> Any:
    """The tree with a value replaced, left out, renamed, doubled, wrapped or of another type."""
    at = rng.choice(list(places(tree)))
    if not at:
        return rng.choice([[tree], {"rows": tree}, tree, tree, value(rng)])
    tree = copy.deepcopy(tree)
    above = tree
    for key in at[:-1]:
        above = above[key]
    key, act = at[-1], rng.randrange(8)
    if act == 0:
        del above[key]
    elif act == 1 and isinstance(above, dict):
        above[rng.choice(TEXTS)] = above.pop(key)
    elif act == 2 and isinstance(above, list):
        above.insert(rng.randrange(len(above) + 1), copy.deepcopy(above[key]))
    elif act == 3:
        above[key] = rng.choice([str(above[key]), [above[key]], {"a": above[key]}])
    elif act == 4 and isinstance(above, dict):
        above[rng.choice(TEXTS)] = value(rng)
    else:
        above[key] = value(rng)
    return tree


def damaged(rng: random.Random, data: bytes) -> bytes:
    """The bytes flipped, cut, doubled, in another encoding, or with bytes between them."""
    at = rng.randrange(len(data) + 1)
    act = rng.randrange(9)
    if act == 0 and data:
        at = min(at, len(data) - 1)
        return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
    if act == 1:
        return data[:at]
    if act == 2:
        return (
            data[:at] + rng.choice([b"\x00", b"\xff\xfe", b"\n\n", b"\x1b[2J", b"\r"]) + data[at:]
        )
    if act == 3:
        return b"\xef\xbb\xbf" + data
    if act == 4:
        return data.decode(errors="replace").encode("utf-16")
    if act == 5:
        return data + data
    if act == 6:
        return bytes(len(data))
    if act == 7:
        return data.replace(b'"', b"'", 1 + rng.randrange(5))
    deep = rng.choice([b"[", b'{"a":', b"[[", b'{"a":['])
    return data[:at] + deep * DEEP + data[at:] if rng.random() < 0.5 else deep * DEEP


def packed(rng: random.Random, path: Path, data: bytes) -> Path:
    """Writes the bytes, at times in a container, at times under the name of another."""
    act = rng.random()
    if act < 0.05:
        data, path = gzip.compress(data), path.with_name(path.name + ".gz")
        if act < 0.02:
            data = damaged(rng, data)
    elif act < 0.07:
        path = path.with_name(path.name + rng.choice([".gz", ".zst", ".xz", ".bz2", ".zip"]))
    elif act < 0.09:
        path = path.with_suffix(rng.choice([".json", ".jsonl", ".csv", ".parquet", ".txt", ""]))
    elif act < 0.10:
        path.mkdir()
        return path
    path.write_bytes(data)
    return path


# ---- files


PIXEL = (  # an image of one red pixel
    "data:image/bmp;base64,Qk06AAAAAAAAADYAAAAoAAAAAQAAAAEAAAABABgAAAAAAAQAAADEDgAAxA4AAAAAAAAAAAAA"
    "AAD/AA=="
)


def pictured(rng: random.Random) -> list[dict[str, Any]]:
    """Rows of prompts with images, in a column or in the messages."""
    part = rng.choice([{"type": "image_url", "image_url": {"url": PIXEL}}, {"image": PIXEL},
                       {"type": "image", "source": {"data": PIXEL.partition(",")[2]}}])  # fmt: skip
    asked = [{"role": "user", "content": [part, {"type": "text", "text": "Red?"}]}]
    named = rng.choice([PIXEL, [PIXEL], {"path": PIXEL}, [{"bytes": None, "path": "a.png"}]])
    rows = [
        {"messages": asked},
        {"question": "<image>Red?", rng.choice(["images", "image"]): named},
    ]
    return [rng.choice(rows) | {"answer": str(i)} for i in range(1 + rng.randrange(4))]


def prompts(rng: random.Random) -> list[dict[str, Any]]:
    if rng.random() < 0.2:
        return pictured(rng)
    return [
        {"id": f"p{i}", "prompt": f"What is {i} + {i}?", "answer": str(2 * i),
         "verifier": rng.choice(SPECS), "source": "s", "extra": {"note": i}}
        if rng.random() < 0.5
        else {"question": f"{i}+{i}?", "answer": f"#### {2 * i}"}
        for i in range(1 + rng.randrange(5))
    ]  # fmt: skip


def completions(rng: random.Random) -> list[dict[str, Any]]:
    return [
        {"id": f"p{i}", "prompt": f"{i}+{i}?", "answer": str(2 * i), "completion": f"it is {j}",
         "correct": j == 2 * i, "reward": float(j), "source": "s"}
        for i in range(1 + rng.randrange(4))
        for j in range(1 + rng.randrange(4))
    ]  # fmt: skip


def rows_file(rng: random.Random, path: Path, rows: Any) -> Path:
    """Rows as JSON lines, JSON, CSV or Parquet, mutated as values and as bytes."""
    for _ in range(rng.choice([0, 0, 1, 1, 1, 1, 2, 4])):
        rows = mutated(rng, rows)
    listed = rows if isinstance(rows, list) else [rows]
    kind = rng.choice(["own"] * 6 + ["jsonl", "json", "csv", "parquet"])
    kind = path.suffix[1:] if kind == "own" else kind
    if kind == "parquet" and (table := _table(listed)) is not None:
        data, path = table, path.with_suffix(".parquet")
    elif kind == "csv":
        data, path = _csv(listed), path.with_suffix(".csv")
    elif kind == "json":
        data = json.dumps(rows, indent=rng.choice([None, 1])).encode()
    else:
        data = "".join(json.dumps(row) + "\n" for row in listed).encode()
    return packed(rng, path, damaged(rng, data) if rng.random() < 0.1 else data)


def _table(rows: list[Any]) -> bytes | None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = io.BytesIO()
    try:
        pq.write_table(pa.Table.from_pylist(rows), out)
    except Exception:  # rows of several types, or a number that is too large: no such file
        return None
    return out.getvalue()


def _csv(rows: list[Any]) -> bytes:
    out = io.StringIO()
    dicts = [row for row in rows if isinstance(row, dict)] or [{"prompt": "a"}]
    writer = csv.DictWriter(out, list(dict.fromkeys(str(k) for row in dicts for k in row)))
    writer.writeheader()
    writer.writerows([{str(k): v for k, v in row.items()} for row in dicts])
    return out.getvalue().encode(errors="replace")


def toml_file(rng: random.Random, path: Path, folder: str) -> Path:
    """A recipe or a definition of a benchmark whose lines are mutated."""
    source = rng.choice(sorted((PACKAGE / folder).glob("*.toml")))
    lines = source.read_text().splitlines()
    for _ in range(1 + rng.randrange(3)):
        at = rng.randrange(len(lines) + 1)
        key = (lines[at].partition("=")[0] if at < len(lines) else "steps").strip() or "seed"
        new = rng.choice([
            f"{key} = {rng.choice(WORDS)}", f'{key} = "{rng.choice(WORDS)}"', f"{key} = 1979-05-27",
            f"{key} = {'[' * DEEP}", f"{key} = {'9' * 5000}", f"{key} = -inf", f"[{key}]",
            "[[train]]",
            f'{key} = "\\u001b[31m"', f"{key} = {{a = 1}}", f"{key} = []", '"\\u001b" = 1',
        ])  # fmt: skip
        lines[at : at + rng.randrange(2)] = [new]
    data = "\n".join(lines).encode()
    return packed(rng, path, damaged(rng, data) if rng.random() < 0.2 else data)


# ---- command lines


def option_words(rng: random.Random, name: str) -> list[str]:
    """Options of a command, with values that they take and values that they do not."""
    params = [p for p in app._load(name).params if p.name not in LEFT_OUT and p.opts[0][0] == "-"]
    words: list[str] = []
    for param in rng.sample(params, min(len(params), rng.choice([0, 0, 0, 1, 1, 2]))):
        words.append(param.opts[-1])
        if not getattr(param, "is_flag", False):
            words.append(rng.choice([*WORDS, *SPECS, rng.choice(TEXTS)]).replace("\x00", ""))
    return words


def case(number: int, here: Path, known: Known) -> list[str]:
    """The words of a case, whose files it writes into `here`."""
    rng = random.Random(number)
    name = rng.choice(list(COMMANDS))
    words = [name, *COMMANDS[name](rng, here, known), *option_words(rng, name)]
    takes_out = any(p.name == "out" for p in app._load(name).params)
    if takes_out and rng.random() < 0.9:
        words += ["--out", str(here / rng.choice(["out", "out", "out", "é\x1b[31m", "o\n[red]"]))]
    if rng.random() < 0.3:
        words.append("--json")
    return words


def _completions_file(rng: random.Random, here: Path, known: Known, stem: str = "rows") -> str:
    if rng.random() < 0.15:
        return str(rng.choice([known.chain / "scores", known.chain / "rollouts", here, "nope"]))
    if rng.random() < 0.4:
        return str(rows_file(rng, here / f"{stem}.jsonl", completions(rng)))
    file, rows = rng.choice(list(known.layouts.values()))
    return str(rows_file(rng, here / f"{stem}-{file}", rows))


def _several(rng: random.Random, here: Path, known: Known) -> list[str]:
    count = rng.choice([1, 1, 1, 2])
    return [_completions_file(rng, here, known, f"rows{i}") for i in range(count)]


def _two(rng: random.Random, here: Path, known: Known) -> list[str]:
    return [_completions_file(rng, here, known, f"rows{i}") for i in range(2)]


def _one(rng: random.Random, here: Path, known: Known) -> list[str]:
    return [_completions_file(rng, here, known)]


def _data(rng: random.Random, here: Path, known: Known) -> list[str]:
    if rng.random() < 0.1:
        spec = rng.choice(["expression", "word-problems", "nope", "expression:split=x"])
        return [f"task:{spec}:{rng.choice(WORDS)}", "--limit", "3"]
    return [str(rows_file(rng, here / "rows.jsonl", prompts(rng)))]


def _directory(kind: str) -> Any:
    def words(rng: random.Random, here: Path, known: Known) -> list[str]:
        other = rng.choice(["prompts", "rollouts", "scores", "advantages", "nope"])
        return [str(known.chain / (kind if rng.random() < 0.9 else other))]

    return words


def _rollout(rng: random.Random, here: Path, known: Known) -> list[str]:
    return [str(known.chain / "prompts"), "--dry-run" if rng.random() < 0.98 else "-n1"]


def _doctor(rng: random.Random, here: Path, known: Known) -> list[str]:
    if rng.random() < 0.5:
        return ["--config", str(toml_file(rng, here / "run.toml", "recipes"))]
    return _data(rng, here, known)


def _train(rng: random.Random, here: Path, known: Known) -> list[str]:
    return ["--config", str(toml_file(rng, here / "run.toml", "recipes")), "--dry-run"]


def _bench(rng: random.Random, here: Path, known: Known) -> list[str]:
    definition = toml_file(rng, here / "mine.toml", "benchmarks")
    return [str(definition), "--model", "nope", "--data-dir", str(here)]


def _init(rng: random.Random, here: Path, known: Known) -> list[str]:
    return ["--model", "builtin", "--data", *_data(rng, here, known)[:1]]


def _list(rng: random.Random, here: Path, known: Known) -> list[str]:
    return [rng.choice([*WORDS, *SPECS, *TEXTS, "verifiers", "benchmarks"]).replace("\x00", "")]


COMMANDS: dict[str, Any] = {
    "prompts": _data, "import": _several, "eval-passk": _several, "ucc": _one, "diversity": _one,
    "compare": _two, "doctor": _doctor, "init": _init, "check": _one, "list": _list,
    "score": _directory("rollouts"), "advantage": _directory("scores"),
    "report": _directory("scores"), "rollout": _rollout, "train": _train, "bench": _bench,
}  # fmt: skip


# ---- running


@contextlib.contextmanager
def standing_in() -> Iterator[tuple[io.BytesIO, io.BytesIO]]:
    """Streams as `main` settles them, over buffers."""
    before = sys.stdin, sys.stdout, sys.stderr
    out, err = io.BytesIO(), io.BytesIO()
    sys.stdin = io.TextIOWrapper(io.BytesIO(b""))
    sys.stdout = streams.Results(out, encoding="utf-8", errors="surrogateescape")
    below = io.TextIOWrapper(err, encoding="utf-8")
    messages = sys.stderr = streams.Messages(below)
    made = (sys.stdout, messages, messages.unguarded, below)
    try:
        yield out, err
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        for stream in made:  # or they would close the buffers
            stream.detach()
        sys.stdin, sys.stdout, sys.stderr = before


def run(words: list[str]) -> Ran:
    """Runs a command line in this process, for no longer than it may take."""

    def hang(*_: object) -> None:
        raise Hung("".join(traceback.format_stack(limit=12)))

    code, raised, start = None, "", time.monotonic()
    with standing_in() as (out, err):
        before = signal.signal(signal.SIGALRM, hang)
        signal.alarm(LONGEST_S)
        try:
            code = app.run(words)
        except BaseException as error:
            raised = "".join(traceback.format_exception(error)[-8:])
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)
    return Ran(code, out.getvalue(), err.getvalue(), raised, time.monotonic() - start)


def problem(words: list[str], ran: Ran) -> str:
    """What is wrong with how a command ended; nothing where it is right."""
    if ran.raised:
        return f"raised: {ran.raised}"
    try:
        err = ran.err.decode()
    except UnicodeDecodeError as error:
        return f"stderr is no UTF-8: {error}"
    if bad := {c for c in err if ord(c) < 32 or 127 <= ord(c) < 160} - {"\n", "\t"}:
        return f"control characters on stderr: {bad}"
    if "a defect of rlvr" in err or "Traceback" in err:
        return f"a defect: {err[-600:]}"
    if ran.code not in CODES:
        return f"exit code {ran.code}"
    starts = [line.partition(" ")[0] for line in err.splitlines()]
    is_done = ran.code in (1, 4) and ran.out  # and its result is printed
    if ran.code and not is_done and (starts.count("error:") != 1 or starts.count("hint:") > 1):
        return f"not one error: {err[-600:]}"
    if ran.code == 0 and "--json" in words and ran.out and words[0] != "train":  # a TOML file
        try:
            json.loads(ran.out, parse_constant=lambda name: 1 / 0)
        except (ValueError, ZeroDivisionError):
            return f"stdout is no JSON: {ran.out[-300:]!r}"
    return ""


def known(folder: Path) -> Known:
    """Makes the directories that cases begin with."""
    chain = folder / "chain"
    for words in (
        ["prompts", "task:expression", "--limit", "4", "--out", f"{chain}/prompts"],
        ["rollout", f"{chain}/prompts", "-n2", "--max-new-tokens=8"],
        ["score", f"{chain}/rollouts"],
        ["advantage", f"{chain}/scores"],
    ):
        with standing_in():
            assert app.run(words) == 0
    return Known(chain, layouts())


def layouts() -> dict[str, tuple[str, Any]]:
    """A file of each tool: its name and its rows."""
    path = TESTS / "interop" / "formats" / "test_commands.py"
    return dict(runpy.run_path(str(path))["FILES"])


def tried(number: int, folder: Path, begun: Known) -> tuple[list[str], Ran, str]:
    """Runs a case in a folder of its own, which is removed."""
    here = folder / "case"
    here.mkdir()
    try:
        with contextlib.chdir(here):
            words = case(number, here, begun)
            ran = run(words)
            wrong = problem(words, ran)
            if wrong.startswith("a defect"):
                with _debugging():
                    wrong += f"\n{run(words).raised}"
        return words, ran, wrong
    finally:
        shutil.rmtree(here)


@contextlib.contextmanager
def _debugging() -> Iterator[None]:
    os.environ["RLVR_DEBUG"] = "1"
    try:
        yield
    finally:
        del os.environ["RLVR_DEBUG"]


def _share(given: tuple[int, int, int]) -> tuple[Counter[str], list[str]]:
    first, last, step = given
    counts: Counter[str] = Counter()
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"
        begun = known(Path(folder))
        for number in range(first, last, step):
            words, ran, wrong = tried(number, Path(folder), begun)
            counts[f"{words[0]} {ran.code}"] += 1
            if wrong:
                failed.append(f"case {number}: {ascii(words)[:400]}\n    {wrong}")
                print(failed[-1], flush=True)
    return counts, failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="the first case, in millions")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--case", type=int, help="run this one alone, and print what it says")
    given = parser.parse_args()
    if given.case is not None:
        with tempfile.TemporaryDirectory() as folder:
            words, ran, wrong = tried(given.case, Path(folder), known(Path(folder)))
            print(ascii(words), ran.out.decode(errors="replace"), ran.err.decode(errors="replace"))
            print(f"code {ran.code}, {ran.seconds:.1f} s; {wrong or 'all is right'}")
        return bool(wrong)
    first = given.seed * 1_000_000
    shares = [(first + i, first + given.cases, given.jobs) for i in range(given.jobs)]
    with multiprocessing.get_context("spawn").Pool(given.jobs) as pool:
        results = pool.map(_share, shares)
    counts = sum((counts for counts, _ in results), Counter())
    failed = [line for _, lines in results for line in lines]
    print(json.dumps(dict(sorted(counts.items()))))
    print(f"{given.cases} cases, {len(failed)} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
