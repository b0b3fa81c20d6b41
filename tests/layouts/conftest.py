"""Rows in the layouts of public data sets: their columns and types, with texts of our own.

Each has a completion that solves it; `WRONG` solves none of them.
"""

import base64
import pickle
import zlib
from types import SimpleNamespace

import pyarrow as pa
import pytest

MESSAGES = pa.list_(pa.struct([("content", pa.string()), ("role", pa.string())]))
TEXTS = pa.list_(pa.string())
DOUBLE = "```python\ndef double(n):\n    return n + n\n```"
SCRIPT = "```python\nprint(2 * int(input()))\n```"
METHOD = (
    "```python\nclass Solution:\n    def double(self, n: List) -> int:\n        return n + n\n```"
)
WRONG = "I do not know. The answer is 123456789."


def texts(*names):
    return [(name, pa.string()) for name in names]


def turns(*contents):
    roles = ("user", "assistant")
    return [{"content": c, "role": r} for c, r in zip(contents, roles, strict=False)]


def table(fields, *rows):
    return pa.Table.from_pylist(list(rows), pa.schema(fields))


GSM8K = table(  # openai/gsm8k, main
    texts("question", "answer"),
    {
        "question": "A hen lays 3 eggs a day. How many eggs does it lay in a week?",
        "answer": "A week has 7 days.\nIt lays 3*7=<<3*7=21>>21 eggs.\n#### 21",
    },
    {
        "question": "A car costs $500 and a wheel twice as much. What do both cost?",
        "answer": "The wheel costs $<<500*2=1000>>1000.\nBoth cost $1500.\n#### 1,500",
    },
)
MATH = table(  # EleutherAI/hendrycks_math, algebra
    texts("problem", "level", "type", "solution"),
    {
        "problem": "Solve $2x = 1$ for $x$.",
        "level": "Level 1",
        "type": "Algebra",
        "solution": "We divide by 2, so $x = \\boxed{\\frac{1}{2}}$.",
    },
)
DAPO = table(  # BytedTsinghua-SIA/DAPO-Math-17k
    [
        ("data_source", pa.string()),
        ("prompt", MESSAGES),
        ("ability", pa.string()),
        ("reward_model", pa.struct(texts("ground_truth", "style"))),
        ("extra_info", pa.struct(texts("index"))),
    ],
    {
        "data_source": "math_dapo",
        "prompt": turns("Solve the problem. End with Answer: $Answer.\n\nWhat is $6 * 7$?"),
        "ability": "MATH",
        "reward_model": {"ground_truth": "42", "style": "rule-lighteval/MATH_v2"},
        "extra_info": {"index": "9a9b6eb4-a1cb-49d1-8c1e-62eaf2f74079"},
    },
)
NUMINA_COT = table(  # AI-MO/NuminaMath-CoT
    [*texts("source", "problem", "solution"), ("messages", MESSAGES)],
    {
        "source": "cn_k12",
        "problem": "What is $3^2$?",
        "solution": "It is $3 * 3 = \\boxed{9}$.",
        "messages": turns("What is $3^2$?", "It is $3 * 3 = \\boxed{9}$."),
    },
)
NUMINA = table(  # AI-MO/NuminaMath-1.5
    [
        *texts("problem", "solution", "answer", "problem_type", "question_type"),
        *texts("problem_is_valid", "solution_is_valid", "source"),
        ("synthetic", pa.bool_()),
    ],
    {
        "problem": "What is $5 - 8$?",
        "solution": "It is $-3$.",
        "answer": "-3",
        "problem_type": "Algebra",
        "question_type": "math-word-problem",
        "problem_is_valid": "Yes",
        "solution_is_valid": "Yes",
        "source": "olympiads",
        "synthetic": False,
    },
)
OPEN_R1 = table(  # open-r1/OpenR1-Math-220k
    [
        *texts("problem", "solution", "answer", "problem_type", "question_type", "source", "uuid"),
        ("is_reasoning_complete", pa.list_(pa.bool_())),
        ("generations", TEXTS),
        ("correctness_math_verify", pa.list_(pa.bool_())),
        ("correctness_llama", pa.list_(pa.bool_())),
        ("finish_reasons", TEXTS),
        ("correctness_count", pa.int64()),
        ("messages", MESSAGES),
    ],
    {
        "problem": "What is half of $\\pi$?",
        "solution": "It is $\\pi/2$.",
        "answer": "\\frac{\\pi}{2}",
        "problem_type": "Geometry",
        "question_type": "math-word-problem",
        "source": "olympiads",
        "uuid": "586fd646-76d6-5070-8c81-9993ab9d8559",
        "is_reasoning_complete": [True, True],
        "generations": ["<think>a</think>\\boxed{\\pi/2}", "<think>b</think>\\boxed{\\pi}"],
        "correctness_math_verify": [True, False],
        "correctness_llama": None,
        "finish_reasons": None,
        "correctness_count": 1,
        "messages": turns("What is half of $\\pi$?", "<think>a</think>\\boxed{\\pi/2}"),
    },
)
DEEPSCALER = table(  # agentica-org/DeepScaleR-Preview-Dataset
    texts("problem", "answer", "solution"),
    {"problem": "Sum 1 to 4.", "answer": "10", "solution": "It is 5 * 4 / 2 = 10."},
)
BIG_MATH = table(  # SynthLabsAI/Big-Math-RL-Verified
    [
        *texts("problem", "answer", "source"),
        ("domain", TEXTS),
        ("llama8b_solve_rate", pa.float64()),
    ],
    {
        "problem": "What are 20 percent of 30?",
        "answer": "6",
        "source": "orca_math",
        "domain": ["Mathematics -> Arithmetic -> Other"],
        "llama8b_solve_rate": 0.9,
    },
)
MBPP = table(  # google-research-datasets/mbpp, full
    [
        ("task_id", pa.int32()),
        *texts("text", "code"),
        ("test_list", TEXTS),
        ("test_setup_code", pa.string()),
        ("challenge_test_list", TEXTS),
    ],
    {
        "task_id": 601,
        "text": "Write a function to double a number.",
        "code": "def double(n):\r\n    return 2 * n",
        "test_list": ["assert double(2) == 4", "assert double(0) == 0"],
        "test_setup_code": "",
        "challenge_test_list": ["assert double(-3) == -6"],
    },
)
MBPP_SANITIZED = table(  # google-research-datasets/mbpp, sanitized
    [
        *texts("source_file"),
        ("task_id", pa.int32()),
        *texts("prompt", "code"),
        ("test_imports", TEXTS),
        ("test_list", TEXTS),
    ],
    {
        "source_file": "Benchmark Questions Verification V2.ipynb",
        "task_id": 2,
        "prompt": "Write a function to take the square root.",
        "code": "import math\ndef root(n):\n    return math.sqrt(n)",
        "test_imports": ["import math"],
        "test_list": ["assert math.isclose(root(4), 2)"],
    },
)
SPIDER = table(  # xlangai/spider
    [
        *texts("db_id", "query", "question"),
        ("query_toks", TEXTS),
        ("query_toks_no_value", TEXTS),
        ("question_toks", TEXTS),
    ],
    {
        "db_id": "pets",
        "query": "SELECT count(*) FROM pet",
        "question": "How many pets are there?",
        "query_toks": ["SELECT", "count", "(", "*", ")", "FROM", "pet"],
        "query_toks_no_value": ["select", "count", "(", "*", ")", "from", "pet"],
        "question_toks": ["How", "many", "pets", "are", "there", "?"],
    },
)
MMLU_PRO = table(  # TIGER-Lab/MMLU-Pro
    [
        ("question_id", pa.int64()),
        ("question", pa.string()),
        ("options", TEXTS),
        ("answer", pa.string()),
        ("answer_index", pa.int64()),
        *texts("cot_content", "category", "src"),
    ],
    {
        "question_id": 70,
        "question": "Which of these is a prime number?",
        "options": ["1", "4", "6", "8", "9", "10", "12", "14", "13", "15"],
        "answer": "I",
        "answer_index": 8,
        "cot_content": "",
        "category": "math",
        "src": "ori_mmlu-elementary_mathematics",
    },
)
MMLU = table(  # cais/mmlu
    [*texts("question", "subject"), ("choices", TEXTS), ("answer", pa.int64())],
    {"question": "1 + 1?", "subject": "arithmetic", "choices": ["0", "1", "2", "3"], "answer": 2},
)
ARC = table(  # allenai/ai2_arc, some of whose labels are numbers
    [
        *texts("id", "question"),
        ("choices", pa.struct([("text", TEXTS), ("label", TEXTS)])),
        ("answerKey", pa.string()),
    ],
    {
        "id": "Mercury_1",
        "question": "What is hot?",
        "choices": {"text": ["ice", "fire", "snow", "rain"], "label": ["1", "2", "3", "4"]},
        "answerKey": "2",
    },
)

