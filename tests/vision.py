"""Tiny random policies that read images, one of each kind, with processor and tokenizer.

    policy = tiny("qwen2_vl", tmp_path / "policy")      # the path, for policies.resolve
    data = picture((255, 0, 0), size=(24, 16))          # the bytes of a PNG

Some 100,000 parameters each. The tokenizer is that of the built-in policy, one token a character,
with the special tokens of the kind. An image of 32 x 32 pixels takes 4 tokens in most kinds, and 16
or more in the LLaVAs.
"""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from PIL import Image

from rlvr_cli.models import policy as policies, processors, tokenizers

KINDS = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5", "glm4v", "gemma3", "smolvlm", "idefics3",
         "llava", "llava_next", "llava_onevision", "internvl")  # fmt: skip
_HIDDEN, _LAYERS, _HEADS, _KV_HEADS, _FEED = 64, 2, 2, 1, 96  # vLLM wants heads of 32 or more
_CONTEXT = 512
_OPTIONS = ("image_seq_length", "image_seq_len", "patch_size", "vision_feature_select_strategy",
            "num_additional_image_tokens", "num_image_tokens")  # fmt: skip
_TURNS = """\
{%- for message in messages -%}
<|im_start|>{{ message['role'] }}
{% if message['content'] is string %}{{ message['content'] }}{% else %}
{%- for part in message['content'] -%}
{%- if part['type'] == 'image' -%}IMAGE{%- else -%}{{ part['text'] }}{%- endif -%}
{%- endfor -%}
{%- endif %}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}<|im_start|>assistant
{% endif -%}
"""
_SMOL = """\
<|im_start|>{% for message in messages %}{{ message['role'] | capitalize }}\
{% if message['content'][0]['type'] == 'image' %}{{ ':' }}{% else %}{{ ': ' }}{% endif %}\
{% for line in message['content'] %}{% if line['type'] == 'text' %}{{ line['text'] }}\
{% elif line['type'] == 'image' %}{{ '<image>' }}{% endif %}{% endfor %}<end_of_utterance>
{% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"""


def tiny(kind: str, path: Path, *, seed: int = 0) -> Path:
    """Writes a random policy of a kind with its processor to a new folder, whose path it returns.

    The same seed gives the same bytes. Weights are in float32 and wide enough that what an image
    holds changes the log-probs of what follows.
    """
    tokenizer = _tokenizer(kind)
    model_class, config, processor = _BUILDERS[kind](kind, tokenizer)
    config.text_config.update(_ends(tokenizer))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = model_class(config).float()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim > 1:
                    parameter.normal_(std=0.12)
    model.generation_config = transformers.GenerationConfig(**_ends(tokenizer))
    model.save_pretrained(path)
    _save_processor(processor, path)
    return path


def _save_processor(processor: Any, path: Path) -> None:
    """Writes a processor as checkpoints of the hub have it: images in preprocessor_config.json."""
    processor.tokenizer.save_pretrained(path)
    name = {"processor_class": type(processor).__name__}
    images = json.loads(processor.image_processor.to_json_string()) | name
    images["image_processor_type"] = images["image_processor_type"].removesuffix("Pil")
    options = {key: getattr(processor, key) for key in _OPTIONS if hasattr(processor, key)} | name
    for file, values in (("preprocessor_config", images), ("processor_config", options)):
        (path / f"{file}.json").write_text(json.dumps(values, indent=2, sort_keys=True) + "\n")


