"""What the record of a step on a GPU says, and the tables of stored records."""

import copy
import functools
import importlib.util
import json
import sys
import time
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import Qwen2Config, Qwen2ForCausalLM

ROOT = Path(__file__).parents[2]


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


meter, table = script("step_meter"), script("gpu_table")
CONFIG = {
    "hidden_size": 4, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
    "intermediate_size": 8, "vocab_size": 10,
}  # fmt: skip


def test_flops_are_those_that_a_hand_computes():
    # 16 + 8 + 8 + 16 + 3 * 32 = 144 weights a layer, 40 of the head; attention 6 * 2 * 4 * 25
    assert meter.training_flops(CONFIG, [(3, 2)]) == 6 * 288 * 5 + 6 * 40 * 2 + 1200
    assert meter.training_flops(CONFIG, [(3, 2)] * 7) == 7 * 10320
    # frozen weights take 4, adapters of rank 3 have 3 * (8 + 6 + 6 + 8 + 3 * 12) weights a layer
    adapters = 6 * 2 * 3 * 64 * 5
    assert meter.training_flops(CONFIG, [(3, 2)], 3) == 4 * 288 * 5 + adapters + 4 * 40 * 2 + 1200


def test_flops_are_those_that_torch_counts():
    config = Qwen2Config(**{**CONFIG, "hidden_size": 32, "vocab_size": 50})
    config._attn_implementation = "eager"  # computes all scores, twice those of causal attention
    model, length = Qwen2ForCausalLM(config), 12
    with FlopCounterMode(display=False) as counter:
        model(torch.arange(length)[None]).logits.sum().backward()
    attention = 6 * config.num_hidden_layers * config.hidden_size * length**2
    expected = meter.training_flops(config.to_dict(), [(0, length)])
    assert counter.get_total_flops() == expected + attention


def test_a_phase_leaves_out_those_within_it_and_nothing_is_counted_twice():
    made = meter.Meter()
    with made.phase("rollout"):
        pass  # no step has begun
    start = time.perf_counter()
    made.begin("other")
    undo = meter.run_within(functools.partial(made.phase, "sync"), time, "sleep")
    with made.phase("rollout"):
        time.sleep(0.2)
    undo()
    with made.phase("update"):
        pass
    with made.phase("checkpoint"):
        time.sleep(0.1)
    made.end()
    took = time.perf_counter() - start
    assert list(made.seconds) == ["other", "rollout", "sync", "update", "checkpoint"]
    assert made.seconds["sync"] >= 0.2 and made.seconds["checkpoint"] >= 0.1
    assert sum(made.seconds.values()) <= took
    record = made.record(CONFIG, [(3, 2), (1, 4)], trained=5)
    assert (record["sampled"], record["trained"]) == (6, 5)
    apart = made.seconds["checkpoint"]
    assert record["whole"] == pytest.approx(sum(made.seconds.values()) - apart, abs=1e-3)
    flops = meter.training_flops(CONFIG, [(3, 2), (1, 4)])
    mfu = flops / made.seconds["update"] / 989e12
    assert record["flops"] == flops and record["mfu"]["update"] == pytest.approx(mfu, rel=0.01)
    made.close()


def test_watts_are_means_of_each_phase_and_of_all_that_is_no_checkpoint():
    samples = [("rollout", 300.0, 9), ("rollout", 400.0, 9), ("update", 650.0, 9),
               ("update", None, 9), ("checkpoint", 90.0, 9)]  # fmt: skip
    assert meter.watts(samples) == {"rollout": 350, "update": 650, "checkpoint": 90, "whole": 450}
    assert meter.watts([("update", None, 9)]) == {"whole": None}


def step(number, whole, *, checkpoint=0.0, saved=False):
    seconds = {"rollout": 6.0, "rewards, log-probs": 0.14, "update": 10.0, "other": 0.04}
    return {
        "step": number, "saved": saved, "seconds": {**seconds, "checkpoint": checkpoint},
        "whole": whole, "sampled": 524288, "trained": 524288, "rollout_tokens_s": 87381,
        "update_tokens_s": 52429, "mfu": {"update": 0.533, "whole": 0.31},
        "watts": {"rollout": 410, "update": 655, "whole": 570},
        "gib": {"torch": 51.2, "card": 60.0},
    }  # fmt: skip


def run(**changes):
    made = {
        "who": "rlvr", "engine": "graph:rows=512", "trainer": "local", "shape": "qwen2.5-1.5b",
        "micro_batch_tokens": 16384,
        "mean_length": None, "rows": 512, "new_tokens": 1024, "lora_rank": 0, "recompute": False,
        "card": "NVIDIA H200", "host": "0a", "versions": {"torch": "2.11.0"},
        "steps": [
            step(1, 30.0), step(2, 16.0), step(3, 17.0, checkpoint=4.0, saved=True), step(4, 18.0),
            step(5, 16.2, checkpoint=10.0, saved=True),
        ],
    }  # fmt: skip
    return {**made, **changes}


