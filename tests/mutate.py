"""Changes one thing at a time in the maths, and counts the changes that no test notices.

    python tests/mutate.py [--jobs 2] [--only surrogate] [--every 1] [--limit-s 600]

Each mutant runs in a forked process, which imports the changed source in the file's place; then
the tests of that file, of all parts, objectives and modifiers, and the properties run until one
fails. A mutant that loops is killed at the time limit of each of these runs, and counts as noticed.
Survivors are printed as they are found. Unchanged, all of them must pass first.
"""

import argparse
import ast
import copy
import importlib
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType

import pytest
import torch

import rlvr_cli

TESTS = Path(__file__).parent / "algorithms"
SOURCE = Path(rlvr_cli.__file__).parent / "algorithms"
FOLDERS = ("terms", "objectives", "modifiers")
COMPARE = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
           ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn}  # fmt: skip
BINARY = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
          ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd}  # fmt: skip
NAMES = {"minimum": "maximum", "maximum": "minimum", "min": "max", "max": "min", "exp": "expm1",
         "expm1": "exp", "log": "log1p", "log1p": "log", "sum": "mean", "detach": "clone",
         "square": "abs", "any": "all", "low": "high", "high": "low"}  # fmt: skip
# File, changed text, and why the change is none.
EQUIVALENT = {
    ("terms/anchor.py", "True -> False"): "frozen=True keeps programmers from a mistake",
    ("terms/anchor.py", "-torch.inf -> without its sign"): "masked places, which weigh 0",
    ("terms/anchor.py", "0.0 -> 1"): "masked places, which weigh 0",
    ("terms/anchor.py", "advantage_BT < 0 -> LtE"): "an advantage of 0 has gain 0 either way",
    ("terms/surrogate.py", "advantage_B1 < 0 -> LtE"): "an advantage of 0 has gain 0 either way",
    ("terms/surrogate.py", "advantage_B1 > 0 -> GtE"): "an advantage of 0 has gain 0 either way",
    ("modifiers/off_policy_mask.py", "batch.logp_BT.detach -> clone"): "a comparison has none",
    ("objectives/fipo.py", "batch.advantage_BT < 0 -> LtE"): "an advantage of 0 has gain 0 anyway",
    ("modifiers/negative_only.py", "objective.sign > 0 -> GtE"): "of a sign that is not 0",
    ("modifiers/negative_only.py", "batch.advantage_BT < 0 -> LtE"): "0 times 0 or 1",
    ("modifiers/up.py", "batch.advantage_BT > 0 -> GtE"): "an advantage of 0 has gain 0 either way",
    ("terms/advantage.py", "1 -> 2"): "of max(mixed, 1): a mixed group has two rows or more",
    ("terms/correction.py", "-1 -> without its sign"): "the last dimension is dimension 1",
    ("terms/ratio.py", "-1 -> without its sign"): "the last dimension is dimension 1",
    ("terms/surrogate.py", "-1 -> without its sign"): "the last dimension is dimension 1",
    ("terms/weight.py", "-1 -> without its sign"): "the last dimension is dimension 1",
    ("terms/divergence.py", "-1 -> without its sign"): "the last dimension is dimension 1",
    ("terms/divergence.py", "batch.logp_BT.detach -> clone"): "a comparison has no gradient",
    ("terms/divergence.py", "logp_BT > old_logp_BT -> GtE"): "a token that stays has not moved",
    ("terms/divergence.py", "logp_BT < old_logp_BT -> LtE"): "a token that stays has not moved",
    ("terms/dual.py", "_kl(scaled_N, below_N, group_N) < delta -> LtE"): "then lam is the floor",
    ("terms/dual.py", "_kl(scaled_N, middle_N, group_N) < delta -> LtE"): "the bisection goes on",
    ("terms/dual.py", "64 -> 128"): "64 bisections exhaust float64",
    ("terms/dual.py", "1 -> 2"): "the upper bracket is a bound; what divides a gap of 0 is 0",
    ("terms/dual.py", "(8 * delta) ** 0.5 -> Mult"): "a wider upper bracket",
    ("terms/dual.py", "torch.as_tensor(1 / (8 * delta) ** 0.5, dtype=torch.float64) -> log1p"):
        "a wider upper bracket",
    ("terms/surrogate.py", "1.0 -> 2.0"): "a place that the geometric mean takes",
    ("terms/surrogate.py", "1e-08 -> 2e-08"): "both means agree to within rounding there",
    ("terms/surrogate.py", "power_B1.abs() > _SMALL_POWER -> GtE"): "as above",
    ("terms/pass_at_k.py", "-1 -> without its sign"): "the last dimension is dimension 1",
    ("terms/pass_at_k.py", "True -> False"): "equal rewards have one advantage in any order",
    ("terms/token_baseline.py", "0 -> 1"): "room for one more, without tokens",
    ("terms/token_baseline.py", "1 -> 2"): "room for one more place",
    ("terms/pass_at_k.py", "size < k -> LtE"): "of k rewards the k-th is the last",
    ("terms/pass_at_k.py", "value_M[:, None] * ones_MK -> Div"): "over ones",
    ("terms/token_charge.py", "1 -> 2"): "a 0 more after the last row, which is not read",
    ("terms/ranking.py", "1e-09 -> 2e-09"): "what rounding leaves is far below either",
    ("objectives/pass_at_k.py", "len(reward_G) < k -> LtE"): "one subset has no signal either way",
    ("objectives/nsr.py", "1.0 -> 2.0"): "the advantage of rows that leave the batch",
    ("objectives/psr.py", "1.0 -> 2.0"): "the advantage of rows that leave the batch",
    ("objectives/psr.py", "-1.0 -> without its sign"): "the advantage of rows that leave the batch",
    ("objectives/nsr.py", "1 -> 2"): "a sign",
    ("objectives/psr.py", "1 -> 2"): "a sign",
}  # fmt: skip
Change = tuple[str, Callable[[ast.AST], None]]


