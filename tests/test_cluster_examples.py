"""The files of examples/kubernetes and examples/skypilot are what those tools read."""

import importlib.util
import re
from pathlib import Path

import pytest
import yaml

from rlvr_cli.cli import app

EXAMPLES = Path(__file__).parents[1] / "examples"
JOBS = sorted([*EXAMPLES.glob("*/*.yaml"), *EXAMPLES.glob("*/*.sbatch")])


def documents(name):
    return [*yaml.safe_load_all((EXAMPLES / name).read_text())]


def needs(package, name):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{name} (not installed: `pip install {name}`)")


@pytest.mark.parametrize("path", JOBS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_options_of_rlvr_in_a_job_exist(path):
    text = re.sub(r"(^|\s)#.*", "", path.read_text(), flags=re.M)
    flags = set(re.findall(r"(?<!\S)--[a-z][a-z-]+", text))
    command = "rollout" if path.stem == "stage" else "train"
    known = {flag for param in app._load(command).params for flag in param.opts}
    assert flags and flags <= known


def test_the_kubernetes_job_follows_the_schema_of_kubernetes():
    needs("kubernetes_validate", "kubernetes-validate")
    import kubernetes_validate

    for document in documents("kubernetes/train.yaml"):
        latest = kubernetes_validate.latest_version()
        kubernetes_validate.validate(document, latest, strict=True)


def test_the_pods_of_the_kubernetes_job_meet_at_a_name_that_the_service_gives():
    service, job = documents("kubernetes/train.yaml")
    template = job["spec"]["template"]["spec"]
    words = template["containers"][0]["command"][-1]
    name, subdomain = job["metadata"]["name"], template["subdomain"]
    assert subdomain == service["metadata"]["name"]
    assert service["spec"]["selector"] == {"job-name": name}
    assert f"--rdzv-endpoint {name}-0.{subdomain}:" in words
    assert f"--nnodes {job['spec']['completions']} " in words
    assert job["spec"]["parallelism"] == job["spec"]["completions"]


def test_the_skypilot_task_is_one_that_skypilot_reads():
    needs("sky", "skypilot")
    import sky

    task = sky.Task.from_yaml(str(EXAMPLES / "skypilot/train.yaml"))
    assert task.num_nodes == 2