TRL = run(
    who="TRL 1.16.0",
    engine="vllm",
    trainer=None,
    recompute=True,
    steps=[step(1, 60.0), step(3, 54.0)],
)
EXPECTED = """\
NVIDIA H200; torch 2.11.0.

Seconds:

|  | step | tokens | rollout | sync | rewards, log-probs | update | other | whole step | of TRL's |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
| **qwen2.5-1.5b: 512 rows, each 1,024 tokens** |  |  |  |  |  |  |  |  |  |
| rlvr, `graph:rows=512` | 1 | 524,288 | 6.0 | - | 0.1 | 10.0 | 0.0 | 30.0 | 0.50 |
| rlvr, `graph:rows=512` | 4 | 524,288 | 6.0 | - | 0.1 | 10.0 | 0.0 | 18.0 | 0.33 |
| TRL 1.16.0, vllm, recomputing | 1 | 524,288 | 6.0 | - | 0.1 | 10.0 | 0.0 | 60.0 |  |
| TRL 1.16.0, vllm, recomputing | 3 | 524,288 | 6.0 | - | 0.1 | 10.0 | 0.0 | 54.0 |  |

Rates, power and peak memory:

|  | step | tokens/s: rollout | update | MFU: update | step | W: rollout | update | step | GiB: torch | card |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
| **qwen2.5-1.5b: 512 rows, each 1,024 tokens** |  |  |  |  |  |  |  |  |  |  |
| rlvr, `graph:rows=512` | 1 | 87,381 | 52,429 | 0.533 | 0.310 | 410 | 655 | 570 | 51.2 | 60.0 |
| rlvr, `graph:rows=512` | 4 | 87,381 | 52,429 | 0.533 | 0.310 | 410 | 655 | 570 | 51.2 | 60.0 |
| TRL 1.16.0, vllm, recomputing | 1 | 87,381 | 52,429 | 0.533 | 0.310 | 410 | 655 | 570 | 51.2 | 60.0 |
| TRL 1.16.0, vllm, recomputing | 3 | 87,381 | 52,429 | 0.533 | 0.310 | 410 | 655 | 570 | 51.2 | 60.0 |

Seconds with checkpoints, medians of the steps after the first:

|  | a step without | with | of it the checkpoint | the step after | the last, until all is on disk |
| --- | --- | --- | --- | --- | --- |
| qwen2.5-1.5b: 512 rows, each 1,024 tokens; rlvr, `graph:rows=512` | 16.0 | 21.0 | 4.0 | 18.0 | 26.2 |"""  # noqa: E501


def test_the_tables_of_stored_records():
    assert "\n".join(table.tables([TRL, run()])) == EXPECTED


def test_times_on_two_cards_have_no_ratio_and_a_letter_each():
    lines = table.tables([run(), {**TRL, "host": "0b"}])
    assert "2 cards" in lines[0]
    assert sum("| - |" in line and "(a)" in line and "18.0" in line for line in lines) == 1
    assert any(line.startswith("| TRL 1.16.0, vllm, recomputing (b) |") for line in lines)


def test_settings_stay_apart():
    uneven = {name: {**each, "mean_length": 341} for name, each in (("o", run()), ("t", TRL))}
    adapted = run(shape="qwen2.5-7b", lora_rank=16)
    text = "\n".join(table.tables([run(), uneven["t"], TRL, adapted, uneven["o"]]))
    assert text.count("**qwen2.5-1.5b: 512 rows, mean 341, at most 1,024 tokens**") == 2
    assert text.count("**qwen2.5-7b, LoRA of rank 16: 512 rows, each 1,024 tokens**") == 2
    unknown = copy.deepcopy(run())
    for each in unknown["steps"]:
        each |= {"watts": {"whole": None}, "gib": {"torch": None, "card": None}}
    assert "| - | - | - | - | - |" in "\n".join(table.tables([unknown]))


def test_records_are_read_among_other_lines_and_replace_those_of_the_same_run(
    tmp_path, monkeypatch
):
    def jsonl(name, made):
        steps = made.pop("steps")
        lines = [json.dumps({"run": made}), "{'loss': '0.1'}", *map(json.dumps, steps), "done"]
        (tmp_path / name).write_text("\n".join(lines))
        return str(tmp_path / name)

    page, results = tmp_path / "page.md", tmp_path / "results.json"
    page.write_text("# Before\n\n<!-- steps -->\nold\n<!-- end of steps -->\n\nAfter\n")

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["gpu_table.py", *words, "--results", str(results)])
        table.main()

    slow = run(steps=[step(1, 99.0)])
    call(jsonl("slow", slow), "--write", str(page))
    call(jsonl("ours", run()), jsonl("trl", dict(TRL)), "--write", str(page))
    assert json.loads(results.read_text()) == {"runs": [run(), TRL]}
    written = page.read_text()
    assert written == f"# Before\n\n<!-- steps -->\n\n{EXPECTED}\n<!-- end of steps -->\n\nAfter\n"
    call("--write", str(page))
    assert page.read_text() == written
    with pytest.raises(SystemExit, match="on NVIDIA H100 and NVIDIA H200"):
        call(jsonl("other", run(card="NVIDIA H100", shape="qwen2.5-7b")))
    with pytest.raises(SystemExit, match="no run with a step"):
        call(jsonl("none", run(steps=[])))


def test_the_page_has_the_tables_of_the_stored_records():
    stored = json.loads(table.RESULTS.read_text())["runs"] if table.RESULTS.exists() else []
    page = (ROOT / "docs" / "gpu-step.md").read_text()
    inside = page.partition("<!-- steps -->")[2].partition("<!-- end of steps -->")[0]
    assert inside.strip() == "\n".join(table.tables(stored))