# Of each: its rows, the layout and verifier that are recognised, and right completions.
HUMANEVAL = table(  # openai/openai_humaneval
    texts("task_id", "prompt", "canonical_solution", "test", "entry_point"),
    {
        "task_id": "HumanEval/0",
        "prompt": 'def double(n: int) -> int:\n    """Doubles."""\n',
        "canonical_solution": "    return 2 * n\n",
        "test": "METADATA = {}\n\n\ndef check(candidate):\n    assert candidate(2) == 4\n",
        "entry_point": "double",
    },
)
LEETCODE = table(  # newfacade/LeetCodeDataset
    texts("task_id", "starter_code", "prompt", "completion", "entry_point", "test", "query"),
    {
        "task_id": "double",
        "starter_code": "class Solution:\n    def double(self, n: int) -> int:\n        ",
        "prompt": "from typing import *\nfrom collections import *\n\ninf = float('inf')\n",
        "completion": "class Solution:\n    def double(self, n): return 2 * n\n",
        "entry_point": "Solution().double",
        "test": "def check(candidate):\n    assert candidate(n = 2) == 4\n",
        "query": "You are an expert Python programmer. Double a number.",
    },
)
APPS = table(  # codeparrot/apps; BAAI/TACO has more columns
    [
        ("problem_id", pa.int64()),
        *texts("question", "solutions", "input_output", "difficulty", "url", "starter_code"),
    ],
    {
        "problem_id": 1,
        "question": "Double a number.",
        "solutions": "[]",
        "input_output": '{"inputs": ["2\\n"], "outputs": ["4\\n"]}',
        "difficulty": "interview",
        "url": "",
        "starter_code": "",
    },
    {
        "problem_id": 2,
        "question": "Double a number.",
        "solutions": "[]",
        "input_output": '{"fn_name": "double", "inputs": [[2]], "outputs": [[4]]}',
        "difficulty": "introductory",
        "url": "",
        "starter_code": "def double(n):\n\t",
    },
)
SETS = pa.struct([("input", TEXTS), ("output", TEXTS)])
CODE_CONTESTS = table(  # deepmind/code_contests
    [
        *texts("name", "description"),
        ("public_tests", SETS),
        ("private_tests", SETS),
        ("generated_tests", SETS),
        ("source", pa.int64()),
    ],
    {
        "name": "1_A. Double",
        "description": "Double a number.",
        "public_tests": {"input": ["2\n"], "output": ["4\n"]},
        "private_tests": {"input": [], "output": []},
        "generated_tests": {"input": ["3\n"], "output": ["6\n"]},
        "source": 2,
    },
)
LIVECODEBENCH = table(  # livecodebench/code_generation_lite
    texts(
        *("question_title", "question_content", "platform", "question_id", "starter_code"),
        *("public_test_cases", "private_test_cases", "metadata"),
    ),
    {
        "question_title": "double",
        "question_content": "Double a number.",
        "platform": "leetcode",
        "question_id": "1",
        "starter_code": "class Solution:\n    def double(self, n: int) -> int:\n        ",
        "public_test_cases": '[{"input": "2", "output": "4", "testtype": "functional"}]',
        "private_test_cases": base64.b64encode(
            zlib.compress(pickle.dumps('[{"input": "3", "output": "6", "testtype": "functional"}]'))
        ).decode(),
        "metadata": '{"func_name": "double"}',
    },
)
KODCODE = table(  # KodCode/KodCode-V1
    [
        *texts("style", "question_id", "question", "solution", "test"),
        ("test_info", pa.list_(pa.struct(texts("function_declaration", "function_name")))),
    ],
    {
        "style": "instruct",
        "question_id": "Prefill_1",
        "question": "Double a number.",
        "solution": "def double(n): return 2 * n",
        "test": "from solution import double\n\ndef test_double():\n    assert double(2) == 4\n",
        "test_info": [{"function_declaration": "def double(n):", "function_name": "double"}],
    },
)
SYNTHETIC = table(  # PrimeIntellect/SYNTHETIC-1
    texts("problem_id", "prompt", "verification_info", "task_type"),
    {
        "problem_id": "1",
        "prompt": "Double a number.",
        "verification_info": "{'language': 'python', 'test_cases': [{'type': 'stdin_stdout', "
        "'fn_name': None, 'input': '2\\n', 'output': '4\\n'}]}",
        "task_type": "verifiable_code",
    },
)
SAMPLES = {
    "gsm8k": (GSM8K, "gsm8k", "math", ["So it is \\boxed{21}.", "... #### 1500"]),
    "math": (MATH, "math", "math", ["\\boxed{0.5}"]),
    "dapo": (DAPO, "verl", "math", ["6 * 7 = 42.\n\nAnswer: 42"]),
    "numina-cot": (NUMINA_COT, "math", "math", ["\\boxed{9}"]),
    "numina-1.5": (NUMINA, "numina-math", "math", ["\\boxed{-3}"]),
    "open-r1": (OPEN_R1, "numina-math", "math", ["\\boxed{\\pi/2}"]),
    "deepscaler": (DEEPSCALER, "deepscaler", "math", ["\\boxed{10}"]),
    "big-math": (BIG_MATH, "big-math", "math", ["\\boxed{6}"]),
    "mbpp": (MBPP, "mbpp", "code", ["```python\ndef double(n):\n    return n + n\n```"]),
    "mbpp-sanitized": (MBPP_SANITIZED, "mbpp", "code", ["def root(n):\n    return n ** 0.5\n"]),
    "humaneval": (HUMANEVAL, "humaneval", "code", [DOUBLE]),
    "leetcode": (LEETCODE, "leetcode-dataset", "code", [METHOD]),
    "apps": (APPS, "apps", "code", [SCRIPT, DOUBLE]),
    "code-contests": (CODE_CONTESTS, "code-contests", "code", [SCRIPT]),
    "livecodebench": (LIVECODEBENCH, "livecodebench", "code", [METHOD]),
    "kodcode": (KODCODE, "kodcode", "code", [DOUBLE]),
    "synthetic": (SYNTHETIC, "synthetic", "code", [SCRIPT]),
    "spider": (SPIDER, "spider", "sql", ["```sql\nSELECT count(name) FROM pet\n```"]),
    "mmlu-pro": (MMLU_PRO, "multiple-choice", "choice", ["The answer is (I)."]),
    "mmlu": (MMLU, "multiple-choice", "choice", ["The answer is (C)."]),
    "arc": (ARC, "multiple-choice", "choice", ["The answer is (B)."]),
}


@pytest.fixture(scope="session")
def samples():
    """What this file holds, by name."""
    return SimpleNamespace(**globals())
