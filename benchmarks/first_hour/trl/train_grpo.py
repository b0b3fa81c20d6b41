# GRPO on gsm8k.jsonl (rows of `question` and `answer`) from the model directory model/.
# The quick start of TRL's page on GRPO, with the mapping of columns that its page on dataset
# formats asks for: `prompt`, and `solution` for `accuracy_reward`.
from datasets import load_dataset
from trl import GRPOTrainer
from trl.rewards import accuracy_reward

dataset = load_dataset("json", data_files="gsm8k.jsonl", split="train").map(
    lambda row: {
        "prompt": [{"role": "user", "content": row["question"]}],
        "solution": row["answer"].split("#### ")[1],
    }
)
trainer = GRPOTrainer(model="model", reward_funcs=accuracy_reward, train_dataset=dataset)
trainer.train()
