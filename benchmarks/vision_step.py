"""Seconds of a step of `rlvr train` on prompts with images, stage by stage, and its memory.

    python -P benchmarks/vision_step.py DIR                  # Qwen2.5-VL-3B's shape, on a GPU
    python -P benchmarks/vision_step.py DIR --small          # a tiny one, on a CPU in a minute
    python -P benchmarks/vision_step.py DIR --train-vision --out runs/with-vision

DIR gets a model with random weights in bfloat16, a tokenizer of made-up words and prompts with one
image each, unless it is there. An image of 448 x 448 pixels is 256 tokens. Each completion has all
its tokens and every one is wrong: the objective is nsr, which trains on all of them. Each step is a
JSON line with seconds by phase (a step's first weight sync waits for no training), tokens a second
and the most memory, as of gpu_step.py; FLOPs and MFU are those of the language model, image tokens
included, without the vision tower. A line `gap` has the distance of the log-probs of sampler and
trainer over the prompts that are compared after each weight sync, in nats a token; `run` has what
the run says of its last step, with the largest distance over all of its tokens (`sampler_gap`).
"""

import argparse
import contextlib
import io
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
import gpu_step
from step_meter import Meter

sys.path.pop()  # kernels.py there has the name of a package that transformers looks for
SHAPES = {
    "qwen2.5-vl-3b": {
        "text": (2048, 36, 16, 2, 11008), "vision": (1280, 32, 16, 3420, 112), "vocabulary": 151936,
    },
    "small": {"text": (128, 2, 2, 1, 256), "vision": (64, 2, 2, 128, 112), "vocabulary": 1000},
}  # fmt: skip
SPECIAL = ("<|vision_start|>", "<|image_pad|>", "<|vision_end|>", "<|video_pad|>", "<|user|>")
TEMPLATE = """\
{%- for message in messages -%}<|user|>
{%- if message.content is string -%}{{ message.content }}{%- else -%}
{%- for part in message.content -%}
{%- if part.type == 'image' -%}<|vision_start|><|image_pad|><|vision_end|>
{%- else -%}{{ part.text }}{%- endif -%}
{%- endfor -%}{%- endif -%}{%- endfor -%}"""


