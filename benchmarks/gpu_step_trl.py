"""Seconds of one step of TRL's GRPOTrainer with vLLM in its process, to hold beside gpu_step.py.

    python -P benchmarks/gpu_step.py make DIR --shape qwen2.5-1.5b
    python -P benchmarks/gpu_step_trl.py DIR --prompts 64 --new-tokens 1024 --micro-batch 16

The same model, prompts and lengths as `gpu_step.py ours`, in bfloat16. TRL keeps its defaults where
they do not stand in the way: activations are recomputed, its vLLM sleeps during the update.
"""

import argparse
import functools
import json
import os
import time

os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")

import datasets
import torch
import transformers
import trl


def now() -> float:
    torch.cuda.synchronize()
    return time.perf_counter()


class Clock(transformers.TrainerCallback):
    """Seconds of each step, and of the phases within it; its `update` is all that is left."""

    def __init__(self) -> None:
        self.start, self.seconds = 0.0, {}

    def phase(self, owner: object, method: str, name: str) -> None:
        """Counts a method's seconds, less those of the phases within it."""
        inner = getattr(owner, method)

        @functools.wraps(inner)
        def timed(*arguments, **options):
            start, before = now(), sum(self.seconds.values())
            result = inner(*arguments, **options)
            within = sum(self.seconds.values()) - before
            self.seconds[name] = self.seconds.get(name, 0.0) + now() - start - within
            return result

        setattr(owner, method, timed)

    def on_step_begin(self, *_, **__) -> None:
        self.start, self.seconds = now(), {}

    def on_step_end(self, *_, **__) -> None:
        complete = now() - self.start
        seconds = {
            **self.seconds,
            "update": complete - sum(self.seconds.values()),
            "whole": complete,
        }
        print(json.dumps({name: round(value, 2) for name, value in seconds.items()}), flush=True)


def parity(completions, **_):
    return [float(len(text) % 2) for text in completions]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--generations", type=int, default=8)
    parser.add_argument("--new-tokens", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--micro-batch", type=int, default=16)
    parser.add_argument("--keep-activations", action="store_true")
    options = parser.parse_args()
    with open(f"{options.folder}/prompts.jsonl") as file:
        texts = [json.loads(line)["prompt"] for line in file]
    rows = options.prompts * options.generations
    clock = Clock()
    trainer = trl.GRPOTrainer(
        model=options.folder,
        reward_funcs=parity,
        train_dataset=datasets.Dataset.from_dict({"prompt": texts}),
        processing_class=transformers.AutoTokenizer.from_pretrained(options.folder),
        callbacks=[clock],
        args=trl.GRPOConfig(
            output_dir="/tmp/trl",
            per_device_train_batch_size=options.micro_batch,
            gradient_accumulation_steps=rows // options.micro_batch,
            num_generations=options.generations,
            max_completion_length=options.new_tokens,
            max_steps=options.steps,
            beta=0.0,
            bf16=True,
            gradient_checkpointing=not options.keep_activations,
            model_init_kwargs={"dtype": "float32"},
            use_vllm=True,
            vllm_mode="colocate",
            vllm_enable_sleep_mode=True,
            vllm_gpu_memory_utilization=0.5,
            vllm_max_model_length=2048,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
            logging_steps=1,
        ),
    )
    clock.phase(trainer, "_generate_and_score_completions", "rewards and log-probs")
    clock.phase(trainer.vllm_generation, "sync_weights", "sync_weights")
    clock.phase(trainer.vllm_generation, "generate", "rollout")
    trainer.train()
    kept = ("step_time", "completions/mean_length", "loss", "grad_norm")
    logs = [{k: v for k, v in log.items() if k in kept} for log in trainer.state.log_history]
    memory = torch.cuda.max_memory_allocated() / 2**30
    print(json.dumps({"trl": trl.__version__, "logs": logs, "peak_gib": round(memory, 1)}))


if __name__ == "__main__":
    main()
    os._exit(0)  # vLLM's own threads would keep the process
