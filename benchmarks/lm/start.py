"""The policy that every run starts from: a pretrained model after a short supervised start.

The start is kept as adapters of some 2.5 MB, which travel where the weights do not; each machine
merges them into the model, in float32 on the CPU, so that all runs start from equal weights. Those
of the gathered runs are in benchmarks/results, and are taken from there.

Shapes: B rows, S prompt and completion tokens.
"""

import hashlib
import json
import random
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from lm import tasks

RANK, BATCH, RATE, WARM_UP = 4, 64, 1e-3, 10
WEIGHTS = "adapter_model.safetensors"
KEPT = Path(__file__).resolve().parents[1] / "results/lm-starts"


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def _batches(
    tokenizer: Any, pairs: list[tuple[str, str]], rng: random.Random
) -> list[tuple[Tensor, Tensor]]:
    """Tokens [B, S], padded right, and labels of the same shape, -100 but on the completion.

    Prompt and completion are encoded apart, as a rollout has them.
    """
    end, rows = tokenizer.eos_token_id, []
    for prompt, answer in rng.sample(pairs, len(pairs)):
        asked, told = (tokenizer(text, add_special_tokens=False) for text in (prompt, answer))
        ids, answer_ids = asked["input_ids"], [*told["input_ids"], end]
        rows.append(([*ids, *answer_ids], [-100] * len(ids) + answer_ids))
    made = []
    for at in range(0, len(rows), BATCH):
        here = rows[at : at + BATCH]
        longest = max(len(tokens) for tokens, _ in here)
        made.append(
            tuple(
                torch.tensor([row[i] + [fill] * (longest - len(row[i])) for row in here])
                for i, fill in ((0, end), (1, -100))
            )
        )
    return made


def learn(base: Path, task: str, examples: int, out: Path, *, seed: int = 0) -> dict[str, Any]:
    """Adapters after one pass over right answers, in bfloat16; the mean losses of its quarters."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.manual_seed(seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer = AutoTokenizer.from_pretrained(base)
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32).to(device)
    config = LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules="all-linear")
    model = get_peft_model(model, config)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=RATE, weight_decay=0.0)
    batches = _batches(tokenizer, tasks.answers(task, examples, seed), random.Random(seed))
    losses = []
    for step, (tokens_BS, labels_BS) in enumerate(batches):
        share = min((step + 1) / WARM_UP, 1 - 0.9 * step / len(batches))
        optimizer.param_groups[0]["lr"] = RATE * share
        with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
            logits = model(input_ids=tokens_BS.to(device)).logits[:, :-1]
        loss = cross_entropy(logits.float().flatten(0, 1), labels_BS[:, 1:].flatten().to(device))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        losses.append(loss.item())
    for parameter in trained:
        parameter.data = parameter.data.bfloat16()
    model.peft_config["default"].base_model_name_or_path = base.name
    model.save_pretrained(out)
    (out / "README.md").unlink()  # peft's form, not filled in
    quarter = -(-len(losses) // 4)
    means = [losses[i : i + quarter] for i in range(0, len(losses), quarter)]
    return {"examples": examples, "loss": [round(sum(m) / len(m), 4) for m in means]}


def merge(base: Path, adapters: Path, out: Path) -> None:
    """The model with its adapters merged, in bfloat16, as a directory that transformers loads."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    merged = PeftModel.from_pretrained(model, adapters).merge_and_unload()
    merged.to(torch.bfloat16).save_pretrained(out)
    AutoTokenizer.from_pretrained(base).save_pretrained(out)


def kept(task: str, examples: int) -> Path:
    """Where the adapters of gathered runs are."""
    return KEPT / f"{task}-{examples}"


def make(base: Path, task: str, examples: int, folder: Path) -> Path:
    """The start of a task, trained or merged unless it is there; without examples, the model."""
    if not examples:
        return base
    adapters, policy = folder / "adapters", folder / "policy"
    if not adapters.exists() and (there := kept(task, examples)).exists():
        shutil.copytree(there, adapters)
    if not (adapters / WEIGHTS).exists():
        beside = folder / "adapters.part"
        shutil.rmtree(beside, ignore_errors=True)
        learned = learn(base, task, examples, beside)
        (beside / "start.json").write_text(json.dumps(learned))
        beside.rename(adapters)
    if not policy.exists():
        beside = folder / "policy.part"
        shutil.rmtree(beside, ignore_errors=True)
        merge(base, adapters, beside)
        beside.rename(policy)
    return policy
