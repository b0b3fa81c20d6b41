"""Makes directories and runs of the installed version of rlvr, for test_resume.py to resume.

    python -P tests/stored/make.py tests/stored/0.1.0

It was run once for each folder beside it, with the version that the folder is named after, on two
CPU cores. Its output is committed and never made again: see README.md. The folder must not exist.

Every command runs inside the folder, so that all paths in it are relative. A half-made directory
comes from a process that is killed (SIGKILL) just before it renames a file: what it has renamed
before is there, and the temporary file of what it was about to rename.

commands.json lists what was made, in this order. Each entry has a `directory`, the `command` that
made it (the words behind `rlvr`) and a `state`:

    whole     complete; the command finds nothing left to do
    half      killed; the same command finishes it
    shares    one share of three is done; the commands in `finish` do the others
    killed    a run of `train`, killed; the same command finishes it
    finished  a run of `train`; the command in `finish` asks for more steps
    model     a model directory, which a command refuses to write again

`killed_at` is the pattern of the files, and which of them in turn, whose rename was the end.
`needs` names the packages beyond rlvr's own that the command loads.
"""

import argparse
import contextlib
import fnmatch
import importlib.metadata
import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

TOKENIZER = Path(__file__).parents[2] / "fixtures" / "policy"
QUESTIONS = [
    "What is x?",
    "Add 1/2 and 1/3.",
    "Solve 2x = 6.",
    "How many sides has a cube?",
]
GOLDS = ["1/2", "\\frac{5}{6}", "3", "6"]
REWARD = '''"""A reward of a user's own: whether a completion is short."""


def short(completion, answer, extra):
    return len(completion) < 6
'''


@dataclass(frozen=True)
class Entry:
    """What is made by a command, and the pattern and number of the rename that it is killed at."""

    directory: str
    command: list[str]
    state: str
    killed_at: tuple[str, int] | None = None
    finish: tuple[list[str], ...] = ()
    needs: tuple[str, ...] = ()


def whole(directory: str, text: str, *needs: str) -> Entry:
    return Entry(directory, shlex.split(f"{text} --out {directory}"), "whole", needs=needs)


def half(
    directory: str, text: str, pattern: str, number: int = 1, *needs: str, state: str = "half"
) -> Entry:
    words = shlex.split(f"{text} --out {directory}")
    return Entry(directory, words, state, (pattern, number), needs=needs)


def shared(directory: str, text: str) -> Entry:
    first, *others = (shlex.split(f"{text} --out {directory} --shard {i}/3") for i in range(3))
    return Entry(directory, first, "shares", finish=tuple(others))


SAMPLED = "--model policy -n 4 --max-new-tokens 8 --prompts-per-part 2"
TWO_STAGE = (
    "lab two-stage --algo grpo --algo reinforce --group-size 4 --steps 40 --seeds 2 --jobs 1"
)
TRAIN = (
    f"train {SAMPLED} --prompts whole/prompts --heldout whole/heldout --prompts-per-step 4 "
    "--eval-num-generations 2 --learning-rate 1e-3"
)

STAGES = [
    whole("whole/prompts", "prompts task:expression --limit 8"),
    whole("whole/heldout", "prompts task:expression --split heldout --limit 4"),
    whole("whole/questions", "prompts questions.jsonl --id-column name --verifier math"),
    whole("whole/rollouts", f"rollout whole/prompts {SAMPLED}"),
    whole("whole/scores", "score whole/rollouts"),
    whole("whole/logprobs", "logprob whole/rollouts --ref-model policy --ref-top-k 8"),
    whole("whole/advantages", "advantage whole/scores --algo apo+kl:beta=0.01"),
    whole(
        "whole/update",
        "train-step whole/advantages --learning-rate 1e-3 --epochs 2 --mini-batch-prompts 4",
    ),
    whole("whole/update-lora", "train-step whole/advantages --lora-rank 2", "peft"),
    whole(
        "whole/update-deepspeed",
        "train-step whole/advantages --trainer deepspeed:zero=1",
        "deepspeed",
    ),
    whole(
        "whole/prompts-harder", "prompts whole/prompts --drop-easiest 0.25 --scores whole/scores"
    ),
    whole("whole/scores-sum", "score whole/rollouts --verifier 0.9*expression+0.1*format"),
    whole("whole/scores-custom", "score whole/rollouts --verifier reward.py:short"),
    whole("whole/logprobs-old", "logprob whole/rollouts --columns old_logp"),
    whole("whole/advantages-grpo", "advantage whole/scores-sum --drop-uninformative"),
    whole("whole/dlc/rollouts", f"rollout whole/prompts {SAMPLED} --memory-model auto --mu 0.3"),
    whole("whole/dlc/scores", "score whole/dlc/rollouts"),
    whole("whole/dlc/advantages", "advantage whole/dlc/scores --algo grpo+dlc"),
    whole("whole/dlc/update", "train-step whole/dlc/advantages"),
    whole("whole/dlc/memory", "memory-step whole/dlc/rollouts --memory-learning-rate 1e-3"),
    whole(
        "whole/rollouts-drawn",
        f"rollout whole/prompts {SAMPLED} --max-draws 2 --prompts-per-step 4 --step 1",
    ),
    whole("whole/rollouts-graph", f"rollout whole/prompts {SAMPLED} --engine graph:rows=4"),
    whole(
        "whole/rollouts-vllm",
        "rollout whole/prompts --limit 2 -n 2 --max-new-tokens 8 --engine vllm:max_length=64",
        "vllm",
    ),
    whole(
        "whole/rollouts-replayed",
        f"rollout whole/prompts {SAMPLED} --engine replay:path=whole/rollouts",
    ),
    Entry(
        "whole/model",
        shlex.split("convert policy --dtype float32 --out whole/model"),
        state="model",
    ),
    whole("whole/passk", "eval-passk whole/scores --k 1,4"),
    whole("whole/ucc", "ucc whole/scores --k 1,4 --threshold 0.6,0.8"),
    whole("whole/diversity", "diversity whole/scores --logprobs whole/logprobs"),
    whole("whole/coverage", "coverage solutions.jsonl --model policy --k 1,8"),
    whole("whole/imported", "import answers.jsonl"),
    whole("whole/imported-scores", "score whole/imported/rollouts --verifier math:percent=strict"),
    whole("whole/imported-passk", "eval-passk whole/imported-scores --k 1,2"),
    whole("whole/imported-tokens", "import answers.jsonl --model policy"),
    whole("whole/two-stage", f"{TWO_STAGE} --format none"),
    whole("whole/squeeze", "lab squeeze --seeds 1 --jobs 1 --format none"),
]