def mutants(path: Path) -> Iterator[tuple[str, ast.Module]]:
    """Each single change of a file, with where and what it is."""
    tree = ast.parse(path.read_text())
    name = path.relative_to(SOURCE)
    hints = {id(n) for node in ast.walk(tree) for n in _of_types(node)}
    for index, node in enumerate(ast.walk(tree)):
        for words, change in () if id(node) in hints else changes(node):
            result = copy.deepcopy(tree)
            change(list(ast.walk(result))[index])
            line = getattr(node, "lineno", getattr(getattr(node, "value", None), "lineno", "?"))
            yield f"{name}:{line}: {words}", ast.fix_missing_locations(result)


def _of_types(node: ast.AST) -> Iterator[ast.AST]:
    """What stands in type hints and asserts, where a change changes nothing."""
    for part in (getattr(node, "annotation", None), getattr(node, "returns", None)):
        yield from ast.walk(part) if part else ()
    if isinstance(node, ast.Assert):
        yield from ast.walk(node)
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript | ast.BinOp):
        names = [t.id for t in node.targets if isinstance(t, ast.Name)]
        yield from ast.walk(node) if names and names[0].istitle() else ()


def changes(node: ast.AST) -> Iterator[Change]:
    """What can be changed at a node: in words, and as a change to the same node of a copy."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in COMPARE:
            new = COMPARE[type(op)]
            yield f"{_text(node)} -> {new.__name__}", lambda n: n.ops.__setitem__(0, new())
        case ast.BinOp(op=op) if type(op) in BINARY:
            new = BINARY[type(op)]
            yield f"{_text(node)} -> {new.__name__}", lambda n: setattr(n, "op", new())
        case ast.UnaryOp(op=op):
            yield f"{_text(node)} -> without its sign", lambda n: _wrap(n, "operand", type(op))
        case ast.BoolOp(op=op):
            new = ast.Or if isinstance(op, ast.And) else ast.And
            yield f"{_text(node)} -> {new.__name__}", lambda n: setattr(n, "op", new())
        case ast.Constant(value=bool(value)):
            yield f"{value} -> {not value}", lambda n: setattr(n, "value", not value)
        case ast.Constant(value=int(value) | float(value)):
            new = value * 2 or 1
            yield f"{value} -> {new}", lambda n: setattr(n, "value", new)
        case ast.Attribute(attr=name) if name in NAMES:
            yield f"{_text(node)} -> {NAMES[name]}", lambda n: setattr(n, "attr", NAMES[name])
        case ast.keyword(arg=name) if name in NAMES:
            yield f"{name}= -> {NAMES[name]}=", lambda n: setattr(n, "arg", NAMES[name])
        case ast.IfExp() | ast.If() if _text(node.test) != "TYPE_CHECKING":
            yield f"if {_text(node.test)} -> not", lambda n: _wrap(n, "test", ast.Not)


def _wrap(node: ast.AST, field: str, op: type[ast.unaryop]) -> None:
    setattr(node, field, ast.UnaryOp(op(), getattr(node, field)))


def _text(node: ast.AST) -> str:
    return ast.unparse(node)[:60]


def verdict(path: Path, tree: ast.Module, limit_s: int) -> str:
    """Whether the tests notice a mutant: `missed`, `caught`, or `timed out`."""
    own = [TESTS / folder / f"test_{path.stem}.py" for folder in FOLDERS]
    properties = [TESTS / f"test_{name}.py" for name in ("spec", "objective", "errata")]
    stages = ([p for p in own if p.exists()], [TESTS / f for f in FOLDERS], properties)
    for stage in filter(None, stages):
        code = _exit_code(path, tree, stage, limit_s)
        if code:
            return "timed out" if code == -signal.SIGALRM else "caught"
    return "missed"


def _exit_code(path: Path, tree: ast.Module, tests: list[Path], limit_s: int) -> int:
    """Of a forked process that holds the mutant and runs these tests, killed at the limit."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 2
    try:
        signal.alarm(limit_s)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        unchanged = SourceFileLoader.get_code

        def get_code(loader: SourceFileLoader, name: str) -> CodeType | None:
            if Path(loader.path) == path:
                return compile(tree, loader.path, "exec")
            return unchanged(loader, name)

        SourceFileLoader.get_code = get_code  # type: ignore[method-assign]
        words = ["-x", "-q", "-p", "no:cacheprovider", "--no-header", "--batches=20"]
        code = int(pytest.main([*words, *map(str, tests)]))
    finally:
        os._exit(code)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="files whose path holds this")
    parser.add_argument("--every", type=int, default=1, help="only each so-manieth mutant")
    parser.add_argument("--limit-s", type=int, default=600, help="of each run of the tests")
    given = parser.parse_args()
    sys.dont_write_bytecode = True
    torch.set_num_threads(1)
    paths = sorted(p for folder in FOLDERS for p in (SOURCE / folder).glob("[!_]*.py"))
    for name in ("hypothesis", "scipy.optimize", "numpy.testing", "pyarrow.parquet"):
        importlib.import_module(name)
    complete = [p for p in paths if given.only in str(p)]
    if verdict(paths[0], ast.parse(paths[0].read_text()), given.limit_s) != "missed":
        raise SystemExit("the tests fail unchanged: run them with pytest first")
    chosen = [(p, *m) for p in complete for m in mutants(p)][:: given.every]

    def judge(job: tuple[Path, str, ast.Module]) -> str:
        path, words, tree = job
        noticed = verdict(path, tree, given.limit_s)
        if noticed != "missed":
            return noticed
        file, _, change = words.split(":", 2)
        if reason := EQUIVALENT.get((file, change.strip())):
            print(f"{words} (equivalent: {reason})", flush=True)
            return "equivalent"
        print(words, flush=True)
        return noticed

    with ThreadPoolExecutor(given.jobs) as pool:
        actual = Counter(pool.map(judge, chosen))
    share = (actual["caught"] + actual["timed out"]) / len(chosen)
    print(f"{len(chosen)} mutants, {share:.1%} noticed: {dict(actual)}")


if __name__ == "__main__":
    main()
