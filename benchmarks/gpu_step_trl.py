"""Seconds of one step of TRL's GRPOTrainer with vLLM in its process, to hold beside gpu_step.py.

    python -P benchmarks/gpu_step.py make DIR --shape qwen2.5-1.5b
    python -P benchmarks/gpu_step_trl.py DIR --prompts 64 --new-tokens 1024 --micro-batch 16

The same model, prompts and lengths as `gpu_step.py ours`, in bfloat16. TRL keeps its defaults where
they do not stand in the way: activations are recomputed, its vLLM sleeps during the update.
`--lora-rank` needs peft, and has the frozen weights in bfloat16, as ours are.
"""

import argparse
import functools
import json
import os
import sys
from pathlib import Path

os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")

import datasets
import torch
import transformers
import trl

sys.path.append(str(Path(__file__).parent))
import gpu_step
from step_meter import Meter, run_within

sys.path.pop()  # kernels.py there has the name of a package that transformers looks for
CUDA = torch.cuda.is_available()


class Clock(transformers.TrainerCallback):
    """Prints the record of each step; its `update` is all that is left of the other phases."""

    def __init__(self, trainer: trl.GRPOTrainer, options: argparse.Namespace) -> None:
        self._options, self._config = options, gpu_step.config_of(options.folder)
        self._rows: list[tuple[int, int]] = []
        self.meter = Meter()
        for owner, name, phase in (
            (trainer, "_generate_and_score_completions", "rewards, log-probs"),
            (trainer.vllm_generation, "sync_weights", "sync"),
            (trainer.vllm_generation, "generate", "rollout"),
        ):
            run_within(functools.partial(self.meter.phase, phase), owner, name)
        generated = trainer._generate_and_score_completions

        def kept(*arguments, **words):
            batch = generated(*arguments, **words)
            masks = (batch[name].sum(1).tolist() for name in ("prompt_mask", "completion_mask"))
            self._rows = list(zip(*masks, strict=True))
            return batch

        trainer._generate_and_score_completions = kept

    def on_step_begin(self, *_, **__) -> None:
        self.meter.begin("update")

    def on_step_end(self, args, state, *_, **__) -> None:
        self.meter.end()
        trained = sum(completion for _, completion in self._rows)
        rank = self._options.lora_rank
        figures = self.meter.record(self._config, self._rows, trained, rank)
        gpu_step.say(step=state.global_step, saved=False, **figures)


def parity(completions, **_):
    return [float(len(text) % 2) for text in completions]


def adapters(rank: int):
    if not rank:
        return None
    import peft

    return peft.LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--generations", type=int, default=8)
    parser.add_argument("--new-tokens", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--micro-batch", type=int, default=16)
    parser.add_argument("--lora-rank", type=int, default=0)
    parser.add_argument("--keep-activations", dest="recompute", action="store_false")
    parser.add_argument("--out", default="runs/trl")
    options = parser.parse_args()
    gpu_step.say(run=gpu_step.description(options, f"TRL {trl.__version__}", "vllm"))
    with open(f"{options.folder}/prompts.jsonl") as file:
        texts = [json.loads(line)["prompt"] for line in file]
    rows = options.prompts * options.generations
    trainer = trl.GRPOTrainer(
        model=options.folder,
        reward_funcs=parity,
        train_dataset=datasets.Dataset.from_dict({"prompt": texts}),
        processing_class=transformers.AutoTokenizer.from_pretrained(options.folder),
        peft_config=adapters(options.lora_rank),
        args=trl.GRPOConfig(
            output_dir=options.out,
            per_device_train_batch_size=options.micro_batch,
            gradient_accumulation_steps=rows // options.micro_batch,
            num_generations=options.generations,
            max_completion_length=options.new_tokens,
            max_steps=options.steps,
            beta=0.0,
            bf16=True,
            use_cpu=not CUDA,
            gradient_checkpointing=options.recompute,
            model_init_kwargs={"dtype": "bfloat16" if options.lora_rank else "float32"},
            use_vllm=True,
            vllm_mode="colocate",
            vllm_enable_sleep_mode=CUDA,
            vllm_gpu_memory_utilization=0.5,
            vllm_max_model_length=2048,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
            logging_steps=1,
        ),
    )
    clock = Clock(trainer, options)
    trainer.add_callback(clock)
    trainer.train()
    clock.meter.close()
    kept = ("step_time", "completions/mean_length", "loss", "grad_norm")
    gpu_step.say(
        logs=[{k: v for k, v in log.items() if k in kept} for log in trainer.state.log_history]
    )


if __name__ == "__main__":
    main()
    os._exit(0)  # vLLM's own threads would keep the process
