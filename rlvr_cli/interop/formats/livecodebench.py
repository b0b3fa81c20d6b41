"""LiveCodeBench: the JSON of its outputs, and with verdicts in `*_eval_all.json`.

Source: `lcb_runner/benchmarks/` of LiveCodeBench/LiveCodeBench.
"""

from collections.abc import Callable

from rlvr_cli.interop.formats._common import Row, correct_by


def recognises(names: set[str]) -> bool:
    """`output_list` with the `code_list` or `pred_list` in it."""
    return "output_list" in names and bool({"code_list", "pred_list"} & names)


def reader(file: str) -> Callable[[Row], list[Row]]:
    """A problem a row; those of test outputs have several tests each, those of execution an `id`.

    Programs are no answers that could be voted on; predicted outputs are.
    """

    def read(row: Row) -> list[Row]:
        prompt_id = row.get("id", row.get("question_id"))
        if "test_id" in row:
            prompt_id = f"{prompt_id}/{row['test_id']}"
        fields: Row = {"prompt_id": prompt_id, "completions": row["output_list"]}
        if "question_content" in row:
            fields["prompt"] = row["question_content"]
        else:
            fields |= {"prompt": f"{row.get('code')}\n\n{row.get('input')}",
                       "answer": row.get("output")}  # fmt: skip
        if "pred_list" in row:
            fields["extracted"] = row["pred_list"]
        if "graded_list" in row:
            fields |= correct_by("graded_list", row["graded_list"])
        return [row | fields]

    return read
