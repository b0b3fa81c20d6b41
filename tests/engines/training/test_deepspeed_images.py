"""DeepSpeed on rows with images, with one process and with two, against plain torch."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.engine("deepspeed"), pytest.mark.slow]

WORKER = Path(__file__).with_name("deepspeed_images.py")
SPECS = {"frozen": ["deepspeed:zero=2", "deepspeed:zero=3"], "trained": ["deepspeed:zero=2+vision"]}
ALL = [spec for specs in SPECS.values() for spec in specs]


def ran(folder, processes, vision, specs):
    picture = folder / "picture.png"
    picture.write_bytes(vision.picture((255, 0, 0)))
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    done = subprocess.run(
        [sys.executable, "-P", *(launcher if processes > 1 else []), str(WORKER),
         str(vision.policy("qwen2_vl")), str(picture), str(folder), *specs],
        env=os.environ, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def expected(tmp_path_factory, vision):
    folder = tmp_path_factory.mktemp("local")
    frozen, trained = ran(folder, 1, vision, ["local", "local+vision"])
    return {"frozen": frozen, "trained": trained}


@pytest.mark.parametrize("processes", [1, 2])
def test_updates_on_rows_with_images_are_those_of_plain_torch(
    processes, expected, vision, tmp_path
):
    results = dict(zip(ALL, ran(tmp_path, processes, vision, ALL), strict=True))
    for kind, specs in SPECS.items():
        for spec in specs:
            for one, other in zip(results[spec]["said"], expected[kind]["said"], strict=True):
                assert one == pytest.approx(other, rel=1e-5, abs=1e-5)
            for one, other in zip(results[spec]["logps"], expected[kind]["logps"], strict=True):
                assert one == pytest.approx(other, abs=1e-4)
