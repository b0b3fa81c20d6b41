"""Images for vLLM: processed as the trainer does, in prompts as the policy sees them.

By default vLLM loads a processor that needs torchvision, whose pixels are not quite those of
Pillow, and replaces one placeholder by the tokens of an image. Here it gets rlvr's processor, and
prompts in which each image already has all of its tokens.
"""

import contextlib
import copy
import functools
import hashlib
import importlib
import importlib.util
import os
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rlvr_cli.engines.rollout import _vllm_install
from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.models import (
    engine_choice,
    images,
    lora,
    policy as policies,
    pretrained,
    tokenizers,
    vision_part,
)
from rlvr_cli.models.policy import Loaded, Policy
from rlvr_cli.protocols import Request

VARIABLE = "RLVR_VLLM_IMAGES"  # for vLLM's own processes: the policy, where it reads images
# vLLM's code for these, and others that build on it, imports what needs torchvision and works
# without: a function of sizes, and a class that is named in types.
_IMPORTED = {"qwen2_vl": "Qwen2VL", "gemma3": "Gemma3"}
_TRANSFORMERS = "sample with --engine transformers"


def prepare(policy: Policy, loaded: Loaded | None = None) -> dict[str, Any]:
    """Makes vLLM ready for a policy that reads images; the arguments that it starts with.

    vLLM leaves out adapters of what reads images, which the policy or a trainer's `loaded` one may
    have, unless they are requested.
    """
    os.environ[VARIABLE] = str((policy.base or policy).path.resolve())
    prepare_process()
    chosen: dict[str, Any] = {"skip_tokenizer_init": False, "limit_mm_per_prompt": {"video": 0}}
    if lora.adapts_vision(policy.path) or (loaded and vision_part.is_adapted(loaded.model)):
        chosen["enable_tower_connector_lora"] = True
    return chosen | dict.fromkeys(_normalising(), False)


def words() -> list[str]:
    """The same for vLLM's server, as options of its command line."""
    return ["--limit-mm-per-prompt", '{"video": 0}'] + [
        f"--no-{name.replace('_', '-')}" for name in _normalising()
    ]


def prepare_process() -> None:
    """Makes vLLM ready in a process of its own, where the variable names a policy."""
    if path := os.environ.get(VARIABLE):
        install()
        load_classes(policies.resolve(path))


def _normalising() -> list[str]:
    """The option of newer vLLMs that has them normalise pixels on the device.

    They do it by what counts there as weights: random ones, where a vLLM starts without a model's
    and waits for the trainer's.
    """
    _vllm_install.import_vllm()
    from vllm.engine.arg_utils import EngineArgs

    return [name for name in ("mm_device_do_normalize",) if name in EngineArgs.__dataclass_fields__]


@functools.cache
def install() -> None:
    """Has vLLM in this process take rlvr's processors, and prompts that are expanded already."""
    _vllm_install.import_vllm()
    from vllm.multimodal.processing import BaseMultiModalProcessor, InputProcessingContext

    InputProcessingContext.get_hf_processor = _with_own(InputProcessingContext.get_hf_processor)
    apply = BaseMultiModalProcessor._apply_prompt_updates
    BaseMultiModalProcessor._apply_prompt_updates = _unless_expanded(apply)


def load_classes(policy: Policy) -> None:
    """Imports vLLM's code for the policy where there is no torchvision, which it asks for."""
    if importlib.util.find_spec("torchvision"):
        return
    from vllm import ModelRegistry

    with _pillow_for_torchvision():
        for name in pretrained.config(policy.path).architectures or ():
            if name not in ModelRegistry.models:
                continue
            try:
                model = ModelRegistry.models[name].load_model_cls()
            except ImportError as error:
                raise UsageError(
                    f"vLLM {engine_choice.vllm_version()} needs torchvision to run {name}, and it "
                    "is not installed",
                    f"install the torchvision of your torch, or {_TRANSFORMERS}",
                ) from error
            ModelRegistry.register_model(name, model)  # vLLM would import it in another process