HALF_MADE = [
    half("half/prompts", "prompts many.jsonl --verifier number", "*/part-00001.parquet"),
    half("half/rollouts", f"rollout whole/prompts {SAMPLED}", "*/part-00002.parquet"),
    half(
        "half/rollouts-spooled",
        f"rollout whole/prompts {SAMPLED} --engine graph:rows=4",
        "*/part-00002.parquet",
    ),
    half(
        "half/rollouts-drawn",
        f"rollout whole/prompts {SAMPLED} -n 2 --max-draws 2 --prompts-per-step 4 --step 1",
        "*/_draws/1/rollouts/part-00001.parquet",
    ),
    half("half/scores", "score whole/rollouts", "*/part-00003.parquet"),
    half("half/logprobs", "logprob whole/rollouts --ref-model policy", "*/part-00003.parquet"),
    half("half/advantages", "advantage whole/scores", "*/part-00001.parquet"),
    half("half/update", "train-step whole/advantages-grpo", "*/_checkpoint"),
    half("half/update-unlisted", "train-step whole/advantages-grpo", "*/_manifest.json"),
    half("half/memory", "memory-step whole/dlc/rollouts", "*/part-00000.parquet"),
    half("half/passk", "eval-passk whole/scores --k 1,2", "*/_manifest.json"),
    half("half/imported", "import many.parquet", "*/rollouts/part-00001.parquet"),
    half("half/imported-scores", "import answers.jsonl", "*/scores/part-00000.parquet"),
    half("half/two-stage", f"{TWO_STAGE} --format none", "*/part-00001.parquet"),
    half(
        "half/squeeze",
        "lab squeeze --seeds 1 --jobs 1 --format none",
        "*/checks/part-00000.parquet",
    ),
    half("half/model", "convert policy", "half/model", state="model"),
    shared("shares/rollouts", f"rollout whole/prompts {SAMPLED}"),
    shared("shares/scores", "score whole/rollouts"),
]

RUNS = [
    half(
        "runs/grpo",
        f"{TRAIN} --algo grpo --steps 6 --save-every 2 --eval-every 4",
        "*/000004/rollouts/part-00001.parquet",
        state="killed",
    ),
    half(
        "runs/lora",
        "train --lora-rank 1 --lora-targets q_proj,v_proj --steps 4 --prompts-per-step 4 -n 4 "
        "--eval-every 0",
        "*/000003/update/part-00000.parquet",
        1,
        "peft",
        state="killed",
    ),
    half(
        "runs/dlc",
        f"{TRAIN} --algo grpo+dlc --mu 0.3 --engine graph:rows=8 --steps 5 --save-every 2 "
        "--eval-every 5",
        "*/000004/memory/part-00000.parquet",
        state="killed",
    ),
    half(
        "runs/drawn",
        f"{TRAIN} --algo dapo+kl -n 6 --max-draws 3 --steps 3 --eval-every 2",
        "*/eval/000002/scores/part-00001.parquet",
        state="killed",
    ),
    Entry(
        "runs/finished",
        shlex.split(f"{TRAIN} --algo apo --keep 1 --steps 3 --eval-every 3 --out runs/finished"),
        "finished",
        finish=(
            shlex.split(
                f"{TRAIN} --algo apo --keep 1 --steps 5 --eval-every 3 --out runs/finished"
            ),
        ),
    ),
]


