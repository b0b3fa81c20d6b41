"""How fast a judge is asked, beside a plain loop over the same requests, and whether they agree.

    python -P benchmarks/judge.py GENERATIONS.jsonl [--latency 0.05] [--rows 800] [--rounds 3]

GENERATIONS is a file of `rlvr import`, one problem a line with `prompt` or `problem`,
`answer` and `completions`. The judge is tests/chat_server.py, a process of its own that takes
`--latency` seconds for each reply, which it computes from the gold and the completion. The loop
sends each request over one connection and looks for `Verdict: yes`; what it asks is filled in
with str.replace. No way uses a cache but the last.
"""

import argparse
import http.client
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rlvr_cli.interop import readers
from rlvr_cli.protocols import Verdict
from rlvr_cli.stages import score
from rlvr_cli.verification.parsing import rubrics
from rlvr_cli.verification.scoring import rewards
from rlvr_cli.verification.scoring.scorer import Question

SERVER = Path(__file__).parents[1] / "tests" / "chat_server.py"
Row = tuple[str, str, str]  # prompt, gold, completion


def rows_of(path: Path, count: int) -> list[Row]:
    rows = [
        (str(row.get("prompt") or row.get("problem")), str(row["answer"]), text)
        for row in readers.read(path)
        for text in row["completions"]
    ]
    return rows[:count]


def asked(row: Row) -> str:
    """The question of the rubric `equal`, without rlvr's own filling in."""
    prompt, gold, completion = row
    text = rubrics.EQUAL.replace("{mark}", "0123456789abcdef").replace("{prompt}", prompt)
    return text.replace("{answer}", gold).replace("{completion}", completion)


def plain_loop(rows: list[Row], port: int) -> list[float]:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    rewards = []
    for row in rows:
        messages = [{"role": "user", "content": asked(row)}]
        body = {"model": "judge-of-a-test", "messages": messages, "temperature": 0}
        connection.request("POST", "/v1/chat/completions", json.dumps(body))
        reply = json.loads(connection.getresponse().read())["choices"][0]["message"]["content"]
        rewards.append(float(reply.endswith("Verdict: yes")))
    return rewards


def ours(rows: list[Row], port: int, in_flight: int, cache: Path | None) -> list[float]:
    url = f"http://127.0.0.1:{port}/v1"
    (part,) = rewards.build(f"judge:model=judge-of-a-test,url={url},in_flight={in_flight}")
    questions = [
        Question(part.spec, part.verifier, text, True, gold, {"prompt": prompt})
        for prompt, gold, text in rows
    ]
    with score.scorer(workers=1, cache=cache, use_cache=cache is not None) as scorer:
        verdicts: list[Verdict] = scorer.verdicts(questions)
    return [-1.0 if v.reward is None else v.reward for v in verdicts]


def directly(rows: list[Row]) -> list[float]:
    """What the server computes, in this process."""
    spec = importlib.util.spec_from_file_location("chat_server", SERVER)
    assert spec and spec.loader
    server = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(server)
    return [float(server.last_number(text) == gold) for _, gold, text in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("generations", type=Path)
    parser.add_argument("--latency", type=float, default=0.05)
    parser.add_argument("--rows", type=int, default=800)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    rows = rows_of(given.generations, given.rows)
    expected = directly(rows)
    with tempfile.TemporaryDirectory() as folder:
        place, cache = Path(folder) / "port", Path(folder) / "known.sqlite"
        words = [sys.executable, "-P", str(SERVER), str(place), str(given.latency)]
        with subprocess.Popen(words) as process:
            try:
                while not place.exists() or not place.read_text():
                    time.sleep(0.05)
                port = int(place.read_text())
                ways: dict[str, Callable[[], list[float]]] = {
                    "plain loop": lambda: plain_loop(rows, port),
                    "one in flight": lambda: ours(rows, port, 1, None),
                    "eight": lambda: ours(rows, port, 8, None),
                    "32, the default": lambda: ours(rows, port, 32, None),
                    "128": lambda: ours(rows, port, 128, None),
                    "known from before": lambda: ours(rows, port, 32, cache),
                }
                ways["known from before"]()
                best: dict[str, tuple[float, int]] = {}
                for _ in range(given.rounds):
                    for name, way in ways.items():
                        start = time.perf_counter()
                        said = way()
                        same = sum(a == b for a, b in zip(said, expected, strict=True))
                        result = time.perf_counter() - start, same
                        best[name] = min(best.get(name, result), result)
            finally:
                process.terminate()
    loop = best["plain loop"][0]
    print(f"{len(rows)} completions, {given.latency:g} s a reply, best of {given.rounds} rounds")
    print(f"{'':20}{'seconds':>9}{'per second':>12}{'x loop':>8}{'agree':>8}")
    for name, (seconds, same) in best.items():
        rate, ratio = len(rows) / seconds, loop / seconds
        print(f"{name:20}{seconds:9.2f}{rate:12,.0f}{ratio:8.1f}{same:8}")


if __name__ == "__main__":
    main()