def prompt(request: Request) -> dict[str, Any]:
    """A request's prompt as vLLM takes it, images by the digest of their bytes included."""
    given: dict[str, Any] = {"prompt_token_ids": list(map(int, request.prompt_token_ids))}
    if request.images:
        given["multi_modal_data"] = {"image": [_decoded(data) for data in request.images]}
        given["multi_modal_uuids"] = {"image": [_digest(data) for data in request.images]}
    return given


def check_attention(config: Any, *, has_gpu: bool) -> None:
    """Refuses images whose tokens attend to each other, which vLLM computes only on a GPU.

    `config` is vLLM's of the model.
    """
    if not has_gpu and config.is_mm_prefix_lm:
        raise UsageError(
            f"the tokens of an image attend to each other in `{config.model}`, but in vLLM for "
            "CPUs each attends only to the earlier ones",
            _TRANSFORMERS,
        )


def check_prompt(request: Request, used: list[int]) -> None:
    """An error unless vLLM used the token ids of the request."""
    if request.images and list(used) != list(request.prompt_token_ids):
        raise DataError(
            f"vLLM encoded a prompt with {len(request.images)} images as {len(used)} tokens, and "
            f"the policy's processor as {len(request.prompt_token_ids)} others",
            f"report it with the version of vLLM, and {_TRANSFORMERS}",
        )


def _with_own(load: Callable[..., Any]) -> Callable[..., Any]:
    def get(context: Any, typ: Any = None, /, **options: Any) -> Any:
        own = _processor(context.model_config.model)
        return load(context, typ, **options) if own is None else own

    return get


@functools.cache
def _processor(path: str) -> Any:
    """rlvr's processor of a policy, as vLLM asks it; None of one that reads no images.

    vLLM asks for settings of videos even where it is to take none.
    """
    own = tokenizers.load_processor(policies.resolve(path))
    if own is None:
        return None
    processor = copy.copy(own)
    processor.video_processor = own.image_processor
    if importlib.util.find_spec("torchvision"):
        from transformers import AutoVideoProcessor

        with contextlib.suppress(OSError, ValueError, ImportError):  # a model without videos
            processor.video_processor = AutoVideoProcessor.from_pretrained(
                path, trust_remote_code=False
            )
    return processor


def _unless_expanded(apply: Callable[..., Any]) -> Callable[..., Any]:
    def expand(processor: Any, token_ids: list[int], updates: Mapping[str, Any]) -> Any:
        placeholders = processor._find_mm_placeholders(token_ids, updates)
        if any(len(placeholders.get(kind, ())) != len(items) for kind, items in updates.items()):
            return apply(processor, token_ids, updates)  # a prompt of vLLM's own, to measure memory
        places = {
            index
            for items in placeholders.values()
            for item in items
            for index in range(item.start_idx, item.start_idx + item.length)
        }
        ids = images.placeholder_ids(processor.info.get_hf_processor())
        if stray := sum(
            token in ids and index not in places for index, token in enumerate(token_ids)
        ):
            raise DataError(
                f"a prompt has {stray} image tokens more than vLLM makes of its images",
                f"report it with the version of vLLM, and {_TRANSFORMERS}",
            )
        return token_ids, placeholders

    return expand


@contextlib.contextmanager
def _pillow_for_torchvision() -> Iterator[None]:
    """While vLLM's code is imported, image processors with torchvision are those with Pillow."""
    stand_ins = {}
    for kind, name in _IMPORTED.items():
        folder, own = f"transformers.models.{kind}", f"{name}ImageProcessor"
        pillow = vars(importlib.import_module(f"{folder}.image_processing_pil_{kind}"))
        stand_in = types.ModuleType(f"{folder}.image_processing_{kind}")
        public = {key: value for key, value in pillow.items() if not key.startswith("_")}
        vars(stand_in).update(public, **{own: pillow[f"{own}Pil"]})
        stand_ins[stand_in.__name__] = stand_in
    before = {place: sys.modules[place] for place in stand_ins if place in sys.modules}
    sys.modules.update(stand_ins)
    try:
        yield
    finally:
        for place in stand_ins:
            del sys.modules[place]
        sys.modules.update(before)


@functools.lru_cache(maxsize=16)
def _decoded(data: bytes) -> Any:
    return images.decoded(data)


@functools.lru_cache(maxsize=1024)
def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
