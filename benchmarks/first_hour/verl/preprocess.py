# What verl's examples/data_preprocess/gsm8k.py does, for gsm8k.jsonl and without its options.
import datasets


def to_verl(row, index):
    return {
        "data_source": "openai/gsm8k",
        "prompt": [
            {
                "role": "user",
                "content": row["question"]
                + ' Let\'s think step by step and output the final answer after "####".',
            }
        ],
        "ability": "math",
        "reward_model": {
            "style": "rule",
            "ground_truth": row["answer"].split("#### ")[1].replace(",", ""),
        },
        "extra_info": {"index": index},
    }


rows = datasets.load_dataset("json", data_files="gsm8k.jsonl", split="train")
rows.map(to_verl, with_indices=True, remove_columns=rows.column_names).to_parquet("train.parquet")
