"""What several test files share."""

import functools
import gc
import importlib.util
import itertools
import json
import runpy
import shutil
import signal
import socket
import sys
import threading
import types
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import hypothesis
import pytest
import torch

from rlvr_cli.cli import app
from rlvr_cli.models import policy

gc.disable()  # until the tests are collected: all that this makes stays
torch.set_num_threads(1)
# The examples are the same each time; `pytest --hypothesis-profile untimed` tries others.
hypothesis.settings.register_profile("untimed", deadline=None, derandomize=False)
hypothesis.settings.register_profile("repeated", deadline=None, derandomize=True)
hypothesis.settings.load_profile("repeated")

LONGEST = (
    "test_run.py", "test_deepspeed.py", "test_distributed.py", "test_nodes.py", "test_vllm.py",
    "test_run_options.py", "test_objective.py", "test_triton.py", "test_attacks.py",
    "test_phases.py", "test_dynamic.py", "test_quatro.py",
)  # fmt: skip


def pytest_addoption(parser):
    help = "how many random batches hold each objective and modifier to its equations"
    parser.addoption("--batches", type=int, default=100, help=help)


def pytest_configure():
    """A shell has what it starts in the background ignore SIGINT: the tests interrupt processes."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


@functools.cache
def why_absent(engine):
    """Why an engine's tests cannot run: as noted when it could not be installed; None if it is."""
    prefix = Path(sys.prefix)
    if importlib.util.find_spec(engine) or (prefix / engine / engine).exists():
        return None
    noted = prefix / "missing.txt"
    lines = noted.read_text().splitlines() if noted.exists() else []
    notes = dict(line.split(": ", 1) for line in lines)
    return notes.get(engine, "not installed; `make test` installs it where there is a build")


def pytest_runtest_setup(item):
    for mark in item.iter_markers("engine"):
        if why := why_absent(*mark.args):
            pytest.skip(f"{mark.args[0]} ({why})")


def pytest_terminal_summary(terminalreporter):
    """The last lines name what was skipped."""
    skipped = terminalreporter.stats.get("skipped", ())
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    for reason, count in reasons.items():
        terminalreporter.write_line(f"not tested here: {reason}; {count} skipped")
    failed = Path(sys.prefix) / "failed.txt"
    if failed.exists() and (said := failed.read_text().strip()):
        terminalreporter.write_line(
            f"NOT TESTED, though there is a build, and it could not be installed: {said}", red=True
        )


def pytest_collection_modifyitems(config, items):
    """Workers of xdist begin with the files that take longest, so that they end together."""
    if hasattr(config, "workerinput"):
        places = {name: place for place, name in enumerate(LONGEST)}
        items.sort(key=lambda item: places.get(item.path.name, len(places)))


@pytest.fixture(scope="session")
def loaded():
    """The built-in policy in memory; tests that change its weights load their own."""
    return policy.load(policy.resolve("builtin"))


@pytest.fixture(scope="session")
def vision(tmp_path_factory):
    """What tests/vision.py has, and `policy(kind)`: the path of a tiny policy, written once."""
    pytest.importorskip("PIL")
    names = runpy.run_path(str(Path(__file__).with_name("vision.py")))
    folder = tmp_path_factory.mktemp("vision")
    policy = functools.cache(lambda kind: names["tiny"](kind, folder / kind))
    return types.SimpleNamespace(**names | {"policy": policy})


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory):
    """Verdicts of these tests alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def _own_imports():
    """Scripts that a test starts import their siblings, whatever a command before it has set."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONSAFEPATH", raising=False)
        yield


@pytest.fixture(scope="module", autouse=True)
def _no_groups_of_an_ended_world():
    """DeepSpeed holds on to groups of processes that vLLM, in the same process, has ended."""
    groups = sys.modules.get("deepspeed.utils.groups")
    if groups and not sys.modules["torch.distributed"].is_initialized():
        groups._release_process_group_references()


@pytest.fixture(scope="session")
def s3_server():
    pytest.importorskip("s3fs")
    pytest.importorskip("moto")
    server = runpy.run_path(str(Path(__file__).with_name("s3_server.py")))["S3Server"]()
    yield server
    server.stop()


@pytest.fixture
def bucket(s3_server, monkeypatch, tmp_path):
    """A bucket of a real S3 server, whose address and keys are in the environment."""
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("s3fs.S3FileSystem.retries", 2)  # it waits longer each time
    yield runpy.run_path(str(Path(__file__).with_name("s3_server.py")))["Bucket"](s3_server)
    s3_server.fault = lambda method, path: None