def picture(
    color: tuple[int, int, int], *, size: tuple[int, int] = (32, 32), format: str = "PNG"
) -> bytes:
    """The bytes of an image that has a dark left half and a right half of the colour."""
    image = Image.new("RGB", size, (16, 16, 16))
    image.paste(color, (size[0] // 2, 0, *size))
    file = io.BytesIO()
    image.save(file, format)
    return file.getvalue()


def _tokenizer(kind: str) -> Any:
    tokenizer = tokenizers.load(policies.resolve(policies.BUILTIN))
    tokenizer = type(tokenizer)(
        vocab=tokenizer.get_vocab(), merges=[], pad_token="<pad>", eos_token="<eos>",
        unk_token="<unk>", clean_up_tokenization_spaces=False, model_max_length=_CONTEXT,
        **_NAMED.get(kind, {}),
    )  # fmt: skip
    tokenizer.add_special_tokens(
        {"additional_special_tokens": _SPECIAL[_FAMILY[kind]]}, replace_extra_special_tokens=False
    )
    if kind == "gemma3":  # its code in vLLM asks for them
        tokenizer.add_tokens(["\n" * count for count in range(1, 5)])
    return tokenizer


def _ends(tokenizer: Any) -> dict[str, Any]:
    return {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}


_FAMILY = {"qwen2_vl": "qwen", "qwen2_5_vl": "qwen", "qwen3_vl": "qwen", "qwen3_5": "qwen",
           "glm4v": "glm", "gemma3": "gemma", "smolvlm": "smol", "idefics3": "smol",
           "llava": "llava", "llava_next": "llava", "llava_onevision": "llava",
           "internvl": "internvl"}  # fmt: skip
_SPECIAL = {
    "qwen": [
        *("<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>"),
        *("<|image_pad|>", "<|video_pad|>"),
    ],
    "glm": [
        *("<|im_start|>", "<|im_end|>", "<|begin_of_image|>", "<|image|>", "<|end_of_image|>"),
        *("<|begin_of_video|>", "<|video|>", "<|end_of_video|>"),
    ],
    "gemma": [
        *("<|im_start|>", "<|im_end|>", "<start_of_image>", "<end_of_image>"),
        "<image_soft_token>",
    ],
    "smol": [
        *("<|im_start|>", "<end_of_utterance>", "<image>", "<fake_token_around_image>"),
        *("<global-img>", "<row_1_col_1>", "<row_1_col_2>", "<row_2_col_1>", "<row_2_col_2>"),
    ],
    "llava": ["<|im_start|>", "<|im_end|>", "<image>", "<video>"],
    "internvl": [
        *("<|im_start|>", "<|im_end|>", "<img>", "</img>", "<IMG_CONTEXT>", "<video>"),
    ],
}  # fmt: skip
_NAMED = {
    "gemma3": {
        "extra_special_tokens": {
            "boi_token": "<start_of_image>",
            "eoi_token": "<end_of_image>",
            "image_token": "<image_soft_token>",
        }
    },
    "internvl": {
        "extra_special_tokens": {
            "start_image_token": "<img>",
            "end_image_token": "</img>",
            "context_image_token": "<IMG_CONTEXT>",
            "video_token": "<video>",
        }
    },
}


def _text(tokenizer: Any, **others: Any) -> dict[str, Any]:
    return {
        "vocab_size": len(tokenizer), "hidden_size": _HIDDEN, "intermediate_size": _FEED,
        "num_hidden_layers": _LAYERS, "num_attention_heads": _HEADS,
        "num_key_value_heads": _KV_HEADS, "max_position_embeddings": _CONTEXT,
        "bos_token_id": None, "tie_word_embeddings": True, **others,
    }  # fmt: skip


def _qwen(kind: str, tokenizer: Any) -> tuple[Any, Any, Any]:
    size = _HIDDEN // _HEADS
    vision: dict[str, Any] = {
        "depth": 2, "patch_size": 8, "temporal_patch_size": 2, "spatial_merge_size": 2,
    }  # fmt: skip
    sections = [size // 2 - 2 * (size // 6), size // 6, size // 6]
    others: dict[str, Any] = {
        "rope_parameters": {
            "rope_type": "default", "rope_theta": 10000.0, "mrope_section": sections
        }
    }  # fmt: skip
    if kind == "qwen2_vl":
        vision |= {"embed_dim": 32, "hidden_size": _HIDDEN, "num_heads": 2, "mlp_ratio": 2}
    elif kind == "qwen2_5_vl":
        vision |= {"hidden_size": 32, "num_heads": 2, "intermediate_size": 48}
        vision |= {"out_hidden_size": _HIDDEN, "window_size": 32, "fullatt_block_indexes": [1]}
    else:
        vision |= {"hidden_size": 32, "num_heads": 2, "intermediate_size": 48}
        vision |= {"out_hidden_size": _HIDDEN, "num_position_embeddings": 16}
        others |= {"head_dim": size}
        others["rope_parameters"]["mrope_interleaved"] = True  # which vLLM goes by
    if kind == "qwen3_vl":
        vision |= {"deepstack_visual_indexes": [0, 1]}
    if kind == "qwen3_5":
        others |= {
            "layer_types": ["linear_attention", "full_attention"], "linear_num_key_heads": 1,
            "linear_num_value_heads": 2, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
        }  # fmt: skip
        others["rope_parameters"]["partial_rotary_factor"] = 1.0
    names = {"qwen2_vl": "Qwen2VL", "qwen2_5_vl": "Qwen2_5_VL", "qwen3_vl": "Qwen3VL",
             "qwen3_5": "Qwen3_5"}  # fmt: skip
    token = tokenizer.convert_tokens_to_ids
    config = getattr(transformers, f"{names[kind]}Config")(
        text_config=_text(tokenizer, **others), vision_config=vision, tie_word_embeddings=True,
        image_token_id=token("<|image_pad|>"), video_token_id=token("<|video_pad|>"),
        vision_start_token_id=token("<|vision_start|>"),
        vision_end_token_id=token("<|vision_end|>"),
    )  # fmt: skip
    images = transformers.Qwen2VLImageProcessorPil(
        patch_size=8, temporal_patch_size=2, merge_size=2,
        size={"shortest_edge": 16 * 16, "longest_edge": 64 * 64},
    )  # fmt: skip
    place = "<|vision_start|><|image_pad|><|vision_end|>"
    processor = "Qwen3VL" if kind == "qwen3_5" else names[kind]
    template = _TURNS.replace("IMAGE", place)
    return _built(names[kind], config, images, tokenizer, template, processor=processor)


def _gemma(kind: str, tokenizer: Any) -> tuple[Any, Any, Any]:
    token = tokenizer.convert_tokens_to_ids
    config = transformers.Gemma3Config(
        text_config=_text(
            tokenizer, head_dim=32, query_pre_attn_scalar=32, sliding_window=16,
            layer_types=["sliding_attention", "full_attention"],
        ),
        vision_config={
            "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
            "num_attention_heads": 2, "image_size": 32, "patch_size": 8,
        },
        mm_tokens_per_image=4, image_token_index=token("<image_soft_token>"),
        boi_token_index=token("<start_of_image>"), eoi_token_index=token("<end_of_image>"),
        tie_word_embeddings=True,
    )  # fmt: skip
    images = transformers.Gemma3ImageProcessorPil(size={"height": 32, "width": 32})
    template = _TURNS.replace("IMAGE", "<start_of_image>")
    return _built("Gemma3", config, images, tokenizer, template, image_seq_length=4)


def _smol(kind: str, tokenizer: Any) -> tuple[Any, Any, Any]:
    name = {"smolvlm": "SmolVLM", "idefics3": "Idefics3"}[kind]
    token = tokenizer.convert_tokens_to_ids("<image>")
    text = _text(tokenizer, model_type="llama", pad_token_id=tokenizer.pad_token_id)
    config = getattr(transformers, f"{name}Config")(
        text_config=text, scale_factor=2, image_token_id=token, tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        vision_config={
            "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
            "num_attention_heads": 2, "image_size": 32, "patch_size": 8,
        },
    )  # fmt: skip
    images = getattr(transformers, f"{name}ImageProcessorPil")(
        size={"longest_edge": 64}, max_image_size={"longest_edge": 32}, do_image_splitting=False
    )
    return _built(name, config, images, tokenizer, _SMOL, image_seq_len=4)


def _glm(kind: str, tokenizer: Any) -> tuple[Any, Any, Any]:
    ids = {
        f"{name}_token_id": tokenizer.convert_tokens_to_ids(f"<|{token}|>")
        for kind in ("image", "video")
        for name, token in (
            (kind, kind), (f"{kind}_start", f"begin_of_{kind}"), (f"{kind}_end", f"end_of_{kind}")
        )
    }  # fmt: skip
    rotation = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5,
                "mrope_section": [2, 3, 3]}  # fmt: skip
    config = transformers.Glm4vConfig(
        text_config=_text(tokenizer, rope_parameters=rotation), tie_word_embeddings=True, **ids,
        vision_config={
            "depth": 2, "hidden_size": 32, "num_heads": 2, "intermediate_size": 48,
            "out_hidden_size": _HIDDEN, "image_size": 32, "patch_size": 8,
            "temporal_patch_size": 2, "spatial_merge_size": 2,
        },
    )  # fmt: skip
    images = transformers.Glm4vImageProcessorPil(
        patch_size=8, temporal_patch_size=2, merge_size=2,
        size={"shortest_edge": 16 * 16, "longest_edge": 2 * 64 * 64},
    )  # fmt: skip
    place = "<|begin_of_image|><|image|><|end_of_image|>"
    return _built("Glm4v", config, images, tokenizer, _TURNS.replace("IMAGE", place))


def _llava(kind: str, tokenizer: Any) -> tuple[Any, Any, Any]:
    name = {"llava": "Llava", "llava_next": "LlavaNext", "llava_onevision": "LlavaOnevision"}[kind]
    is_plain, is_onevision = kind == "llava", kind == "llava_onevision"
    grid = {} if is_plain else {"image_grid_pinpoints": [[32, 64], [64, 32], [64, 64]]}
    features = "full" if is_onevision else "default"
    token = tokenizer.convert_tokens_to_ids
    config = getattr(transformers, f"{name}Config")(
        text_config=_text(tokenizer, model_type="qwen2" if is_onevision else "llama"),
        vision_config={
            "model_type": "siglip_vision_model" if is_onevision else "clip_vision_model",
            "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
            "num_attention_heads": 2, "image_size": 32, "patch_size": 8,
        },
        image_token_index=token("<image>"), vision_feature_layer=-1, tie_word_embeddings=True,
        vision_feature_select_strategy=features, **grid,
        **({"video_token_index": token("<video>")} if is_onevision else {"image_seq_length": 16}),
    )  # fmt: skip
    size = {"height": 32, "width": 32}
    sizes = {"size": size} if is_onevision else {"size": {"shortest_edge": 32}, "crop_size": size}
    processor = "CLIP" if is_plain else name
    images = getattr(transformers, f"{processor}ImageProcessorPil")(**sizes, **grid)
    counts = {"patch_size": 8, "num_additional_image_tokens": 1}
    return _built(
        name, config, images, tokenizer, _TURNS.replace("IMAGE", "<image>"),
        vision_feature_select_strategy=features,
        **({"num_image_tokens": 16} if is_onevision else counts),
    )  # fmt: skip


def _internvl(kind: str, tokenizer: Any) -> tuple[Any, Any, Any]:
    config = transformers.InternVLConfig(
        text_config=_text(tokenizer, model_type="qwen2"),
        vision_config={
            "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
            "num_attention_heads": 2, "image_size": [32, 32], "patch_size": [8, 8],
        },
        image_token_id=tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>"), downsample_ratio=0.5,
        tie_word_embeddings=True,
    )  # fmt: skip
    images = transformers.GotOcr2ImageProcessorPil(
        size={"height": 32, "width": 32}, crop_to_patches=False
    )
    template = _TURNS.replace("IMAGE", "<IMG_CONTEXT>")
    return _built("InternVL", config, images, tokenizer, template, image_seq_length=4)


def _built(
    name: str, config: Any, image_processor: Any, tokenizer: Any, template: str,
    processor: str = "", **options: Any,
) -> tuple[Any, Any, Any]:  # fmt: skip
    tokenizer.chat_template = template
    made = processors.of_parts(
        getattr(transformers, f"{processor or name}Processor"),
        image_processor, tokenizer, chat_template=template, **options,
    )  # fmt: skip
    return getattr(transformers, f"{name}ForConditionalGeneration"), config, made


_BUILDERS: dict[str, Callable[..., tuple[Any, Any, Any]]] = {
    "qwen2_vl": _qwen, "qwen2_5_vl": _qwen, "qwen3_vl": _qwen, "qwen3_5": _qwen,
    "glm4v": _glm, "gemma3": _gemma, "smolvlm": _smol, "idefics3": _smol, "llava": _llava,
    "llava_next": _llava, "llava_onevision": _llava, "internvl": _internvl,
}  # fmt: skip