def make(folder: Path, shape: str, prompts: int, pixels: int) -> None:
    """The model and its processor, and prompts with their images."""
    import torch
    import transformers

    folder.mkdir(parents=True)
    sizes = SHAPES[shape]
    tokenizer = _tokenizer(sizes["vocabulary"])
    start, image, end, video, _ = tokenizer.convert_tokens_to_ids(list(SPECIAL))
    hidden, layers, heads, kv_heads, inner = sizes["text"]
    width, depth, vision_heads, vision_inner, window = sizes["vision"]
    part = hidden // heads // 8
    config = transformers.Qwen2_5_VLConfig(
        text_config={
            "vocab_size": sizes["vocabulary"], "hidden_size": hidden, "intermediate_size": inner,
            "num_hidden_layers": layers, "num_attention_heads": heads,
            "num_key_value_heads": kv_heads, "max_position_embeddings": 32768,
            "tie_word_embeddings": True, "bos_token_id": None, "eos_token_id": 0,
            "initializer_range": hidden**-0.5,
            "rope_parameters": {
                "rope_type": "default", "rope_theta": 1e6,
                "mrope_section": [part, part * 3 // 2, part * 3 // 2],
            },
        },
        vision_config={
            "depth": depth, "hidden_size": width, "num_heads": vision_heads,
            "intermediate_size": vision_inner, "out_hidden_size": hidden, "window_size": window,
            "fullatt_block_indexes": [depth * i // 4 - 1 for i in (1, 2, 3, 4) if depth * i > 7],
            "initializer_range": width**-0.5,
        },
        vision_start_token_id=start, vision_end_token_id=end, image_token_id=image,
        video_token_id=video, tie_word_embeddings=True, dtype="bfloat16",
    )  # fmt: skip
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        model = transformers.Qwen2_5_VLForConditionalGeneration(config)
    torch.set_default_dtype(torch.float32)
    model.generation_config.eos_token_id = [0]
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    processor = {
        "processor_class": "Qwen2_5_VLProcessor", "image_processor_type": "Qwen2VLImageProcessor",
        "patch_size": 14, "temporal_patch_size": 2, "merge_size": 2,
        "min_pixels": 56 * 56, "max_pixels": 768 * 768,
        "image_mean": [0.48145466, 0.4578275, 0.40821073],
        "image_std": [0.26862954, 0.26130258, 0.27577711],
    }  # fmt: skip
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    _write_prompts(folder, prompts, pixels)
    gpu_step.say(shape=shape, parameters=model.num_parameters(), pixels=pixels)


def _tokenizer(vocabulary: int):
    from tokenizers import pre_tokenizers
    from transformers import Qwen2Tokenizer

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = letters + [f"w{i:x}" for i in range(vocabulary - len(letters) - 2 - len(SPECIAL))]
    ids = {"<end>": 0, "<pad>": 1} | {word: i for i, word in enumerate(words, 2)}
    tokenizer = Qwen2Tokenizer(
        vocab=ids, merges=[], eos_token="<end>", pad_token="<pad>", unk_token="<pad>"
    )
    tokenizer.add_special_tokens({"additional_special_tokens": list(SPECIAL)})
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def _write_prompts(folder: Path, count: int, pixels: int) -> None:
    """Prompts of 64 letters after an image of coloured squares."""
    from PIL import Image

    (folder / "images").mkdir()
    with open(folder / "prompts.jsonl", "w") as file:
        for index in range(count):
            drawn = random.Random(index)
            squares = Image.frombytes("RGB", (16, 16), drawn.randbytes(768))
            image = io.BytesIO()
            squares.resize((pixels, pixels), Image.Resampling.NEAREST).save(image, "PNG")
            (folder / "images" / f"{index}.png").write_bytes(image.getvalue())
            text = "".join(drawn.choices("abcdefghijklmnop", k=64))
            content = [{"type": "image", "path": f"{index}.png"}, {"type": "text", "text": text}]
            row = {"id": f"p{index:05d}", "prompt": [{"role": "user", "content": content}]}
            file.write(json.dumps(row | {"answer": "1"}) + "\n")


def step(options: argparse.Namespace) -> None:
    folder, prompts = options.folder, options.folder / "prompts"
    if not prompts.exists():
        gpu_step.rlvr("prompts", folder / "prompts.jsonl", "--images", folder / "images",
                      "--verifier", "number", "--out", prompts)  # fmt: skip
    words = [
        "train", "--algo", "nsr", "--model", folder, "--prompts", prompts, "--steps", options.steps,
        "--eval-every", 0, "--save-every", 1000, "--prompts-per-step", options.prompts,
        "--num-generations", options.generations, "--max-new-tokens", options.new_tokens,
        "--engine", options.engine, "--trainer", options.trainer, "--out", options.out,
        "--micro-batch-tokens", options.micro_batch_tokens,
    ]  # fmt: skip
    words += ["--recompute-activations"] * options.recompute
    words += ["--train-vision"] * options.train_vision
    if Path(options.out).exists():
        sys.exit(f"{options.out} is there: a step that is made already takes no time")
    options.lora_rank = 0
    with gpu_step._metered(Meter(), options), _said_gaps():
        gpu_step.rlvr(*words)
    _say_last(Path(options.out), options.steps)


@contextlib.contextmanager
def _said_gaps() -> Iterator[None]:
    """Prints what is measured after each weight sync."""
    from rlvr_cli.stages import agreement

    measure = agreement.measure

    def said(*arguments, **named):
        gap = measure(*arguments, **named)
        gpu_step.say(gap={"tokens": gap.tokens, "mean": gap.mean, "largest": gap.largest})
        return gap

    agreement.measure = said
    try:
        yield
    finally:
        agreement.measure = measure


def _say_last(run: Path, steps: int) -> None:
    """Prints the run's own figures of its last step."""
    lines = (run / "metrics.jsonl").read_text().splitlines()
    last = [row for row in map(json.loads, lines) if row.get("step") == steps]
    gpu_step.say(run=last[-1] if last else None)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--small", action="store_true", help="a tiny shape, prompts and images")
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--generations", type=int, default=4)
    parser.add_argument("--new-tokens", type=int, default=128)
    parser.add_argument("--pixels", type=int, default=448, help="of an image's side")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--engine", default="vllm:max_length=1024")
    parser.add_argument("--trainer", default="deepspeed:zero=2")
    parser.add_argument("--micro-batch-tokens", type=int, default=8192)
    parser.add_argument("--recompute", action="store_true")
    parser.add_argument("--train-vision", action="store_true")
    parser.add_argument("--out", default="runs/vision-step")
    options = parser.parse_args()
    if options.small:
        options.prompts, options.generations, options.new_tokens = 4, 2, 8
        options.pixels = 112
    if not options.folder.exists():
        shape = "small" if options.small else "qwen2.5-vl-3b"
        make(options.folder, shape, 4 * options.prompts, options.pixels)
    step(options)


if __name__ == "__main__":
    main()