@dataclass(frozen=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str


@pytest.fixture
def rlvr(capsys):
    """Runs a command in this process."""

    def run(*words: object) -> Ran:
        capsys.readouterr()
        code = app.run([str(word) for word in words])
        return Ran(code, *capsys.readouterr())

    return run


@pytest.fixture
def refused(rlvr):
    """Runs a command that must end with `code`, one error line and at most one hint; its stderr.

    It leaves no empty folder where `--out` says.
    """

    def run(code: int, *words: object) -> str:
        out = next((Path(str(b)) for a, b in itertools.pairwise(words) if a == "--out"), Path())
        is_new = not out.exists()
        ran = rlvr(*words)
        assert not (is_new and out.is_dir() and not [*out.iterdir()]), f"it leaves `{out}`"
        starts = [line.partition(" ")[0] for line in ran.err.splitlines()]
        assert (ran.code, ran.out) == (code, ""), ran
        assert starts.count("error:") == 1 and starts.count("hint:") <= 1, ran.err
        assert starts[-2:] == ["error:", "hint:"] or starts[-1] == "error:", ran.err
        return ran.err

    return run


@pytest.fixture(scope="session")
def chain(tmp_path_factory):
    """prompts, rollouts, scores and advantages of six prompts, in two parts; not to be changed."""
    root = tmp_path_factory.mktemp("chain")
    for words in (
        ["prompts", "task:expression", "--limit", "6", "--out", f"{root}/prompts"],
        ["rollout", f"{root}/prompts", "-n4", "--max-new-tokens=16", "--prompts-per-part=3"],
        ["score", f"{root}/rollouts"],
        ["advantage", f"{root}/scores"],
    ):
        assert app.run(words) == 0
    return root


EXPERTS = {
    "qwen3_moe": {"num_experts": 4, "moe_intermediate_size": 32, "head_dim": 32},
    "qwen2_moe": {"num_experts": 4, "moe_intermediate_size": 32},
    "mixtral": {"num_local_experts": 4},
    "granitemoe": {"num_local_experts": 4},
    "gpt_oss": {"num_local_experts": 4, "head_dim": 32},
}


@pytest.fixture(scope="session")
def mixture(tmp_path_factory, loaded):
    """Makes a random mixture of 4 experts, 2 of them a token, of a kind; its directory."""
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM

    def make(kind):
        sizes = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2}
        heads = {"num_attention_heads": 2, "num_key_value_heads": 1}
        ends = {"eos_token_id": loaded.eos_ids[0], "pad_token_id": loaded.pad_id}
        vocabulary = loaded.model.get_input_embeddings().weight.shape[0]
        config = CONFIG_MAPPING[kind](
            **sizes, **heads, **ends, **EXPERTS[kind], vocab_size=vocabulary, bos_token_id=None,
            num_experts_per_tok=2, max_position_embeddings=256, initializer_range=0.2,
        )  # fmt: skip
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model = AutoModelForCausalLM.from_config(config)
        path = tmp_path_factory.mktemp(kind)
        model.save_pretrained(path)
        loaded.tokenizer.save_pretrained(path)
        return path

    return functools.cache(make)


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """Two steps of train, evaluated at each; not to be changed."""
    out = tmp_path_factory.mktemp("trained") / "run"
    words = ["--steps=2", "--prompts-per-step=4", "-n4", "--max-new-tokens=16", "--eval-every=1"]
    assert app.run(["train", *words, "--eval-num-generations=2", "--out", str(out)]) == 0
    return out


@pytest.fixture
def copy(chain, tmp_path):
    """The chain, to be changed."""
    return shutil.copytree(chain, tmp_path / "copy")


@pytest.fixture(scope="session")
def known(tmp_path_factory):
    """A chain imported as text with token ids; prompt a has 2 right of 4, prompt b 1 of 4."""
    root = tmp_path_factory.mktemp("known")
    rows = [
        {"id": name, "prompt": prompt, "answer": prompt[0], "completion": text, "correct": right,
         "finish_reason": "stop"}
        for name, prompt, texts in (
            ("a", "5=", {"2+3": True, "1+1": False, "9-4": True, "5": False}),
            ("b", "6=", {"3+3": True, "1+1": False, "9-4": False, "6": False}),
        )
        for text, right in texts.items()
    ]  # fmt: skip
    (root / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["import", f"{root}/rows.jsonl", "--out", str(root), "--model", "builtin"]
    assert app.run(words) == 0
    return root


@pytest.fixture
def reserved_port():
    """A free port of the loopback, which nobody else is given before a process listens on it."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as whoever listens does
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@pytest.fixture
def jsonl(tmp_path):
    """Writes rows to a JSONL file; its path."""

    def write(*rows: object, name: str = "rows.jsonl") -> Path:
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        return tmp_path / name

    return write


@pytest.fixture(scope="session")
def files_of():
    """The files of a directory and their bytes."""
    return lambda path: {p.name: p.read_bytes() for p in path.glob("*.*")}


@pytest.fixture
def punkt(tmp_path, monkeypatch):
    """A model of sentences that knows one abbreviation, where nltk looks first."""
    import nltk

    folder = tmp_path / "nltk_data"
    model = folder / "tokenizers" / "punkt_tab" / "english"
    model.mkdir(parents=True)
    for name in ("collocations.tab", "sent_starters.txt", "ortho_context.tab"):
        (model / name).write_text("")
    (model / "abbrev_types.txt").write_text("mr\n")
    monkeypatch.setattr(nltk.data, "path", [str(folder), *nltk.data.path])
    monkeypatch.setenv("NLTK_DATA", str(folder))  # for worker processes


@functools.cache
def _chat_server():
    return runpy.run_path(str(Path(__file__).with_name("chat_server.py")))["Chat"]


@pytest.fixture
def chat():
    """A server on the loopback that judges: tests/chat_server.py."""
    with _chat_server()() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@functools.cache
def _family():
    return runpy.run_path(str(Path(__file__).with_name("processes.py")))["Family"]


@pytest.fixture
def family():
    """All processes that come of one command: tests/processes.py; none is left after the test."""
    with _family()() as family:
        yield family
