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
MBPP_PLUS = table(  # evalplus/mbppplus
    [
        ("task_id", pa.int64()),
        *texts("code", "prompt", "source_file"),
        ("test_imports", TEXTS),
        ("test_list", TEXTS),
        *texts("test"),
    ],
    {
        "task_id": 3,
        "code": "def double(n):\n    return 2 * n",
        "prompt": "Write a function to double a number.",
        "source_file": "Benchmark Questions Verification V2.ipynb",
        "test_imports": [],
        "test_list": ["assert double(2) == 4"],
        "test": "inputs = [[-3], [7]]\nresults = [-6, 14]\n"
        "for inp, exp in zip(inputs, results):\n    assert double(*inp) == exp\n",
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
MEDQA = table(  # GBaker/MedQA-USMLE-4-options
    [
        *texts("question", "answer"),
        ("options", pa.struct([(letter, pa.string()) for letter in "ABCDE"])),
        *texts("meta_info", "answer_idx"),
    ],
    {
        "question": "Which is a vitamin?",
        "answer": "C",
        "options": {"A": "B", "B": "D", "C": "lead", "D": "C", "E": None},
        "meta_info": "step1",
        "answer_idx": "D",
    },
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
OPENBOOKQA = table(  # allenai/openbookqa
    [
        *texts("id", "question_stem"),
        ("choices", pa.struct([("text", TEXTS), ("label", TEXTS)])),
        ("answerKey", pa.string()),
    ],
    {
        "id": "7-1",
        "question_stem": "The sun is",
        "choices": {"text": ["cold", "hot"], "label": ["A", "B"]},
        "answerKey": "B",
    },
)
AQUA = table(  # deepmind/aqua_rat
    [*texts("question"), ("options", TEXTS), *texts("rationale", "correct")],
    {
        "question": "What is 3 * 7?",
        "options": ["A)18", "B)20", "C) 21", "D)24", "E)27"],
        "rationale": "It is 21.",
        "correct": "C",
    },
)
MEDMCQA = table(  # openlifescienceai/medmcqa
    [
        *texts("id", "question", "opa", "opb", "opc", "opd"),
        ("cop", pa.int64()),
        *texts("choice_type", "exp", "subject_name", "topic_name"),
    ],
    {
        "id": "e9ad821a-c438-4965-9f77-760819dfa155",
        "question": "Which of these pumps blood?",
        "opa": "Liver",
        "opb": "Lung",
        "opc": "Heart",
        "opd": "Skin",
        "cop": 2,
        "choice_type": "single",
        "exp": "It is a muscle.",
        "subject_name": "Anatomy",
        "topic_name": None,
    },
)
OPEN_REASONER_ZERO = table(  # Open-Reasoner-Zero/orz_math_57k_collection
    [
        ("0", pa.struct(texts("from", "value"))),
        ("1", pa.struct([("from", pa.string()), ("ground_truth", pa.struct(texts("value")))])),
    ],
    {
        "0": {"from": "human", "value": "What is $6 * 7$?"},
        "1": {"from": "assistant", "ground_truth": {"value": "42"}},
    },
)
AIME = table(  # HuggingFaceH4/aime_2024
    [("id", pa.int64()), *texts("problem", "solution", "answer", "url", "year")],
    {
        "id": 60,
        "problem": "Find the remainder of $7^2$ divided by 10.",
        "solution": "It is $49 \\equiv 9$.",
        "answer": "9",
        "url": "https://artofproblemsolving.com/",
        "year": "2024",
    },
)
OLYMPIAD = table(  # Hothan/OlympiadBench, OE_TO_maths_en_COMP
    [
        ("id", pa.int64()),
        ("question", pa.string()),
        ("solution", TEXTS),
        ("final_answer", TEXTS),
        *texts("context", "image_1", "modality", "difficulty"),
        ("is_multiple_answer", pa.bool_()),
        *texts("unit", "answer_type", "error", "question_type", "subfield", "subject", "language"),
    ],
    {
        "id": 1606,
        "question": "Which two integers have the square 4?",
        "solution": ["They are $2$ and $-2$."],
        "final_answer": ["$2$", "$-2$"],
        "context": "All numbers are integers.",
        "modality": "Text-only",
        "is_multiple_answer": True,
        "answer_type": "Numerical",
        "question_type": "OE",
    },
)
GPQA = table(  # Idavidrein/gpqa, some of whose columns
    texts("Question", "Correct Answer", *(f"Incorrect Answer {n}" for n in (1, 2, 3)), "Subdomain"),
    {
        "Question": "Which of these is a noble gas?\n",
        "Correct Answer": "Neon\n",
        "Incorrect Answer 1": "Iron",
        "Incorrect Answer 2": "Zinc",
        "Incorrect Answer 3": "Lead",
        "Subdomain": "Chemistry (general)",
    },
)
BIRD = table(  # birdsql/bird_mini_dev
    [("question_id", pa.int64()), *texts("db_id", "question", "evidence", "SQL", "difficulty")],
    {
        "question_id": 1,
        "db_id": "pets",
        "question": "How many young pets are there?",
        "evidence": "young refers to age < 4",
        "SQL": "SELECT count(*) FROM pet WHERE age < 4",
        "difficulty": "simple",
    },
)

SEARCH_R1 = table(  # PeterGriffinJin/Search-R1, scripts/data_process/nq_search.py
    [
        ("data_source", pa.string()),
        ("prompt", MESSAGES),
        ("ability", pa.string()),
        (
            "reward_model",
            pa.struct([("ground_truth", pa.struct([("target", TEXTS)])), ("style", pa.string())]),
        ),
        ("extra_info", pa.struct([("index", pa.int64()), ("split", pa.string())])),
    ],
    {
        "data_source": "nq",
        "prompt": turns("Answer the question, as in <answer> Beijing </answer>. Who wrote Emma?"),
        "ability": "fact-reasoning",
        "reward_model": {"ground_truth": {"target": ["Austen", "Jane Austen"]}, "style": "rule"},
        "extra_info": {"index": 0, "split": "train"},
    },
)
FLASH_RAG = table(  # RUC-NLPIR/FlashRAG_datasets, nq
    [*texts("id", "question"), ("golden_answers", TEXTS)],
    {"id": "test_0", "question": "who wrote emma", "golden_answers": ["Austen", "Jane Austen"]},
)
NQ_OPEN = table(  # google-research-datasets/nq_open
    [("question", pa.string()), ("answer", TEXTS)],
    {"question": "when was emma published", "answer": ["1815", "23 December 1815"]},
)
HOTPOT_QA = table(  # hotpotqa/hotpot_qa, distractor
    [
        *texts("id", "question", "answer", "type", "level"),
        ("supporting_facts", pa.struct([("title", TEXTS), ("sent_id", pa.list_(pa.int32()))])),
        ("context", pa.struct([("title", TEXTS), ("sentences", pa.list_(TEXTS))])),
    ],
    {
        "id": "5a7a06935542990198eaf050",
        "question": "Were Emma and Persuasion written by one person?",
        "answer": "yes",
        "type": "comparison",
        "level": "medium",
        "supporting_facts": {"title": ["Emma", "Persuasion"], "sent_id": [0, 0]},
        "context": {
            "title": ["Emma", "Persuasion"],
            "sentences": [["Emma is by Jane Austen.", " It is long."], ["So is Persuasion."]],
        },
    },
)
TRIVIA_QA = table(  # mandarjoshi/trivia_qa, rc.nocontext
    [
        *texts("question", "question_id", "question_source"),
        (
            "answer",
            pa.struct([("aliases", TEXTS), ("normalized_aliases", TEXTS), *texts("value", "type")]),
        ),
    ],
    {
        "question": "Which city has the Eiffel Tower?",
        "question_id": "tc_1",
        "question_source": "http://www.triviacountry.com/",
        "answer": {
            "aliases": ["Paris", "Paris, France"],
            "normalized_aliases": ["paris", "paris france"],
            "value": "Paris",
            "type": "WikipediaEntity",
        },
    },
)
SQUAD = table(  # rajpurkar/squad
    [
        *texts("id", "title", "context", "question"),
        ("answers", pa.struct([("text", TEXTS), ("answer_start", pa.list_(pa.int32()))])),
    ],
    {
        "id": "5733be284776f41900661182",
        "title": "Emma",
        "context": "Emma was published in December 1815.",
        "question": "When was Emma published?",
        "answers": {"text": ["December 1815", "1815"], "answer_start": [22, 31]},
    },
)
NUMBERS = {"num_words": pa.int64(), "num_sentences": pa.int64()}
IFEVAL = table(  # google/IFEval
    [
        ("key", pa.int64()),
        ("prompt", pa.string()),
        ("instruction_id_list", TEXTS),
        ("kwargs", pa.list_(pa.struct([*NUMBERS.items(), ("relation", pa.string())]))),
    ],
    {
        "key": 1000,
        "prompt": "Greet me in less than 3 words, and without commas.",
        "instruction_id_list": ["length_constraints:number_words", "punctuation:no_comma"],
        "kwargs": [
            {"num_words": 3, "num_sentences": None, "relation": "less than"},
            {"num_words": None, "num_sentences": None, "relation": None},
        ],
    },
)
RLVR_IFEVAL = table(  # allenai/RLVR-IFeval
    [
        ("messages", MESSAGES),
        *texts("ground_truth", "dataset", "constraint_type", "constraint"),
    ],
    {
        "messages": turns("Greet me. Your entire response should be in lowercase letters."),
        "ground_truth": '{"func_name": "validate_lowercase", "N": null, "quantifier": null}',
        "dataset": "ifeval",
        "constraint_type": "All Lowercase",
        "constraint": "Your entire response should be in English, and in all lowercase letters.",
    },
)
RLVR_GSM = table(  # allenai/RLVR-GSM, with the lists of one that newer data sets have
    [("messages", MESSAGES), ("ground_truth", TEXTS), ("dataset", TEXTS)],
    {
        "messages": turns("Question: What is 6 * 7?\nAnswer:"),
        "ground_truth": ["42"],
        "dataset": ["gsm8k"],
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
SYNTHETIC_MATH = table(  # PrimeIntellect/SYNTHETIC-1, rows of mathematics
    texts("problem_id", "prompt", "verification_info", "task_type"),
    *(
        {
            "problem_id": name,
            "prompt": f"Half of $x$? ({name})",
            "verification_info": info,
            "task_type": "verifiable_math",
        }
        for name, info in (
            ("1", "{'ground_truth': '\\\\frac{x}{2}'}"),
            ("2", '{"ground_truth": "\\\\frac{x}{2}"}'),
        )
    ),
)
DOT = (  # a PNG of one red pixel
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nG"
    "P4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
)
GEOMETRY3K = table(  # hiyouga/geometry3k, whose images are structs of bytes
    [
        ("images", TEXTS),
        *texts("problem", "answer"),
        ("id", pa.int64()),
        ("choices", TEXTS),
        ("ground_truth", pa.string()),
    ],
    {
        "images": [DOT],
        "problem": "<image>Find x.",
        "answer": "2 \\sqrt { 221 }",
        "id": 2401,
        "choices": ["5", "2 \\sqrt { 221 }", "29", "30"],
        "ground_truth": "B",
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
    "mbpp-plus": (MBPP_PLUS, "mbpp", "code", [DOUBLE]),
    "humaneval": (HUMANEVAL, "humaneval", "code", [DOUBLE]),
    "leetcode": (LEETCODE, "leetcode-dataset", "code", [METHOD]),
    "apps": (APPS, "apps", "code", [SCRIPT, DOUBLE]),
    "code-contests": (CODE_CONTESTS, "code-contests", "code", [SCRIPT]),
    "livecodebench": (LIVECODEBENCH, "livecodebench", "code", [METHOD]),
    "kodcode": (KODCODE, "kodcode", "code", [DOUBLE]),
    "synthetic": (SYNTHETIC, "synthetic", "code", [SCRIPT]),
    "spider": (SPIDER, "spider", "sql", ["```sql\nSELECT count(name) FROM pet\n```"]),
    "synthetic-math": (SYNTHETIC_MATH, "synthetic", "math", ["\\boxed{x/2}"] * 2),
    "medqa": (MEDQA, "multiple-choice", "choice", ["The answer is (D)."]),
    "mmlu-pro": (MMLU_PRO, "multiple-choice", "choice", ["The answer is (I)."]),
    "mmlu": (MMLU, "multiple-choice", "choice", ["The answer is (C)."]),
    "aime": (AIME, "competition", "math", ["So it is \\boxed{9}."]),
    "olympiad": (OLYMPIAD, "competition", "math", ["\\boxed{-2, 2}"]),
    "gpqa": (GPQA, "gpqa", "choice", ["The answer is Neon."]),
    "geometry3k": (GEOMETRY3K, "geometry3k", "math", ["So it is $\\boxed{\\sqrt{884}}$."]),
    "bird": (BIRD, "spider", "sql", ["SELECT count(*) FROM pet WHERE age <= 3"]),
    "arc": (ARC, "multiple-choice", "choice", ["The answer is (B)."]),
    "openbookqa": (OPENBOOKQA, "multiple-choice", "choice", ["The answer is (B)."]),
    "aqua": (AQUA, "multiple-choice", "choice", ["The answer is (C)."]),
    "medmcqa": (MEDMCQA, "medmcqa", "choice", ["The answer is (C)."]),
    "orz": (OPEN_REASONER_ZERO, "open-reasoner-zero", "math", ["So it is \\boxed{42}."]),
    "search-r1": (SEARCH_R1, "verl", "qa", ["<think>...</think> <answer> Jane Austen </answer>"]),
    "flash-rag": (FLASH_RAG, "question-answering", "qa", ["The answer is Jane Austen."]),
    "nq-open": (NQ_OPEN, "question-answering", "qa", ["Final answer: 1815"]),
    "hotpot-qa": (HOTPOT_QA, "question-answering", "qa", ["Yes."]),
    "trivia-qa": (TRIVIA_QA, "question-answering", "qa", ["\\boxed{\\text{Paris}}"]),
    "squad": (SQUAD, "question-answering", "qa", ["December 1815"]),
    "ifeval": (IFEVAL, "ifeval", "ifeval", ["Good morning!"]),
    "rlvr-ifeval": (RLVR_IFEVAL, "open-instruct", "ifeval", ["good morning"]),
    "rlvr-gsm": (RLVR_GSM, "open-instruct", "math", ["So the answer is 42."]),
}


@pytest.fixture(scope="session")
def samples():
    """What this file holds, by name."""
    return SimpleNamespace(**globals())
