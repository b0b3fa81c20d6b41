"""How qa, ifeval and json agree with the reference implementations, each run as it is.

    python -P benchmarks/agreement.py qa DATA REFERENCES
    python -P benchmarks/agreement.py ifeval DATA REFERENCES     pip install 'rlvr[ifeval]'
    python -P benchmarks/agreement.py schema REFERENCES          pip install 'rlvr[json]'
    python -P benchmarks/agreement.py calls REFERENCES

DATA has math_100x8_qwen25math.jsonl.gz and mmlu_pro_500x8_models.jsonl.gz, whose completions give
the texts. REFERENCES holds clones of PeterGriffinJin/Search-R1, allenai/open-instruct,
json-schema-org/JSON-Schema-Test-Suite and ShishirPatil/gorilla, each in a folder of that name. What
a reference imports only for other uses, such as a client of a judge, is left empty.
"""

import argparse
import gzip
import importlib.abc
import importlib.machinery
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

from rlvr_cli import registry
from rlvr_cli.protocols import Isolated, Verdict

SHOWN = 15  # disagreements of each comparison that are printed


class Empty(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives an empty module for each name that begins with one of these."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name.startswith(self.names):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> Any:
        module = MagicMock(name=spec.name)
        module.__spec__, module.__path__ = spec, []
        return module

    def exec_module(self, module: Any) -> None:
        pass


class Comparison:
    """Rows on which two scorers were asked, and those on which they differ."""

    def __init__(self, name: str) -> None:
        self.name, self.rows, self.counts = name, 0, Counter[str]()
        self.differ: list[str] = []

    def add(self, ours: float | None, theirs: float | bool, *what: Any) -> None:
        self.rows += 1
        theirs = float(theirs)
        if ours is not None and abs(ours - theirs) < 1e-9:
            self.counts[f"{'paid' if theirs else 'not paid'} by both"] += 1
            return
        self.counts["ours higher" if ours is not None and ours > theirs else "theirs higher"] += 1
        self.differ.append(f"ours {ours} theirs {theirs:.3g}: " + " | ".join(map(repr, what)))

    def print(self) -> None:
        print(f"\n{self.name}: {self.rows} rows, {len(self.differ)} differ; {dict(self.counts)}")
        for line in self.differ[:SHOWN]:
            print("   ", line[:400])


def ask(verifier: Any, completion: str, answer: str) -> Verdict:
    if isinstance(verifier, Isolated):
        return verifier.judge(verifier.extract(completion, True), answer, {})
    verdict: Verdict = verifier(completion, answer=answer, extra={})
    return verdict


def completions(data: Path) -> list[str]:
    """The texts of models of ten families, in an order of their own."""
    texts = []
    for name in ("math_100x8_qwen25math.jsonl.gz", "mmlu_pro_500x8_models.jsonl.gz"):
        with gzip.open(data / name, "rt") as file:
            texts += [text for line in file for text in json.loads(line)["completions"]]
    texts = sorted({text.strip() for text in texts if text.strip()})
    random.Random(0).shuffle(texts)
    return texts


def pairs(texts: list[str], count: int) -> Iterator[tuple[list[str], str]]:
    """Golds, and an answer that is one of them in another spelling, a part of it, or another."""
    rng = random.Random(0)
    for text in texts[:count]:
        words = text.split()
        if len(words) < 12:
            continue
        spans = []
        for _ in range(3):
            start = rng.randrange(len(words) - 6)
            spans.append(" ".join(words[start : start + rng.randrange(1, 6)]))
        gold, other, third = spans
        answer = rng.choice(
            [
                gold,
                gold.upper(),
                f"The {gold}.",
                f"the “{gold}”",
                re.sub(r"[^\w\s]", "", gold),
                gold.rpartition(" ")[0] or other,
                f"{gold} {other}",
                f"{other}, an {gold}!",
                other,
                third.lower(),
            ]
        )
        if answer.strip() and "<" not in answer + gold:
            yield rng.choice([[gold], [gold, third]]), answer


def qa(data: Path, references: Path) -> None:
    from transformers.data.metrics import squad_metrics as squad

    sys.path[:0] = [
        str(references / "Search-R1/verl/utils/reward_score"),
        str(references / "open-instruct"),
    ]
    heavy = ("litellm", "ray", "vllm", "open_instruct.judge", "open_instruct.logger")
    heavy += ("open_instruct.context", "open_instruct.rubrics", "open_instruct.utils")
    sys.meta_path.insert(0, Empty(*heavy, "open_instruct.IFEvalG", "open_instruct.math_utils"))
    import qa_em
    from open_instruct import ground_truth_utils as theirs

    em, f1, contains = (registry.build("verifiers", f"qa:metric={m}") for m in METRICS)
    names = ("SQuAD em", "SQuAD f1", "Search-R1 em", "Search-R1 subem", "open-instruct string_f1")
    names += ("open-instruct re_search", "open-instruct string_matcher")
    table = {name: Comparison(name) for name in names}
    example = "For example, <answer> Beijing </answer>. "  # Search-R1 scores prompt and completion
    for golds, answer in pairs(completions(data), 1200):
        text, gold = f"<answer>{answer}</answer>", json.dumps(golds)
        ours = {
            m: ask(v, text, gold).reward for m, v in zip(METRICS, (em, f1, contains), strict=True)
        }
        target, what = {"target": golds}, (answer, golds)
        rows = {
            "SQuAD em": ("em", max(squad.compute_exact(g, answer) for g in golds)),
            "SQuAD f1": ("f1", max(squad.compute_f1(g, answer) for g in golds)),
            "Search-R1 em": ("em", qa_em.compute_score_em(example + text, target)),
            "Search-R1 subem": ("contains", qa_em.compute_score_subem(example + text, target)),
            "open-instruct string_f1": ("f1", theirs.F1Verifier()([], text, golds).score),
        }
        for name, (metric, score) in rows.items():
            table[name].add(ours[metric], score, *what)
        finish = f"<finish>{answer}</finish>"
        score = theirs.R1SearchVerifier()([], finish, gold).score
        table["open-instruct re_search"].add(ask(em, finish, gold).reward, score, *what)
        score = theirs.StringMatcherVerifier()([], text, golds[0]).score
        alone = ask(em, text, json.dumps(golds[:1])).reward
        table["open-instruct string_matcher"].add(alone, score, *what)
    for comparison in table.values():
        comparison.print()


METRICS = ("em", "f1", "contains")


def ifeval(data: Path, references: Path) -> None:
    import langdetect
    from lm_eval.tasks.ifeval import instructions_registry, utils

    langdetect.DetectorFactory.seed = 0
    strict, loose, share = (
        registry.build("verifiers", f"ifeval:{options}")
        for options in ("mode=strict", "mode=loose", "credit=share")
    )
    rng = random.Random(0)
    random.seed(0)
    known = instructions_registry.INSTRUCTION_DICT
    table = [Comparison(f"lm-eval {name}") for name in ("strict", "loose", "share, strict")]
    by_name = Counter[str]()
    for number, response in enumerate(shapes(completions(data)[:600], rng)):
        names = [sorted(known)[number % len(known)], *rng.sample(sorted(known), k=number % 3)]
        kwargs = []
        for name in names:
            instruction = known[name](name)
            instruction.build_description(**needed(name, response, rng))
            kwargs.append(instruction.get_instruction_args() or {})
        doc = {"key": 0, "prompt": "", "instruction_id_list": names, "kwargs": kwargs}
        theirs = utils.process_results(doc, [response])
        gold = json.dumps({"instruction_id_list": names, "kwargs": kwargs})
        followed = theirs["inst_level_strict_acc"]
        what = (names, kwargs, response[:60])
        table[0].add(ask(strict, response, gold).reward, theirs["prompt_level_strict_acc"], *what)
        table[1].add(ask(loose, response, gold).reward, theirs["prompt_level_loose_acc"], *what)
        table[2].add(ask(share, response, gold).reward, sum(followed) / len(followed), *what)
        by_name.update(name for name, does in zip(names, followed, strict=True) if does)
    for comparison in table:
        comparison.print()
    print(f"\n{len(by_name)} of {len(known)} instructions are followed at least once")
    rlvr_ifeval(strict, completions(data)[600:800], references)
    ifbench_train(strict, completions(data)[800:1000], references)


def needed(name: str, response: str, rng: random.Random) -> dict[str, Any]:
    """The arguments that a checker does not draw by itself, so that some texts follow it."""
    words = re.findall(r"[A-Za-z]{4,}", response) or ["nothing"]
    special = {
        "keywords:existence": {"keywords": [rng.choice(words)]},
        "keywords:frequency": {"keyword": rng.choice(words), "frequency": rng.randint(1, 3)},
        "keywords:forbidden_words": {"forbidden_words": [rng.choice(words), "zebra"]},
        "combination:repeat_prompt": {"prompt_to_repeat": response[:20].strip() or "Repeat"},
        "length_constraints:number_words": {
            "num_words": len(response.split()) + rng.randint(-3, 3)
        },
        "startend:end_checker": {"end_phrase": response.strip()[-8:] or "end"},
    }
    return special.get(name, {})


def shapes(texts: list[str], rng: random.Random) -> list[str]:
    """Responses of varied shape: as they are, in one case, quoted, in sections, as lists, short."""
    made = [
        lambda t: t,
        lambda t: t.upper(),
        lambda t: t.lower(),
        lambda t: f'"{t}"',
        lambda t: t.replace(",", ";"),
        lambda t: f"<<A title>>\n\n{t}\n\nP.S. That is all.",
        lambda t: "\n".join(f"* {line}" for line in t.splitlines()[:4] if line.strip()),
        lambda t: "\n***\n".join(t.split("\n\n")[:3]),
        lambda t: f"{t[:200]}\n******\n{t[200:400]}",
        lambda t: json.dumps({"answer": t[:80]}),
        lambda t: f"Sure!\n**{t[:60]}** and [name], [place]. My answer is yes.",
        lambda t: f"Section 1\n{t[:99]}\nSection 2\n*{t[:9].strip()}*\nSECTION 3\nend",
        lambda t: t[:10],
        lambda t: "12345",
        lambda t: "Das ist ein einfacher Satz. " + "Er ist auf Deutsch geschrieben. " * 3,
    ]
    return [rng.choice(made)(text) for text in texts]


def rlvr_ifeval(verifier: Isolated, texts: list[str], references: Path) -> None:
    sys.path.insert(0, str(references / "open-instruct/open_instruct"))
    import if_functions

    from rlvr_cli.verification.parsing import constraints

    rng = random.Random(1)
    table = {name: Comparison(f"open-instruct {name}") for name in if_functions.IF_FUNCTIONS_MAP}
    for response in shapes(texts, rng):
        words = re.findall(r"[A-Za-z]{4,}", response) or ["nothing"]
        given: dict[str, Any] = {
            "N": rng.choice([1, 2, 3, len(response.split()), response.count("a") or 1]),
            "quantifier": rng.choice(["at least", "at most", "around"]),
            "keyword_list": [rng.choice(words)], "word": rng.choice(words), "letter": "a",
            "forbidden_words": [rng.choice(words), "zebra"], "language": "en", "i": 1,
            "first_word": words[0], "postscript_marker": "P.S.", "options": ["yes", "no"],
            "section_splitter": "Section", "original_prompt": response[:20],
            "end_phrase": response[-8:],
        }  # fmt: skip
        for name, function in if_functions.IF_FUNCTIONS_MAP.items():
            check = constraints.CHECKS.get(name)
            own = constraints.arguments(check) if check else ("language",)
            arguments = {key: given[key] for key in own}
            gold = json.dumps({"func_name": name, **arguments})
            try:
                theirs = function(response, **arguments)
            except Exception as error:
                theirs = False
                table[name].counts[f"{type(error).__name__} of theirs"] += 1
            ours = ask(verifier, response, gold)
            table[name].add(ours.reward, theirs, ours.reason, arguments, response[:80])
    for comparison in table.values():
        comparison.print()
    rows, differ = (sum(f(c) for c in table.values()) for f in (_rows, _differ))
    print(f"\nopen-instruct, all constraints: {rows} rows, {differ} differ")


def ifbench_train(verifier: Isolated, texts: list[str], references: Path) -> None:
    sys.path.insert(0, str(references / "open-instruct"))
    from open_instruct.IFEvalG.instructions_registry import INSTRUCTION_DICT

    from rlvr_cli.verification.parsing import instructions

    rng = random.Random(2)
    table = {name: Comparison(f"open-instruct {name}") for name in instructions.CHECKS}
    for response in shapes(texts, rng):
        words = re.findall(r"[A-Za-z]{4,}", response) or ["nothing"]
        given: dict[str, Any] = {
            "phrase": " ".join(words[:4]), "small_n": 1, "prompt_to_repeat": response,
            "n_start": 1, "n_end": len(response), "keyword": rng.choice(words), "letter": "a",
            "frequency": 2, "let_frequency": 9, "N": rng.choice([1, 20, 300]), "n": 1, "m": 1,
            "relation": rng.choice(["at least", "less than"]), "first_word": words[0],
            "let_relation": "at least", "last_word": words[-1], "n_sent": 2, "n_words": 3,
            "keyword1": words[0], "keyword2": words[-1],
        }  # fmt: skip
        for name in instructions.CHECKS:
            theirs = INSTRUCTION_DICT[name](name)
            arguments = {key: given[key] for key in theirs.get_instruction_args_keys()}
            gold = json.dumps({"instruction_id": [name], "kwargs": [arguments]})
            try:
                theirs.build_description(**arguments)
                follows = bool(theirs.check_following(response))
            except Exception as error:
                follows = False
                table[name].counts[f"{type(error).__name__} of theirs"] += 1
            ours = ask(verifier, response, gold)
            table[name].add(ours.reward, follows, ours.reason, arguments, response[:80])
    for comparison in table.values():
        comparison.print()
    rows, differ = (sum(f(c) for c in table.values()) for f in (_rows, _differ))
    print(f"\nopen-instruct, IFBench-Train: {rows} rows, {differ} differ")


def _rows(comparison: Comparison) -> int:
    return comparison.rows


def _differ(comparison: Comparison) -> int:
    return len(comparison.differ)


def schema(references: Path) -> None:
    verifier = registry.build("verifiers", "json:against=schema")
    comparison, unread = Comparison("JSON-Schema-Test-Suite, draft 2020-12"), Counter[str]()
    folder = references / "JSON-Schema-Test-Suite/tests/draft2020-12"
    for path in sorted(folder.glob("*.json")):
        for case in json.loads(path.read_text()):
            for test in case["tests"]:
                text, gold = json.dumps(test["data"]), json.dumps(case["schema"])
                verdict = ask(verifier, text, gold)
                if verdict.status != "ok":
                    unread[f"{path.stem}: {verdict.status}, {verdict.reason}"[:150]] += 1
                    continue
                comparison.add(verdict.reward, test["valid"], path.stem, test["description"])
    comparison.print()
    print(f"\nnot verified: {unread.total()}")
    for reason, count in unread.most_common():
        print(f"    {count} {reason}")


def calls(references: Path) -> None:
    root = references / "gorilla/berkeley-function-call-leaderboard"
    sys.path.insert(0, str(root))
    sys.meta_path.insert(0, Empty("bfcl_eval.constants.model_config"))
    from bfcl_eval.constants.enums import Language
    from bfcl_eval.eval_checker.ast_eval import ast_checker

    ast_checker.convert_func_name = lambda name, model: name  # only some APIs rename functions
    rng = random.Random(0)
    for spec in ("json:against=calls,strings=lenient", "json:against=calls"):
        verifier = registry.build("verifiers", spec)
        for kind in ("simple_python", "multiple", "parallel", "parallel_multiple"):
            comparison = Comparison(f"BFCL {kind}, {spec}")
            data = root / "bfcl_eval/data"
            golds = {r["id"]: r["ground_truth"] for r in _lines(data, f"possible_answer/{kind}")}
            for row in _lines(data, kind):
                gold = golds[row["id"]]
                output = changed([chosen(call, rng) for call in gold], rng)
                theirs = ast_checker.ast_checker(
                    row["function"], output, gold, Language.PYTHON, kind, "none"
                )
                text = "\n".join(
                    f"<tool_call>\n{json.dumps({'name': n, 'arguments': a})}\n</tool_call>"
                    for call in output
                    for n, a in call.items()
                )
                verdict = ask(verifier, text, json.dumps(gold))
                comparison.add(verdict.reward, theirs["valid"], output, gold, theirs.get("error"))
            comparison.print()


def _lines(data: Path, name: str) -> Iterator[Any]:
    folder, _, kind = name.rpartition("/")
    for line in (data / folder / f"BFCL_v4_{kind}.json").read_text().splitlines():
        yield json.loads(line)


def chosen(call: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """A call that a gold allows."""

    def one(value: Any) -> Any:
        if isinstance(value, dict):
            picked = {key: rng.choice(choices) for key, choices in value.items()}
            return {k: one(v) for k, v in picked.items() if v != "" or "" not in value[k]}
        return [one(item) for item in value] if isinstance(value, list) else value

    return {name: one(arguments) for name, arguments in call.items()}


def changed(output: list[dict[str, Any]], rng: random.Random) -> list[dict[str, Any]]:
    """Calls of which half are changed: a value, its case, its type, an argument, a name, a call."""
    if rng.random() < 0.5:
        return output
    call = rng.choice(output)
    ((name, arguments),) = call.items()
    key = rng.choice(sorted(arguments)) if arguments else None
    value = arguments.get(key)
    change = rng.randrange(6)
    if change == 0 and key:
        arguments[key] = value + 1 if isinstance(value, int | float) else "something else"
    elif change == 1 and isinstance(value, str):
        arguments[key] = value.upper().replace(" ", "_")
    elif change == 2 and key:
        arguments[key] = str(value) if not isinstance(value, str) else [value]
    elif change == 3 and key:
        del arguments[key]
    elif change == 4:
        arguments["another"] = 1
    else:
        call[f"{name}_2"] = call.pop(name)
    return output[::-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("verifier", choices=["qa", "ifeval", "schema", "calls"])
    parser.add_argument("folders", nargs="+", type=Path)
    words = parser.parse_args()
    compare = {"qa": qa, "ifeval": ifeval, "schema": schema, "calls": calls}[words.verifier]
    compare(*words.folders)


if __name__ == "__main__":
    main()
