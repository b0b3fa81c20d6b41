"""`init` recognises prompts with images, and takes a policy that reads them."""

import dataclasses

import pytest

from rlvr_cli.errors import DataError
from rlvr_cli.init import choosing, facts
from rlvr_cli.init.choosing import Machine
from rlvr_cli.runtime.device import Device
from rlvr_cli.stages import prompts
from tests import pictured
from tests.pictured import asked, drawn, stored

pytest.importorskip("PIL")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    image = stored(drawn(3))
    rows = [asked(f"p{n}", image, f"How many are {n}?") for n in range(5)]
    out = tmp_path_factory.mktemp("pictured") / "prompts"
    pictured.directory(out, [*rows, asked("text", "What is 1?")])
    return str(out)


def of_data(source, model):
    found = prompts.load(source, split=None, verifier=None, columns={})
    return facts.of_data(source, found, facts.of_model(str(model)), None)


def test_the_tokens_of_images_are_counted_by_the_policys_processor(source, vision):
    data = of_data(source, vision.policy("qwen2_vl"))
    assert data.with_images == 5 and str(data).endswith("5 of them with images")
    plain = of_data(source, vision.policy("qwen2_vl")).lengths[0]  # of the prompt of text alone
    assert data.longest == plain - len("What is 1?") + 2 + 4 + len("How many are 0?")


def test_a_policy_that_reads_text_alone_is_refused_with_one_that_reads_images(source):
    with pytest.raises(
        DataError, match=r"5 of 6 prompts of .* and `builtin` reads only text"
    ) as error:
        of_data(source, "builtin")
    assert "builtin-vl" in error.value.hint


def test_prompts_with_images_are_never_sampled_by_the_graph_engine():
    model = dataclasses.replace(facts.of_model("builtin"), is_static=True)
    data = facts.DataFacts(100, "", "", 3, 8, (3, 3, 8), None, "", with_images=5)
    machine = Machine(Device("cuda", 80 << 30, 80 << 30, "a GPU"))
    config, _ = choosing.choose(model, data, machine, rows=80, evaluates=True)
    assert config.rollout.engine != "graph"