def run(words: list[str], killed_at: tuple[str, int] | None = None) -> None:
    """Runs a command in a process of its own, which must end well, or be killed as planned."""
    pattern, number = killed_at or ("", 0)
    child = [sys.executable, "-P", str(Path(__file__).resolve()), "--child", pattern, str(number)]
    code = subprocess.run([*child, *words], stdout=subprocess.DEVNULL).returncode
    assert code == (-signal.SIGKILL if killed_at else 0), f"{shlex.join(words)} ended with {code}"


def child(pattern: str, number: int, words: list[str]) -> None:
    """The command `rlvr`, killed just before it renames the number-th file of a pattern."""
    left = number

    def killing(rename):
        def instead(source, target):
            nonlocal left
            left -= bool(pattern) and fnmatch.fnmatch(os.fspath(target), pattern)
            if pattern and not left:
                os.kill(os.getpid(), signal.SIGKILL)
            return rename(source, target)

        return instead

    os.replace, os.rename, os.link = killing(os.replace), killing(os.rename), killing(os.link)
    if pattern and "graph:rows=4" in words:
        spool_on_a_cpu()
    (entry,) = importlib.metadata.entry_points(group="console_scripts", name="rlvr")
    sys.argv = ["rlvr", *words]
    entry.load()()


def spool_on_a_cpu() -> None:
    """Has the engine `graph` hand out completions one by one, as it does on a GPU."""
    from rlvr_cli.rollout import graph

    graph.Engine.streams = property(lambda self: True, lambda self, value: None)


def make_policy(out: Path) -> None:
    """A causal language model of some 1,500 weights that has seen right answers to the task."""
    import torch
    from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(TOKENIZER)
    config = Qwen2Config(
        vocab_size=len(tokenizer), hidden_size=8, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=64,
        tie_word_embeddings=True, pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id, bos_token_id=None, initializer_range=0.2,
    )  # fmt: skip
    model, chance = Qwen2ForCausalLM(config), random.Random(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    pairs = [(a, b) for a in range(1, 10) for b in range(1, 10)]
    texts = [f"{a + b}={a}+{b}" for a, b in pairs] + [f"{a + b}=1+{a - 1}+{b}" for a, b in pairs]
    for _ in range(400):
        rows = [[*tokenizer(text)["input_ids"], tokenizer.eos_token_id] for text in
                chance.choices(texts, k=64)]  # fmt: skip
        labels_BS = torch.tensor([row + [-100] * (9 - len(row)) for row in rows])
        tokens_BS = labels_BS.clamp(min=tokenizer.pad_token_id)
        optimizer.zero_grad()
        model(input_ids=tokens_BS, labels=labels_BS).loss.backward()
        optimizer.step()
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


def make_files() -> None:
    """The files of other tools that prompts and completions are read from."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    questions = [
        {"name": f"q{i}", "question": question, "answer": gold, "level": i}
        for i, (question, gold) in enumerate(zip(QUESTIONS, GOLDS, strict=True))
    ]
    answers = [
        {
            "id": row["name"],
            "prompt": row["question"],
            "answer": row["answer"],
            "completion": f"It is \\boxed{{{answer}}}.",
            "correct": answer == row["answer"],
            "data_source": "written by hand",
        }
        for row in questions
        for answer in (row["answer"], "7", "0.5")
    ]
    solutions = [{"prompt": f"{n}=", "solution": f"{n - 1}+1"} for n in range(2, 8)]
    many = [{"prompt": f"{n}=", "answer": str(n)} for n in range(1030)]
    files = {"questions": questions, "answers": answers, "solutions": solutions, "many": many}
    for name, rows in files.items():
        Path(f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    columns = {
        "id": [f"p{prompt}" for prompt in range(4) for _ in range(4200)],
        "completion": [f"{row % 5}" for row in range(4 * 4200)],
        "correct": [row % 5 == 3 for row in range(4 * 4200)],
    }
    pq.write_table(pa.table(columns), "many.parquet", compression="zstd")
    Path("reward.py").write_text(REWARD)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    out = parser.parse_args().out
    out.mkdir(parents=True)
    with contextlib.chdir(out), tempfile.TemporaryDirectory() as cache:
        os.environ |= {"XDG_CACHE_HOME": cache, "OMP_NUM_THREADS": "1"}
        make_policy(Path("policy"))
        make_files()
        entries = [*STAGES, *HALF_MADE, *RUNS]
        for number, entry in enumerate(entries, 1):
            print(f"{number} of {len(entries)}: {entry.directory}", file=sys.stderr, flush=True)
            run(entry.command, entry.killed_at)
        shutil.rmtree("__pycache__", ignore_errors=True)
        listed = json.dumps([asdict(entry) for entry in entries], indent=1)
        Path("commands.json").write_text(listed + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], int(sys.argv[3]), sys.argv[4:])
    else:
        main()
