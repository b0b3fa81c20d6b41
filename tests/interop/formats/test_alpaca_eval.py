"""`results/gpt4_1106_preview/model_outputs.json` of tatsu-lab/alpaca_eval."""

from rlvr_cli.interop.completions import Stream


def test_outputs_of_instructions(store):
    rows = [{"dataset": "helpful_base", "instruction": q, "output": "Yes.", "generator": "m"}
            for q in ("Is it?", "Was it?")]  # fmt: skip
    (batch,) = Stream(store("model_outputs.json", rows), wanted={"completion", "source"})
    assert batch.completion.to_pylist() == ["Yes.", "Yes."]
    assert batch.source.to_pylist() == ["helpful_base"] * 2
    assert len(set(batch.prompt_id.to_pylist())) == 2
